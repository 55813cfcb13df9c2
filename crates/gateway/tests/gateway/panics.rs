//! A bug in a turn ends that turn and nothing else.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use serde_json::{Value, json};
use vestal_agent::{Tool, ToolContext, ToolOutput};
use vestal_gateway::ShutdownCause;
use vestal_model::ToolSpec;
use vestal_schedules::ScheduleRunStatus;
use vestal_scripted_model::{ReplyRule, Script, ScriptedReply};

use crate::support::{Changes, TestGateway, answer};
use crate::{schedules, websocket};

/// Panics, and says whether the program's hook for panics would have let the process live.
struct Explode(Arc<AtomicU32>);

#[async_trait]
impl Tool for Explode {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "explode".to_owned(),
            description: "Panics.".to_owned(),
            parameters: json!({ "type": "object", "properties": {} }),
        }
    }

    fn toolset(&self) -> &'static str {
        "terminal"
    }

    async fn call(&self, _: &ToolContext, _: Value) -> ToolOutput {
        if vestal_gateway::panics::is_contained() {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
        panic!("a bug that a test wants");
    }
}

#[tokio::test]
async fn a_bug_in_a_turn_fails_that_turn_and_its_session_goes_on() {
    let script = Script::rules([
        ReplyRule::when_user_contains("hello").reply(ScriptedReply::text("still here")),
        ReplyRule::always().reply(ScriptedReply::tool_call("explode", json!({}))),
    ]);
    let contained = Arc::new(AtomicU32::new(0));
    let tool = Arc::new(Explode(Arc::clone(&contained)));
    let changes = Changes { tools: vec![tool], ..Changes::default() };
    // The slot must be free again each time.
    let one = ["api_server.max_concurrent_runs=1"];
    let gateway = TestGateway::start_changed(script, &one, changes).await;
    let ask = json!({ "messages": [{ "role": "user", "content": "go" }] });
    let failed = gateway.say("/v1/chat/completions", ask.clone()).await;
    assert_eq!(failed.status, 500, "{}", failed.body);
    let session = failed.header("x-vestal-session-id").unwrap();
    assert_eq!(gateway.ask("hello", Some(session)).await.text(), "still here");

    // Whatever the turn did, it did: a repeated request gets the same failure.
    let keyed = || gateway.post("/v1/chat/completions", &ask).header("idempotency-key", "k");
    let (first, again) = (answer(keyed()).await, answer(keyed()).await);
    assert_eq!((first.status, first.header("idempotent-replayed")), (500, None), "{}", first.body);
    assert_eq!((again.status, again.header("idempotent-replayed")), (500, Some("true")));
    assert_eq!(first.body, again.body);

    let run = gateway.run("go").await;
    let events = gateway.follow(&format!("/v1/runs/{run}/events"), None).await.rest().await;
    let last = events.last().unwrap();
    assert_eq!(last.name.as_deref(), Some("run.failed"), "{events:?}");
    let session = last.data["session_id"].as_str().unwrap();
    assert_eq!(gateway.ask("hello", Some(session)).await.text(), "still here");
    assert_eq!(contained.load(Ordering::Relaxed), 3, "a panic would have ended the process");
    gateway.end(ShutdownCause::Planned).await;
}

#[tokio::test]
async fn a_bug_in_a_scheduled_run_and_in_a_session_fails_it_alone() {
    let script = Script::rules([
        ReplyRule::when_user_contains("hello").reply(ScriptedReply::text("still here")),
        ReplyRule::always().reply(ScriptedReply::tool_call("explode", json!({}))),
    ]);
    let contained = Arc::new(AtomicU32::new(0));
    let tool = Arc::new(Explode(Arc::clone(&contained)));
    let changes = Changes { tools: vec![tool], ..Changes::default() };
    let gateway = TestGateway::start_changed(script, &[], changes).await;
    let store = schedules::store(gateway.home.path()).await;
    let schedule = schedules::due_soon(&store, |new| new).await;
    let run = schedules::last_run(&store, &schedule, schedules::is_ended).await;
    assert_eq!(run.status, ScheduleRunStatus::Failed);
    assert!(run.error.unwrap().contains("met a bug"));
    assert_eq!(contained.load(Ordering::Relaxed), 1, "a panic would have ended the process");
    // Its conversation is closed: it can be gone on with.
    let conversation = run.conversation.unwrap();
    assert_eq!(gateway.ask("hello", Some(&conversation)).await.text(), "still here");

    let mut socket = websocket::with_key(&gateway).await;
    let session = socket.call("session.create", json!({})).await["session_id"].clone();
    for (text, status, answer) in [("go", "error", ""), ("hello", "complete", "still here")] {
        socket.call("prompt.submit", json!({ "session_id": session, "text": text })).await;
        let ended = socket.event("message.complete").await;
        assert_eq!((&ended["status"], &ended["text"]), (&json!(status), &json!(answer)), "{ended}");
    }
    assert_eq!(contained.load(Ordering::Relaxed), 2, "a panic would have ended the process");
    gateway.end(ShutdownCause::Planned).await;
}
