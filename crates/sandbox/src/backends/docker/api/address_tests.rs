use super::*;

fn wish(always: bool) -> TlsWish {
    TlsWish { always, material: Tls::in_dir(Path::new("/certs")) }
}

fn parse(text: &str) -> Result<Transport, AddressError> {
    Transport::parse(text, &wish(false))
}

fn tcp(authority: &str, tls: Option<Tls>) -> Transport {
    Transport::Tcp { authority: authority.to_owned(), tls }
}

#[test]
fn the_forms_that_docker_host_may_have_are_understood() {
    let certs = || Some(Tls::in_dir(Path::new("/certs")));
    assert_eq!(parse("unix:///run/x.sock"), Ok(Transport::Unix("/run/x.sock".into())));
    assert_eq!(parse(" unix:///a b/x.sock "), Ok(Transport::Unix("/a b/x.sock".into())));
    assert_eq!(parse("tcp://host:1234"), Ok(tcp("host:1234", None)));
    assert_eq!(parse("http://host:1234/"), Ok(tcp("host:1234", None)));
    assert_eq!(parse("host:1234"), Ok(tcp("host:1234", None)));
    assert_eq!(parse("tcp://host"), Ok(tcp("host:2375", None)));
    assert_eq!(parse("tcp://[::1]"), Ok(tcp("[::1]:2375", None)));
    assert_eq!(parse("tcp://[::1]:7"), Ok(tcp("[::1]:7", None)));
    assert_eq!(parse("https://host"), Ok(tcp("host:2376", certs())));
    assert_eq!(Transport::parse("tcp://host", &wish(true)), Ok(tcp("host:2376", certs())));
    let ssh = |user: Option<&str>, host: &str, port| {
        Ok(Transport::Ssh(Login { user: user.map(str::to_owned), host: host.to_owned(), port }))
    };
    assert_eq!(parse("ssh://me@host:2222"), ssh(Some("me"), "host", Some(2222)));
    assert_eq!(parse("SSH://host"), ssh(None, "host", None));
    assert_eq!(parse("ssh://me@[::1]:22/ignored"), ssh(Some("me"), "::1", Some(22)));
    for text in ["ssh://me@[::1]:22", "ssh://host", "ssh://me@host:2222"] {
        assert_eq!(parse(text).unwrap().to_string(), text);
    }
}

#[test]
fn what_is_no_address_is_refused_for_a_reason() {
    for (text, part) in [
        ("", "empty"),
        ("   ", "empty"),
        ("unix://", "no socket"),
        ("unix://relative.sock", "no socket"),
        ("tcp://", "no host"),
        ("tcp:///x", "no host"),
        ("ssh://", "no host"),
        ("ssh://@host", "no login"),
        ("ssh://user@", "no login"),
        ("ssh://-oProxyCommand=x", "no login"),
        ("ssh://-v", "no login"),
        ("ssh://-v@host", "no login"),
        ("ssh://a$(id)", "no login"),
        ("ssh://user@host:port", "no login"),
        ("ssh://user@host:99999", "no login"),
        ("ssh://[::1]22", "no login"),
        ("npipe:////./pipe/docker_engine", "npipe://"),
        ("fd://3", "fd://"),
        ("tcp://a b", "no host"),
        ("unix:///x\u{7}y", "not UTF-8"),
    ] {
        let error = parse(text).unwrap_err();
        assert!(error.to_string().contains(part), "{text:?}: {error}");
    }
    assert!(parse(&format!("unix:///{}", "x".repeat(5000))).is_err());
}

#[test]
fn a_password_in_an_address_is_refused_and_not_repeated() {
    for text in ["ssh://me:hunter2@host", "tcp://me:hunter2@host:1", "https://hunter2@host"] {
        let error = parse(text).unwrap_err();
        assert_eq!(error, AddressError::Password);
        assert!(!error.to_string().contains("hunter2"));
    }
}

#[test]
fn an_address_says_where_it_comes_from() {
    let shown = |origin| Address { transport: parse("unix:///x").unwrap(), origin }.to_string();
    assert_eq!(shown(Origin::DockerHost), "unix:///x (DOCKER_HOST)");
    assert_eq!(shown(Origin::Usual), "unix:///x");
    let origin = Origin::Context { name: "far".to_owned(), chosen_by: "DOCKER_CONTEXT" };
    assert_eq!(shown(origin), "unix:///x (context far, DOCKER_CONTEXT)");
}

#[test]
fn only_sockets_are_on_this_machine() {
    assert!(!parse("unix:///x").unwrap().is_remote());
    assert!(parse("tcp://127.0.0.1:1").unwrap().is_remote());
    assert!(parse("ssh://localhost").unwrap().is_remote());
}

#[test]
fn the_material_for_tls_is_where_the_variables_say() {
    let config = Path::new("/home/me/.docker");
    let env = Environment::from_pairs([("DOCKER_TLS_VERIFY", "1"), ("DOCKER_CERT_PATH", "/c")]);
    let wish = TlsWish::of(&env, config);
    assert_eq!(wish, TlsWish { always: true, material: Tls::in_dir(Path::new("/c")) });
    let wish = TlsWish::of(&Environment::from_pairs([("DOCKER_TLS_VERIFY", "")]), config);
    assert_eq!(wish, TlsWish { always: false, material: Tls::in_dir(config) });
}
