//! How a gateway starts and ends, and what it says of itself.

use std::time::Duration;

use serde_json::json;
use vestal_gateway::{
    ApiServerError, Gateway, GatewayError, GatewayPhase, GatewaySettings, ListenerPhase,
    ShutdownCause, StatusAnswer, ask_status, ask_stop, read_state,
};
use vestal_runtime::Runtime;
use vestal_sandbox::Engine;
use vestal_scripted_model::{Script, ScriptedModel, ScriptedReply};
use vestal_testkit::{until, until_async};

use crate::support::{KEY, TestGateway, answer, settings, usual};

#[tokio::test]
async fn it_says_what_it_does_when_asked_and_when_it_has_ended() {
    let gateway = TestGateway::start(Script::replies([])).await;
    let home = gateway.home.path().to_owned();
    let StatusAnswer::Answers(state) = ask_status(&home).await.unwrap() else { panic!("silent") };
    assert_eq!(*state, read_state(&home).unwrap().unwrap());
    assert_eq!(state.gateway_state, GatewayPhase::Running);
    assert_eq!(state.platforms["api_server"].state, ListenerPhase::Connected);
    assert!(state.process().is_alive());
    assert!(ask_stop(&home, false).await.unwrap().is_some());
    let (kept, end) = gateway.ended().await;
    assert_eq!(end.shutdown, ShutdownCause::Planned);
    let state = read_state(kept.path()).unwrap().unwrap();
    assert_eq!(state.gateway_state, GatewayPhase::Stopped);
    assert_eq!(state.exit_reason.as_deref(), Some("stopped by an operator"));
    assert_eq!(ask_status(kept.path()).await.unwrap(), StatusAnswer::NotRunning);
}

#[tokio::test]
async fn an_end_that_nobody_planned_stays_running_on_record() {
    for (shutdown, restart) in [(ShutdownCause::Unplanned, false), (ShutdownCause::Restart, true)] {
        let gateway = TestGateway::start(Script::replies([])).await;
        let (home, end) = gateway.end(shutdown).await;
        assert_eq!(end.shutdown, shutdown);
        let state = read_state(home.path()).unwrap().unwrap();
        assert_eq!(
            (state.gateway_state, state.restart_requested),
            (GatewayPhase::Running, restart)
        );
    }
}

#[test]
fn what_a_newer_program_says_of_its_gateway_stays_as_it_is() {
    let home = tempfile::tempdir().unwrap();
    let newer = "{\"version\":99,\"gateway_state\":\"dreaming\"}";
    let path = home.path().join("gateway_state.json");
    std::fs::write(&path, newer).unwrap();
    let refused = Gateway::claim(home.path(), "default").unwrap_err();
    assert!(matches!(refused, GatewayError::NewerState(_)), "{refused}");
    assert!(refused.is_permanent());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), newer);
    // One that cannot be read says nothing that anybody would miss.
    std::fs::write(&path, "garbage").unwrap();
    drop(Gateway::claim(home.path(), "default").unwrap());
    assert_eq!(read_state(home.path()).unwrap().unwrap().gateway_state, GatewayPhase::Starting);
}

#[tokio::test]
async fn a_second_gateway_of_a_profile_is_refused_and_harms_nobody() {
    let gateway = TestGateway::start(Script::replies([ScriptedReply::text("still here")])).await;
    let before = read_state(gateway.home.path()).unwrap();
    let second = Gateway::claim(gateway.home.path(), "default");
    let Err(GatewayError::AlreadyRunning { pid, .. }) = second else { panic!("{second:?}") };
    assert_eq!(pid, Some(std::process::id()));
    assert_eq!(read_state(gateway.home.path()).unwrap(), before);
    assert_eq!(gateway.ask("are you there?", None).await.text(), "still here");
    gateway.end(ShutdownCause::Planned).await;
}

