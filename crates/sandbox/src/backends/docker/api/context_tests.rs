use std::fs;

use tempfile::TempDir;
use vestal_config::{Home, Override};

use super::*;

/// A user with a home directory and nothing else.
struct User {
    dir: TempDir,
}

impl User {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Makes a context whose metadata are this text.
    fn context(&self, name: &str, meta: impl AsRef<[u8]>) -> String {
        let id = crate::key::hex(&Sha256::digest(name.as_bytes()));
        self.write(&format!(".docker/contexts/meta/{id}/meta.json"), meta);
        id
    }

    fn choose_engine(
        &self,
        variables: &[(&str, &str)],
        sets: &[&str],
    ) -> Result<EngineChoice, BackendError> {
        let home = self.dir.path().to_str().unwrap();
        let environment =
            Environment::from_pairs([("HOME", home)].into_iter().chain(variables.iter().copied()));
        let overrides =
            sets.iter().map(|text| Override::parse(&crate::schema(), text).unwrap()).collect();
        choose_engine(&Settings::load(
            &crate::schema(),
            Home::at(self.path("vestal")),
            environment,
            overrides,
        ))
    }

    fn named(&self, variables: &[(&str, &str)]) -> Address {
        match self.choose_engine(variables, &[]).unwrap() {
            EngineChoice::Fixed(address) => address,
            EngineChoice::Search(search) => panic!("{search:?}"),
        }
    }

    fn search(&self, variables: &[(&str, &str)], sets: &[&str]) -> ContextSearch {
        match self.choose_engine(variables, sets).unwrap() {
            EngineChoice::Search(search) => search,
            EngineChoice::Fixed(address) => panic!("{address:?}"),
        }
    }
}

fn host(address: &str) -> String {
    serde_json::json!({"Name": "x", "Endpoints": {"docker": {"Host": address}}}).to_string()
}

fn sockets(search: &ContextSearch) -> Vec<String> {
    search.sockets.iter().map(|address| address.transport.to_string()).collect()
}

const USE_FAR: &str = r#"{"currentContext": "far", "auths": {}}"#;

#[test]
fn the_more_explicit_choice_of_an_engine_wins() {
    let user = User::new();
    user.write(".docker/config.json", USE_FAR);
    user.context("far", host("unix:///far.sock"));
    user.context("near", host("unix:///near.sock"));
    let all = [
        ("CONTAINER_HOST", "unix:///container.sock"),
        ("DOCKER_CONTEXT", "near"),
        ("DOCKER_HOST", "unix:///host.sock"),
    ];
    let shown = |count: usize| user.named(&all[..count]).to_string();
    assert_eq!(shown(3), "unix:///host.sock (DOCKER_HOST)");
    assert_eq!(shown(2), "unix:///near.sock (context near, DOCKER_CONTEXT)");
    assert_eq!(shown(1), "unix:///far.sock (context far, the docker CLI's current context)");
    fs::remove_file(user.path(".docker/config.json")).unwrap();
    assert_eq!(shown(1), "unix:///container.sock (CONTAINER_HOST)");
}

