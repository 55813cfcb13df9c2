//! Sessions as resources, and what a client can find out before it asks.

use serde_json::json;
use vestal_gateway::ShutdownCause;
use vestal_scripted_model::{ReplyRule, Script, ScriptedReply};

use crate::support::{EventStream, TestGateway, answer};

#[tokio::test]
async fn a_session_is_made_named_spoken_in_and_forked() {
    let echo = ReplyRule::always()
        .reply_with(|request| ScriptedReply::text(request.last_user_text().unwrap_or_default()));
    let gateway = TestGateway::start(Script::rules([echo])).await;
    let made = gateway.say("/api/sessions", json!({ "title": "plans" })).await;
    assert_eq!((made.status, &made.body["title"]), (201, &json!("plans")), "{}", made.body);
    let id = made.body["id"].as_str().unwrap();
    let taken = gateway.say("/api/sessions", json!({ "title": "plans" })).await;
    assert_eq!((taken.status, &taken.body["error"]["code"]), (409, &json!("title_taken")));
    let reply = gateway.say(&format!("/api/sessions/{id}/chat"), json!({ "message": "one" })).await;
    assert_eq!((reply.status, reply.text()), (200, "one"), "{}", reply.body);
    let stream = format!("/api/sessions/{id}/chat/stream");
    let stream = EventStream::open(gateway.post(&stream, &json!({ "message": "two" }))).await;
    assert_eq!(stream.rest().await.last().unwrap().data, json!("[DONE]"));
    let renamed = gateway.request("PATCH", &format!("/api/sessions/{id}"));
    let renamed = renamed.header("content-type", "application/json");
    let renamed = answer(renamed.body(json!({ "title": "done" }).to_string())).await;
    assert_eq!((renamed.status, &renamed.body["title"]), (200, &json!("done")));
    let fork = format!("/api/sessions/{id}/fork");
    let forked = gateway.say(&fork, json!({ "title": "a copy", "at": 2 })).await;
    assert_eq!((forked.status, &forked.body["messages"]), (201, &json!(2)), "{}", forked.body);
    assert_eq!(forked.body["parent"]["id"], json!(id));
    assert_eq!(gateway.say(&fork, json!({ "at": 99 })).await.status, 404);
    let shown = gateway.get(&format!("/api/sessions/{id}")).await.body;
    assert_eq!(shown["messages"], 4);
    // One that nobody speaks in does not look like one that is in use.
    assert!(shown["ended_at"].is_string(), "{shown}");
    gateway.end(ShutdownCause::Planned).await;
}

#[tokio::test]
async fn a_client_finds_out_what_there_is() {
    let gateway = TestGateway::start(Script::replies([])).await;
    let capabilities = gateway.get("/v1/capabilities").await.body;
    assert_eq!(capabilities["features"]["runs"], true);
    let toolsets = gateway.get("/v1/toolsets").await.body;
    let tools = toolsets["data"].to_string();
    assert!(tools.contains("\"terminal\"") && tools.contains("read_file"), "{tools}");
    assert_eq!(gateway.get("/v1/skills").await.body["data"], json!([]));
    assert_eq!(gateway.get("/v1/models/vestal-agent").await.body["object"], "model");
    assert_eq!(gateway.get("/v1/models/other").await.status, 404);
    gateway.end(ShutdownCause::Planned).await;
}