#[tokio::test]
async fn a_turn_that_runs_has_its_time_and_new_ones_are_refused() {
    let held = Script::replies([ScriptedReply::text("done in time").hold_after(0)]);
    let gateway = TestGateway::start_with(held, &["agent.restart_drain_timeout=600"]).await;
    let body = json!({ "messages": [{ "role": "user", "content": "go" }] });
    let first = tokio::spawn(answer(gateway.post("/v1/chat/completions", &body)));
    gateway.model.wait_for_requests(1).await;
    gateway.shutdown.send(ShutdownCause::Planned).await.unwrap();
    wait_until_draining(gateway.home.path()).await;
    gateway.model.release();
    assert_eq!(first.await.unwrap().text(), "done in time");
    let (home, end) = gateway.ended().await;
    assert_eq!(end.stuck, 0);
    let state = read_state(home.path()).unwrap().unwrap();
    assert_eq!(state.exit_reason.as_deref(), Some("stopped by an operator"));
}

#[tokio::test]
async fn a_turn_that_does_not_end_in_time_is_interrupted_and_its_client_gets_the_reason() {
    let held = Script::replies([ScriptedReply::text("too late").hold_after(0)]);
    let gateway = TestGateway::start(held).await;
    let body = json!({ "messages": [{ "role": "user", "content": "go" }] });
    let first = tokio::spawn(answer(gateway.post("/v1/chat/completions", &body)));
    gateway.model.wait_for_requests(1).await;
    gateway.shutdown.send(ShutdownCause::Planned).await.unwrap();
    let interrupted = first.await.unwrap();
    assert_eq!(interrupted.status, 503, "{}", interrupted.body);
    assert_eq!(interrupted.body["error"]["code"], "interrupted");
    let (home, end) = gateway.ended().await;
    assert_eq!(end.stuck, 0);
    let state = read_state(home.path()).unwrap().unwrap();
    assert_eq!(
        state.exit_reason.as_deref(),
        Some("stopped by an operator; 1 turn was interrupted")
    );
}

#[tokio::test]
async fn a_second_wish_to_end_does_not_wait_for_turns() {
    let held = Script::replies([ScriptedReply::text("never").hold_after(0)]);
    let gateway = TestGateway::start_with(held, &["agent.restart_drain_timeout=600"]).await;
    let body = json!({ "messages": [{ "role": "user", "content": "go" }] });
    let first = tokio::spawn(answer(gateway.post("/v1/chat/completions", &body)));
    gateway.model.wait_for_requests(1).await;
    gateway.shutdown.send(ShutdownCause::Planned).await.unwrap();
    gateway.shutdown.send(ShutdownCause::Planned).await.unwrap();
    assert_eq!(first.await.unwrap().status, 503);
    gateway.ended().await;
}

/// A gateway whose port another process has.
struct Taken {
    home: tempfile::TempDir,
    listener: std::net::TcpListener,
    gateway: Gateway,
    settings: GatewaySettings,
    runtime: Runtime,
}

impl Taken {
    async fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let model = ScriptedModel::start(Script::replies([]));
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut set = usual(&model);
        set.retain(|set| !set.starts_with("api_server.port"));
        set.push(format!("api_server.port={}", listener.local_addr().unwrap().port()));
        let loaded = settings(home.path(), &set);
        let gateway = Gateway::claim(home.path(), "default").unwrap();
        let settings = GatewaySettings::new(&loaded).unwrap().unwrap();
        let runtime = Runtime::builder(Engine::open(loaded).unwrap()).build().await.unwrap();
        Self { home, listener, gateway, settings, runtime }
    }
}

#[tokio::test]
async fn a_port_that_stays_taken_is_a_permanent_failure_on_record() {
    let Taken { home, listener: _listener, gateway, settings, runtime } = Taken::new().await;
    let settings = GatewaySettings { listen_within: Duration::from_millis(200), ..settings };
    let channel = tokio::sync::mpsc::channel(1);
    let failed =
        gateway.serve(runtime, settings, None, channel, || panic!("it is not ready")).await;
    let error = failed.unwrap_err();
    assert!(error.is_permanent(), "{error}");
    let state = read_state(home.path()).unwrap().unwrap();
    assert_eq!(state.gateway_state, GatewayPhase::StartupFailed);
    assert_eq!(state.exit_reason, Some(error.to_string()));
    let listener = &state.platforms["api_server"];
    assert_eq!(listener.state, ListenerPhase::Failed);
    assert_eq!(listener.error_code.as_deref(), Some("address_unavailable"));
}

