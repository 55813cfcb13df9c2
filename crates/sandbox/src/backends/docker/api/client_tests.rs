use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;
use tokio::net::UnixListener;

use super::super::fake_engine::{FakeEngine, answer, settings};
use super::*;

async fn connect(engine: &FakeEngine) -> EngineClient {
    EngineClient::connect(&engine.settings(), &engine.path("run")).await.unwrap()
}

fn message_and_advice(error: &BackendError) -> (String, String) {
    (error.to_string(), error.advice().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn requests_name_the_version_that_both_sides_speak() {
    let engine = FakeEngine::start(|_| answer("200 OK", "{}"));
    let client = connect(&engine).await;
    client.api().info().await.unwrap();
    client.api().inspect_image("a/b:c").await.unwrap();
    let requests = engine.requests();
    let line = |index: usize| requests[index].lines().next().unwrap_or_default();
    assert_eq!(line(0), "GET /v1.41/info HTTP/1.1");
    assert_eq!(line(1), "GET /v1.41/images/a/b:c/json HTTP/1.1");
}

#[tokio::test]
async fn the_engine_is_asked_once_what_it_is() {
    let engine = FakeEngine::start(|_| answer("200 OK", &json!({"ID": "A:B"}).to_string()));
    let client = connect(&engine).await;
    assert_eq!(client.info().await.unwrap().id, "A:B");
    assert_eq!(client.clone().info().await.unwrap().api_version, "1.41");
    assert_eq!(engine.requests().len(), 1);
    assert_eq!(client.flavour(), Flavour::Docker);
    assert!(!client.is_remote());
    assert!(client.address().ends_with("engine.sock (DOCKER_HOST)"), "{}", client.address());
    client.ensure_running().await.unwrap();
}

#[tokio::test]
async fn a_socket_with_a_long_path_is_reached() {
    let name = format!("{}/{}/engine.sock", "d".repeat(100), "e".repeat(100));
    let engine = FakeEngine::start_named(&name, |_| answer("200 OK", "{}"));
    let host = format!("unix://{}", engine.path(&name).display());
    let settings = settings(&engine.path(""), [("DOCKER_HOST", host.as_str())], &[]);
    let client = EngineClient::connect(&settings, &engine.path("run")).await.unwrap();
    client.info().await.unwrap();
    assert!(client.address().starts_with(&host), "{}", client.address());
}

#[tokio::test]
async fn refusals_say_what_was_asked_for() {
    let taken = r#"{"message": "Conflict. The container name \"/x\" is already in use by \"y\"."}"#;
    let engine = FakeEngine::start(move |head| {
        if head.contains("/taken/") {
            answer("409 Conflict", taken)
        } else {
            answer("500 Oops", r#"{"message": "no\nspace"}"#)
        }
    });
    let client = connect(&engine).await;
    let error = client.api().info().await.map_err(client.error("describe itself")).unwrap_err();
    assert_eq!(error.to_string(), "the container engine could not describe itself: no space");
    let error = client.api().inspect_image("taken/x").await.map_err(client.error("look"));
    assert!(matches!(error, Err(BackendError::NameTaken { name }) if name == "x"));
}

#[tokio::test]
async fn an_engine_that_goes_away_is_unreachable_with_advice() {
    let engine =
        FakeEngine::start(|_| "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{".to_owned());
    let client = connect(&engine).await;
    let (problem, advice) = message_and_advice(&client.info().await.unwrap_err());
    assert!(problem.contains("engine.sock (DOCKER_HOST) cannot be reached"), "{problem}");
    assert!(problem.contains("the connection failed"), "{problem}");
    assert!(advice.contains("unset DOCKER_HOST"), "{advice}");

    std::fs::remove_file(engine.path("engine.sock")).unwrap();
    let (problem, _) = message_and_advice(&client.info().await.unwrap_err());
    assert!(problem.contains("no engine listens there"), "{problem}");
}

#[tokio::test]
async fn a_missing_engine_is_an_error_that_names_the_source_of_its_address() {
    let dir = tempfile::tempdir().unwrap();
    let settings = settings(dir.path(), [("DOCKER_HOST", "unix:///nowhere/x.sock")], &[]);
    let (problem, advice) =
        message_and_advice(&EngineClient::connect(&settings, dir.path()).await.unwrap_err());
    assert!(problem.contains("unix:///nowhere/x.sock (DOCKER_HOST)"), "{problem}");
    assert!(problem.contains("no engine listens there"), "{problem}");
    assert!(advice.contains("unset DOCKER_HOST"), "{advice}");
}

#[tokio::test]
async fn an_engine_that_is_too_old_is_refused_with_advice() {
    let engine = FakeEngine::start(|_| answer("200 OK", "{}"));
    let client = connect(&engine).await;
    let old = Ping {
        api: ClientVersion { major_version: 1, minor_version: 40 },
        flavour: Flavour::Docker,
    };
    let address = client.inner.address.clone();
    let keyring = client.inner.keyring.clone();
    let refused =
        EngineClient::new(address, EngineRoute::Network, client.api().clone(), old, keyring);
    let (problem, advice) = message_and_advice(&refused.unwrap_err());
    assert!(problem.contains("too old: its API version is 1.40"), "{problem}");
    assert!(advice.contains("Docker 20.10"), "{advice}");
}

#[tokio::test]
async fn a_newer_engine_is_spoken_to_in_a_version_that_is_known_here() {
    let engine = FakeEngine::start(|_| answer("200 OK", "{}"));
    let client = connect(&engine).await;
    let new = Ping {
        api: ClientVersion { major_version: 1, minor_version: 999 },
        flavour: Flavour::Docker,
    };
    let address = client.inner.address.clone();
    let keyring = client.inner.keyring.clone();
    let client =
        EngineClient::new(address, EngineRoute::Network, client.api().clone(), new, keyring)
            .unwrap();
    assert_eq!(client.info().await.unwrap().api_version, API_DEFAULT_VERSION.to_string());
    let expected = format!("GET /v{API_DEFAULT_VERSION}/info ");
    assert!(engine.requests()[0].starts_with(&expected), "{:?}", engine.requests());
}

#[tokio::test]
async fn the_first_engine_that_answers_is_used() {
    let dir = tempfile::tempdir().unwrap();
    let stale = dir.path().join("docker.sock");
    drop(UnixListener::bind(&stale).unwrap());
    let engine = FakeEngine::start_named("podman/podman.sock", |_| answer("200 OK", "{}"));
    let usual = |path: &Path| Address {
        transport: EngineTransport::Unix(path.to_owned()),
        source: super::super::address::AddressSource::Default,
    };
    let places = [stale.as_path(), &engine.path("podman/podman.sock"), Path::new("/nowhere")];
    let search = |count: usize| ContextSearch {
        sockets: places[..count].iter().map(|path| usual(path)).collect(),
        podman: PodmanProgram::Missing,
    };
    let settings = engine.settings();
    let keyring = || Keyring::new(settings.environment());
    let client =
        EngineClient::connect_first(search(3), None, Starting::Allowed, PING_TIMEOUT, keyring())
            .await
            .unwrap();
    assert!(client.address().ends_with("podman/podman.sock"), "{}", client.address());

    let error =
        EngineClient::connect_first(search(1), None, Starting::Allowed, PING_TIMEOUT, keyring())
            .await
            .unwrap_err();
    let (problem, advice) = message_and_advice(&error);
    assert!(problem.contains("docker.sock"), "{problem}");
    assert!(problem.contains("no podman to start"), "{problem}");
    assert!(advice.contains("install Docker or Podman"), "{advice}");
}

#[tokio::test]
async fn an_engine_that_is_there_but_silent_is_not_passed_over_for_another() {
    let dir = tempfile::tempdir().unwrap();
    let silent = dir.path().join("docker.sock");
    let _listener = UnixListener::bind(&silent).unwrap();
    let engine = FakeEngine::start(|_| answer("200 OK", "{}"));
    let usual = |path| Address {
        transport: EngineTransport::Unix(path),
        source: super::super::address::AddressSource::Default,
    };
    let sockets = vec![usual(silent), usual(engine.path("engine.sock"))];
    let search = ContextSearch { sockets, podman: PodmanProgram::Missing };
    let settings = engine.settings();
    let keyring = Keyring::new(settings.environment());
    let timeout = Duration::from_millis(50);
    let connected =
        EngineClient::connect_first(search, None, Starting::Allowed, timeout, keyring).await;
    let (problem, advice) = message_and_advice(&connected.unwrap_err());
    assert!(problem.contains("docker.sock cannot be reached: it did not answer"), "{problem}");
    assert!(advice.contains("restart it"), "{advice}");
}

#[tokio::test]
async fn who_only_asks_starts_nothing_but_finds_what_was_started() {
    let engine = FakeEngine::start_named("run/podman.sock", |_| answer("200 OK", "{}"));
    let settings = engine.settings();
    let search = || {
        let podman = PodmanProgram::At("/nowhere/podman".into());
        ContextSearch { sockets: Vec::new(), podman }
    };
    let ask = async |run_dir: &str| {
        let environment = settings.environment();
        let run_dir = engine.path(run_dir);
        let service = PodmanService::new("/nowhere/podman".into(), &run_dir, environment);
        let keyring = Keyring::new(environment);
        EngineClient::connect_first(
            search(),
            Some(service),
            Starting::Forbidden,
            PING_TIMEOUT,
            keyring,
        )
        .await
    };
    let client = ask("run").await.unwrap();
    assert!(client.address().ends_with("run/podman.sock (started on demand)"));
    let (problem, _) = message_and_advice(&ask("elsewhere").await.unwrap_err());
    assert!(problem.contains("podman can be started"), "{problem}");
    assert!(!engine.path("elsewhere").exists());
}

/// Runs a test without capabilities, so that permissions apply to root too.
fn without_capabilities<T: Send>(test: impl AsyncFnOnce() -> T + Send) -> T {
    let run = || {
        let sets = rustix::thread::CapabilitySets {
            effective: rustix::thread::CapabilitySet::empty(),
            ..rustix::thread::capabilities(None).unwrap()
        };
        rustix::thread::set_capabilities(None, sets).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(test())
    };
    // Capabilities are per thread, so other tests keep theirs.
    std::thread::scope(|scope| scope.spawn(run).join().unwrap())
}

#[test]
fn a_locked_socket_is_an_error_that_says_how_to_be_let_in() {
    let (problem, advice) = without_capabilities(async || {
        let engine = FakeEngine::start(|_| answer("200 OK", "{}"));
        let socket = engine.path("engine.sock");
        std::fs::set_permissions(&socket, std::fs::Permissions::from_mode(0o000)).unwrap();
        message_and_advice(
            &EngineClient::connect(&engine.settings(), &engine.path("run")).await.unwrap_err(),
        )
    });
    assert!(problem.ends_with("cannot be reached: permission denied"), "{problem}");
    assert!(advice.contains("usermod -aG docker"), "{advice}");
}

#[test]
fn a_locked_socket_is_what_is_reported_when_no_other_engine_is_found() {
    let (problem, advice) = without_capabilities(async || {
        let engine = FakeEngine::start_named("docker.sock", |_| answer("200 OK", "{}"));
        let socket = engine.path("docker.sock");
        std::fs::set_permissions(&socket, std::fs::Permissions::from_mode(0o000)).unwrap();
        let usual = |path| Address {
            transport: EngineTransport::Unix(path),
            source: super::super::address::AddressSource::Default,
        };
        let sockets = vec![usual("/nowhere".into()), usual(socket), usual("/neither".into())];
        let search = ContextSearch { sockets, podman: PodmanProgram::Missing };
        let settings = engine.settings();
        let keyring = Keyring::new(settings.environment());
        message_and_advice(
            &EngineClient::connect_first(search, None, Starting::Allowed, PING_TIMEOUT, keyring)
                .await
                .unwrap_err(),
        )
    });
    assert!(problem.contains("docker.sock cannot be reached: permission denied"), "{problem}");
    assert!(advice.contains("podman"), "{advice}");
}

#[test]
fn an_engine_that_is_used_in_place_of_a_locked_one_says_so() {
    let notice = without_capabilities(async || {
        let locked = FakeEngine::start_named("docker.sock", |_| answer("200 OK", "{}"));
        let socket = locked.path("docker.sock");
        std::fs::set_permissions(&socket, std::fs::Permissions::from_mode(0o000)).unwrap();
        let engine = FakeEngine::start(|_| answer("200 OK", "{}"));
        let usual = |path| Address {
            transport: EngineTransport::Unix(path),
            source: super::super::address::AddressSource::Default,
        };
        let connect = async |sockets| {
            let search = ContextSearch { sockets, podman: PodmanProgram::Missing };
            let keyring = Keyring::new(engine.settings().environment());
            EngineClient::connect_first(search, None, Starting::Allowed, PING_TIMEOUT, keyring)
                .await
                .unwrap()
        };
        let other = usual(engine.path("engine.sock"));
        let absent = connect(vec![usual("/nowhere".into()), other.clone()]).await;
        assert_eq!(absent.denied_notice(), None);
        connect(vec![usual(socket), other]).await.denied_notice().unwrap()
    });
    assert!(notice.contains("docker.sock, so the one at"), "{notice}");
    assert!(notice.contains("engine.sock is used"), "{notice}");
}

#[test]
fn what_is_shown_of_a_client_holds_no_secret() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let engine = FakeEngine::start(|_| answer("200 OK", "{}"));
        let settings = engine.settings_with(&[("TOKEN", "hunter2")]);
        let client = EngineClient::connect(&settings, &engine.path("run")).await.unwrap();
        let shown = format!("{client:?} {:?}", client.inner.keyring);
        assert!(shown.contains("engine.sock") && !shown.contains("hunter2"), "{shown}");
    });
}
