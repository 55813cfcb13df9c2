use super::*;

fn tls_options(required: bool) -> TlsOptions {
    TlsOptions { required, files: TlsFiles::in_dir(Path::new("/certs")) }
}

fn parse(text: &str) -> Result<EngineTransport, AddressError> {
    EngineTransport::parse(text, &tls_options(false))
}

fn tcp(authority: &str, tls: Option<TlsFiles>) -> EngineTransport {
    EngineTransport::Tcp { authority: authority.to_owned(), tls }
}

#[test]
fn the_forms_that_docker_host_may_have_are_understood() {
    let certs = || Some(TlsFiles::in_dir(Path::new("/certs")));
    assert_eq!(parse("unix:///run/x.sock"), Ok(EngineTransport::Unix("/run/x.sock".into())));
    assert_eq!(parse(" unix:///a b/x.sock "), Ok(EngineTransport::Unix("/a b/x.sock".into())));
    assert_eq!(parse("tcp://host:1234"), Ok(tcp("host:1234", None)));
    assert_eq!(parse("http://host:1234/"), Ok(tcp("host:1234", None)));
    assert_eq!(parse("host:1234"), Ok(tcp("host:1234", None)));
    assert_eq!(parse("tcp://host"), Ok(tcp("host:2375", None)));
    assert_eq!(parse("tcp://[::1]"), Ok(tcp("[::1]:2375", None)));
    assert_eq!(parse("tcp://[::1]:7"), Ok(tcp("[::1]:7", None)));
    assert_eq!(parse("https://host"), Ok(tcp("host:2376", certs())));
    assert_eq!(
        EngineTransport::parse("tcp://host", &tls_options(true)),
        Ok(tcp("host:2376", certs()))
    );
    let ssh = |user: Option<&str>, host: &str, port| {
        Ok(EngineTransport::Ssh(SshLogin {
            user: user.map(str::to_owned),
            host: host.to_owned(),
            port,
        }))
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
        ("unix://", "absolute path"),
        ("unix://relative.sock", "absolute path"),
        ("tcp://", "by a host"),
        ("tcp:///x", "by a host"),
        ("ssh://", "by a host"),
        ("ssh://@host", "ssh:// must be followed"),
        ("ssh://user@", "ssh:// must be followed"),
        ("ssh://-oProxyCommand=x", "ssh:// must be followed"),
        ("ssh://-v", "ssh:// must be followed"),
        ("ssh://-v@host", "ssh:// must be followed"),
        ("ssh://a$(id)", "ssh:// must be followed"),
        ("ssh://user@host:port", "ssh:// must be followed"),
        ("ssh://user@host:99999", "ssh:// must be followed"),
        ("ssh://[::1]22", "ssh:// must be followed"),
        ("npipe:////./pipe/docker_engine", "npipe://"),
        ("fd://3", "fd://"),
        ("tcp://a b", "by a host"),
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
    let shown = |source| Address { transport: parse("unix:///x").unwrap(), source }.to_string();
    assert_eq!(shown(AddressSource::DockerHost), "unix:///x (DOCKER_HOST)");
    assert_eq!(shown(AddressSource::Default), "unix:///x");
    let source = AddressSource::Context { name: "far".to_owned(), chosen_by: "DOCKER_CONTEXT" };
    assert_eq!(shown(source), "unix:///x (context far, DOCKER_CONTEXT)");
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
    let tls_options = TlsOptions::of(&env, config);
    assert_eq!(
        tls_options,
        TlsOptions { required: true, files: TlsFiles::in_dir(Path::new("/c")) }
    );
    let tls_options = TlsOptions::of(&Environment::from_pairs([("DOCKER_TLS_VERIFY", "")]), config);
    assert_eq!(tls_options, TlsOptions { required: false, files: TlsFiles::in_dir(config) });
}
