//! The chat over its WebSocket: what a page may ask, what is there when it comes back, and its end.

use serde_json::json;
use vestal_dashboard::gate::Right;
use vestal_scripted_model::{ReplyRule, Script, ScriptedModel, ScriptedReply};

use crate::support::World;

fn echo() -> ScriptedModel {
    ScriptedModel::start(Script::rules([ReplyRule::always()
        .reply_with(|request| ScriptedReply::text(request.last_user_text().unwrap_or_default()))]))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_talks_and_a_second_one_finds_all_that_was_said() {
    let model = echo();
    let world = World::start_with_model(&model).await;
    let operator = world.login(Right::Operator).await;
    let mut page = world.socket("/api/chat/default", &operator).await;
    page.event("gateway.ready").await;
    let session = page.call("session.create", json!({ "cwd": "/etc" })).await;
    assert_eq!(session["info"]["cwd"], json!(null), "a page names no directory: {session}");
    let id = session["session_id"].clone();
    let prompt = json!({ "session_id": id, "text": "<b>hello</b>" });
    page.call("prompt.submit", prompt).await;
    let done = page.event("message.complete").await;
    assert_eq!((&done["text"], &done["status"]), (&json!("<b>hello</b>"), &json!("complete")));
    drop(page);
    let mut again = world.socket("/api/chat/default", &operator).await;
    let joined = again.call("session.activate", json!({ "session_id": id })).await;
    let said: Vec<_> =
        joined["messages"].as_array().unwrap().iter().map(|one| &one["text"]).collect();
    assert_eq!(said, [&json!("<b>hello</b>"), &json!("<b>hello</b>")]);
    let stored = joined["stored_session_id"].as_str().unwrap();
    // Who only looks reads it, too.
    let viewer = world.login(Right::Viewer).await;
    let path = format!("/api/conversations/default/{stored}");
    let read = world.get(&path).cookie(&viewer).send().await;
    assert_eq!((read.status, read.json()["source"].as_str()), (200, Some("dashboard")));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_of_the_chat_runs_no_command_and_changes_no_setting() {
    let model = echo();
    let world = World::start_with_model(&model).await;
    let operator = world.login(Right::Operator).await;
    let mut page = world.socket("/api/chat/default", &operator).await;
    for method in ["cli.exec", "shell.exec", "config.show", "skills.manage", "nonsense"] {
        let refused = page.call(method, json!({ "argv": ["config", "show"] })).await;
        assert_eq!(refused["code"], -32601, "{method}: {refused}");
    }
    let set = json!({ "key": "model.default", "value": "other" });
    assert_eq!(page.call("config.set", set).await["code"], 4002);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_has_ended_says_nothing_more() {
    let model = echo();
    let world = World::start_with_model(&model).await;
    let operator = world.login(Right::Operator).await;
    let mut page = world.socket("/api/chat/default", &operator).await;
    page.event("gateway.ready").await;
    world.end_sessions().await;
    page.send_unanswered("session.create").await;
    while let Some(frame) = page.frame().await {
        assert!(frame["result"].is_null(), "{frame}");
    }
    assert_eq!(model.requests().len(), 0);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_profile_that_does_not_exist_has_no_chat() {
    let world = World::start().await;
    let operator = world.login(Right::Operator).await;
    let ticket = world.post("/api/auth/ws-ticket", &json!({})).cookie(&operator).send().await;
    let ticket = ticket.json()["ticket"].as_str().unwrap().to_owned();
    let asked = world.get(&format!("/api/chat/nobody?ticket={ticket}")).cookie(&operator);
    assert_eq!(asked.own_origin().upgrade().send().await.status, 404);
    world.stop().await;
}