#[tokio::test]
async fn a_port_that_is_taken_and_then_freed_is_served() {
    let Taken { home, listener, gateway, settings, runtime } = Taken::new().await;
    let (sender, receiver) = tokio::sync::mpsc::channel(1);
    let stop = sender.clone();
    let (ready, is_ready) = tokio::sync::oneshot::channel();
    let serving = tokio::spawn(async move {
        gateway.serve(runtime, settings, None, (sender, receiver), || ready.send(()).unwrap()).await
    });
    until("the state says why it is not ready", || {
        let state = read_state(home.path()).unwrap().unwrap();
        let part = state.platforms.get("api_server");
        let why = part.and_then(|part| part.error_message.as_deref());
        state.gateway_state == GatewayPhase::Starting
            && why.is_some_and(|why| why.ends_with("it is tried again"))
    })
    .await;
    drop(listener);
    is_ready.await.unwrap();
    let part = read_state(home.path()).unwrap().unwrap().platforms["api_server"].clone();
    assert_eq!((part.state, part.error_message), (ListenerPhase::Connected, None));
    stop.send(ShutdownCause::Planned).await.unwrap();
    assert_eq!(serving.await.unwrap().unwrap().shutdown, ShutdownCause::Planned);
}

#[tokio::test]
async fn a_stop_does_not_wait_for_a_port_that_is_taken() {
    let Taken { home, listener: _listener, gateway, settings, runtime } = Taken::new().await;
    let (sender, receiver) = tokio::sync::mpsc::channel(1);
    let serving = gateway.serve(runtime, settings, None, (sender, receiver), || {
        panic!("it is not ready");
    });
    let stopping = async {
        until_async("it takes orders", || async {
            matches!(ask_status(home.path()).await, Ok(StatusAnswer::Answers(_)))
        })
        .await;
        ask_stop(home.path(), false).await.unwrap();
    };
    let (end, ()) = tokio::join!(serving, stopping);
    assert_eq!(end.unwrap().shutdown, ShutdownCause::Planned);
    let state = read_state(home.path()).unwrap().unwrap();
    assert_eq!(state.gateway_state, GatewayPhase::Stopped);
}

#[test]
fn an_api_server_without_a_key_is_not_started() {
    let home = tempfile::tempdir().unwrap();
    let with = |key: &str| {
        let set = ["api_server.enabled=true".to_owned(), format!("api_server.key={key}")];
        GatewaySettings::new(&settings(home.path(), &set)).unwrap()
    };
    assert_eq!(with(""), Err(ApiServerError::NoKey { file: home.path().join(".env") }));
    assert_eq!(with("abc"), Err(ApiServerError::ShortKey { length: 3 }));
    assert!(with(KEY).unwrap().api_server.is_some());
    let shown = format!("{:?}", with(KEY));
    assert!(!shown.contains(KEY), "the key is shown: {shown}");
}

#[tokio::test]
async fn garbage_on_its_sockets_does_not_hurt_it() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let gateway = TestGateway::start(Script::replies([ScriptedReply::text("unhurt")])).await;
    let control = vestal_gateway::control_path(gateway.home.path());
    let address = gateway.url("").trim_start_matches("http://").to_owned();
    for round in 0..500_u32 {
        let garbage = vec![u8::try_from(round % 256).unwrap(); 64];
        let mut stream = tokio::net::UnixStream::connect(&control).await.unwrap();
        // A server that has seen enough may have closed the connection.
        stream.write_all(&garbage).await.ok();
        let mut stream = tokio::net::TcpStream::connect(&address).await.unwrap();
        stream.write_all(&garbage).await.ok();
        if round == 0 {
            let mut reply = Vec::new();
            stream.shutdown().await.ok();
            stream.read_to_end(&mut reply).await.ok();
        }
    }
    assert!(matches!(ask_status(gateway.home.path()).await.unwrap(), StatusAnswer::Answers(_)));
    assert_eq!(gateway.ask("are you there?", None).await.text(), "unhurt");
    gateway.end(ShutdownCause::Planned).await;
}

/// Waits until the gateway says that it drains; it says so before it refuses anything.
async fn wait_until_draining(home: &std::path::Path) {
    loop {
        if let StatusAnswer::Answers(state) = ask_status(home).await.unwrap()
            && state.gateway_state == GatewayPhase::Draining
        {
            return;
        }
        tokio::task::yield_now().await;
    }
}