#[test]
fn empty_variables_and_the_context_default_choose_nothing() {
    let user = User::new();
    user.write(".docker/config.json", r#"{"currentContext": "default"}"#);
    let variables = [("DOCKER_HOST", ""), ("CONTAINER_HOST", ""), ("DOCKER_CONTEXT", "")];
    user.search(&variables, &[]);
    user.write(".docker/config.json", USE_FAR);
    user.search(&[("DOCKER_CONTEXT", "default")], &[]);
}

#[test]
fn the_default_sockets_are_tried_in_order() {
    let search = User::new().search(&[("XDG_RUNTIME_DIR", "/run/user/7")], &[]);
    let mut expected = vec![
        "unix:///var/run/docker.sock",
        "unix:///run/docker.sock",
        "unix:///run/user/7/docker.sock",
        "unix:///run/user/7/podman/podman.sock",
    ];
    if rustix::process::geteuid().is_root() {
        expected.push("unix:///run/podman/podman.sock");
    }
    assert_eq!(sockets(&search), expected);
    let relative = Environment::from_pairs([("XDG_RUNTIME_DIR", "run")]);
    let others = default_sockets(&relative, Family::Any, false);
    assert_eq!(others.len(), 2, "roots podman is not for others: {others:?}");
}

#[test]
fn podman_is_started_only_when_it_is_on_the_path() {
    let user = User::new();
    assert_eq!(user.search(&[("PATH", "/nowhere")], &[]).podman, PodmanProgram::Missing);
    let bin = user.path("bin");
    user.write("bin/podman", "#!/bin/sh\n");
    let path = format!("relative:/nowhere:{}", bin.display());
    let found = || user.search(&[("PATH", &path)], &[]).podman;
    assert_eq!(found(), PodmanProgram::Missing, "it may not be executed");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(bin.join("podman"), mode).unwrap();
    assert_eq!(found(), PodmanProgram::At(bin.join("podman")));
}

#[test]
fn the_setting_chooses_the_family() {
    let user = User::new();
    let host = [("DOCKER_HOST", "unix:///host.sock"), ("CONTAINER_HOST", "unix:///c.sock")];
    let chosen = |set: &str, variables| match user.choose_engine(variables, &[set]).unwrap() {
        EngineChoice::Fixed(address) => address.to_string(),
        EngineChoice::Search(search) => sockets(&search).join(" "),
    };
    let docker = "terminal.docker_binary=/opt/docker";
    let podman = "terminal.docker_binary=/opt/podman-5";
    assert_eq!(chosen(docker, &host), "unix:///host.sock (DOCKER_HOST)");
    assert_eq!(chosen(podman, &host), "unix:///c.sock (CONTAINER_HOST)");
    assert_eq!(chosen(docker, &host[1..]), "unix:///var/run/docker.sock unix:///run/docker.sock");
    let runtime = [("XDG_RUNTIME_DIR", "/r")];
    assert!(chosen(podman, &runtime).starts_with("unix:///r/podman/podman.sock"));
    assert_eq!(user.search(&runtime, &[docker]).podman, PodmanProgram::NotUsed);
    assert_eq!(user.search(&runtime, &[podman]).podman, PodmanProgram::Missing);
    let error = user.choose_engine(&[], &["terminal.docker_binary=/opt/nerdctl"]).unwrap_err();
    assert!(error.to_string().contains("/opt/nerdctl"), "{error}");
}

#[test]
fn a_context_brings_its_own_certificates() {
    let user = User::new();
    let id = user.context("far", host("tcp://far:2376"));
    let tls = |address: Address| match address.transport {
        EngineTransport::Tcp { tls, .. } => tls,
        other => panic!("{other:?}"),
    };
    let variables = [("DOCKER_CONTEXT", "far"), ("DOCKER_TLS_VERIFY", "1")];
    assert_eq!(tls(user.named(&variables)), None, "the variables are for DOCKER_HOST");
    let dir = format!(".docker/contexts/tls/{id}/docker");
    user.write(&format!("{dir}/ca.pem"), "");
    assert_eq!(tls(user.named(&variables)), Some(TlsFiles::in_dir(&user.path(&dir))));
}

#[test]
fn docker_config_says_where_contexts_are() {
    let user = User::new();
    let elsewhere = User::new();
    elsewhere.context("far", host("ssh://me@far"));
    let config = elsewhere.path(".docker");
    let variables = [("DOCKER_CONFIG", config.to_str().unwrap()), ("DOCKER_CONTEXT", "far")];
    assert_eq!(user.named(&variables).transport.to_string(), "ssh://me@far");
}

#[test]
fn garbage_in_the_docker_programs_files_is_an_error_that_names_the_file() {
    let user = User::new();
    for garbage in ["", "{", "[]", "\u{0}", r#"{"currentContext": 7}"#, "null"] {
        user.write(".docker/config.json", garbage);
        let error = user.choose_engine(&[], &[]).unwrap_err();
        assert!(error.to_string().contains("config.json cannot be read"), "{garbage:?}: {error}");
    }
    user.write(".docker/config.json", vec![b' '; 2 << 20]);
    assert!(user.choose_engine(&[], &[]).unwrap_err().to_string().contains("too large"));
    user.write(".docker/config.json", r#"{"auths": {"x": {"auth": "c2VjcmV0OnNlY3JldA=="}"#);
    let error = user.choose_engine(&[], &[]).unwrap_err().to_string();
    assert!(!error.contains("c2Vj"), "{error}");
}

#[test]
fn a_context_that_cannot_be_used_is_an_error_that_names_it() {
    let user = User::new();
    let problem = |meta: &str| {
        user.context("far", meta);
        user.choose_engine(&[("DOCKER_CONTEXT", "far")], &[]).unwrap_err().to_string()
    };
    assert!(problem("{}").contains("context far (DOCKER_CONTEXT)"));
    assert!(problem("{}").contains("names no Docker engine"));
    assert!(problem(&host("")).contains("names no Docker engine"));
    assert!(problem(&host("gopher://x")).contains("gopher://"));
    assert!(problem("{").contains("meta.json cannot be read"));
    let skip = r#"{"Endpoints": {"docker": {"Host": "tcp://x:1", "SkipTLSVerify": true}}}"#;
    assert!(problem(skip).contains("verification of TLS certificates"));
    let absent = user.choose_engine(&[("DOCKER_CONTEXT", "../../none\n")], &[]).unwrap_err();
    assert!(absent.to_string().contains("no context has that name"), "{absent}");
}

#[test]
fn an_address_that_cannot_be_used_is_an_error_that_names_the_variable() {
    let user = User::new();
    let problem = |name, value| user.choose_engine(&[(name, value)], &[]).unwrap_err();
    let error = problem("DOCKER_HOST", "gopher://x");
    assert!(error.to_string().starts_with("DOCKER_HOST cannot be used"), "{error}");
    assert!(error.advice().unwrap().contains("unset"));
    let error = problem("CONTAINER_HOST", "ssh://me@far");
    assert!(error.to_string().starts_with("CONTAINER_HOST cannot be used"), "{error}");
}
