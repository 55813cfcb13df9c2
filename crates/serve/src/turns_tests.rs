use serde_json::{Value, json};
use vestal_config::{Environment, Home, Override, Settings};
use vestal_runtime::Runtime;
use vestal_sandbox::Engine;
use vestal_scripted_model::{Script, ScriptedModel};

use super::*;
use crate::{ServeSettings, Server};

/// Makes a session in which something was said, and returns it with what it needs to live.
async fn spoken() -> (Arc<Session>, Server, ScriptedModel, tempfile::TempDir) {
    let home = tempfile::tempdir().unwrap();
    let model = ScriptedModel::start(Script::echo());
    let schema = vestal_api::schema();
    let set = ["terminal.backend=local", "model.default=m"].map(str::to_owned);
    let set = set.into_iter().chain([format!("model.base_url={}", model.base_url())]);
    let set = set.map(|set| Override::parse(&schema, &set).unwrap()).collect();
    let settings = Settings::load(&schema, Home::at(home.path()), Environment::default(), set);
    let wanted = ServeSettings::new(&settings).unwrap();
    let runtime = Runtime::builder(Engine::open(settings).unwrap()).build().await.unwrap();
    let server = Server::builder(runtime, wanted).build().unwrap();
    let (connection, outgoing) = server.connect();
    let frame = |method: &str, params: Value| {
        json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string()
    };
    connection.receive(&frame("session.create", json!({}))).await;
    let session = server.sessions().remove(0);
    let params = json!({ "session_id": &*session.id, "text": "one" });
    connection.receive(&frame("prompt.submit", params)).await;
    while !outgoing.next().await.unwrap().contains("message.complete") {}
    session.idle().await;
    (session, server, model, home)
}

/// Between the end of a turn, which has made its result, and the moment at which the session is free,
/// somebody may still say something to the turn.
#[tokio::test]
async fn prompts_that_come_while_the_session_is_busy_are_sent_in_the_next_turn() {
    let (session, server, _model, _home) = spoken().await;
    let ending = CancellationToken::new();
    session.lock().phase = SessionPhase::Turn(ending.clone());
    assert!(session.steer("late"));
    let admitted = session.admit().unwrap();
    let next = session.next_work(vec!["earlier".to_owned()], &admitted, &mut None);
    assert_eq!((next.queued, next.returned.0), (1, Vec::new()));
    match next.work {
        Some((SessionWork::Prompt(prompt), _)) => assert_eq!(prompt.text, "earlier\nlate"),
        other => panic!("{other:?}"),
    }
    // Nothing is left: the session is free, and nobody would hear another word.
    let next = session.next_work(Vec::new(), &admitted, &mut None);
    assert!(next.work.is_none());
    assert!(!session.steer("too late"));
    // An interrupt drops what the turn had not heard, and says so.
    session.lock().phase = SessionPhase::Turn(ending);
    assert!(session.steer("dropped"));
    assert_eq!(session.interrupt(), (true, 1));
    let next = session.next_work(vec!["and this".to_owned()], &admitted, &mut None);
    assert!(next.work.is_none());
    assert_eq!(next.returned.0, [ReturnedPrompt::new("and this".to_owned())]);
    assert!(session.lock().queue.is_empty());
    server.shutdown("the end").await;
}
