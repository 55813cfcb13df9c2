//! The chat over its WebSocket: what a page may ask, what is there when it comes back, and its end.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use vestal_dashboard::gate::Right;
use vestal_scripted_model::{ReplyRule, Script, ScriptedModel, ScriptedReply};

use crate::fixtures;
use crate::support::DashboardFixture;

fn echo() -> ScriptedModel {
    ScriptedModel::start(Script::rules([ReplyRule::always()
        .reply_with(|request| ScriptedReply::text(request.last_user_text().unwrap_or_default()))]))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_chats_and_a_second_one_finds_all_messages() {
    let model = echo();
    let fixture = DashboardFixture::start_with_model(&model).await;
    let operator = fixture.login(Right::Operator).await;
    let mut page = fixture.socket("/api/chat/default", &operator).await;
    page.event("gateway.ready").await;
    let session = page.call("session.create", json!({ "cwd": "/etc" })).await;
    assert_eq!(session["info"]["cwd"], json!(null), "a page names no directory: {session}");
    let id = session["session_id"].clone();
    let prompt = json!({ "session_id": id, "text": "<b>hello</b>" });
    page.call("prompt.submit", prompt).await;
    let done = page.event("message.complete").await;
    assert_eq!((&done["text"], &done["status"]), (&json!("<b>hello</b>"), &json!("complete")));
    drop(page);
    let mut again = fixture.socket("/api/chat/default", &operator).await;
    let joined = again.call("session.activate", json!({ "session_id": id })).await;
    let reply: Vec<_> =
        joined["messages"].as_array().unwrap().iter().map(|one| &one["text"]).collect();
    assert_eq!(reply, [&json!("<b>hello</b>"), &json!("<b>hello</b>")]);
    let stored = joined["stored_session_id"].as_str().unwrap();
    // Who only looks reads it, too.
    let viewer = fixture.login(Right::Viewer).await;
    let path = format!("/api/conversations/default/{stored}");
    let read = fixture.get(&path).cookie(&viewer).send().await;
    assert_eq!((read.status, read.json()["source"].as_str()), (200, Some("dashboard")));
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_of_the_chat_runs_no_command_and_changes_no_setting() {
    let model = echo();
    let fixture = DashboardFixture::start_with_model(&model).await;
    let operator = fixture.login(Right::Operator).await;
    let mut page = fixture.socket("/api/chat/default", &operator).await;
    for method in ["cli.exec", "shell.exec", "config.show", "skills.manage", "nonsense"] {
        let refused = page.call(method, json!({ "argv": ["config", "show"] })).await;
        assert_eq!(refused["code"], -32601, "{method}: {refused}");
    }
    let set = json!({ "key": "model.default", "value": "other" });
    assert_eq!(page.call("config.set", set).await["code"], 4002);
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_has_ended_says_nothing_more() {
    let model = echo();
    let fixture = DashboardFixture::start_with_model(&model).await;
    let operator = fixture.login(Right::Operator).await;
    let mut page = fixture.socket("/api/chat/default", &operator).await;
    page.event("gateway.ready").await;
    fixture.end_sessions().await;
    page.send_unanswered("session.create").await;
    while let Some(frame) = page.frame().await {
        assert!(frame["result"].is_null(), "{frame}");
    }
    assert_eq!(model.requests().len(), 0);
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_profile_that_does_not_exist_has_no_chat() {
    let fixture = DashboardFixture::start().await;
    let operator = fixture.login(Right::Operator).await;
    let ticket = fixture.post("/api/auth/ws-ticket", &json!({})).cookie(&operator).send().await;
    let ticket = ticket.json()["ticket"].as_str().unwrap().to_owned();
    let asked = fixture.get(&format!("/api/chat/nobody?ticket={ticket}")).cookie(&operator);
    assert_eq!(asked.own_origin().upgrade().send().await.status, 404);
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_picture_of_a_message_is_sent_as_a_picture_and_nothing_else_is() {
    let fixture = DashboardFixture::start().await;
    let store = fixtures::conversations(&fixture.home, "default").await;
    let part = |bytes: &[u8], claimed: &str| json!({ "type": "image", "media_type": claimed, "data": STANDARD.encode(bytes) });
    let (gif, svg) = (&b"GIF89a rest"[..], &b"<svg onload=\"alert(1)\">"[..]);
    let text = json!({ "type": "text", "text": "look" });
    let parts = [part(gif, "text/html"), text, part(svg, "image/png")];
    let message = json!({ "role": "user", "parts": parts });
    let id = fixtures::converse(&store, None, &[message]).await;
    store.close().await.unwrap();
    let session = fixture.login(Right::Viewer).await;
    let path = format!("/api/conversations/default/{id}");
    let shown = fixture.get(&path).cookie(&session).send().await.json();
    let message = &shown["history"][0];
    assert_eq!(message["message"]["parts"][0]["data"], "", "pages ask for what they show");
    let path = format!("{path}/messages/{}/pictures", message["seq"]);
    let get = async |number: u32| {
        let answer = fixture.get(&format!("{path}/{number}")).cookie(&session).send().await;
        let kind = answer.header("content-type").unwrap().to_owned();
        (answer.status, kind, answer.header("content-disposition") == Some("attachment"))
    };
    assert_eq!(get(0).await, (200, "image/gif".to_owned(), true), "by its bytes, not by its word");
    assert_eq!(get(1).await, (400, "application/json".to_owned(), false), "a document is none");
    assert_eq!(get(2).await.0, 404);
    fixture.stop().await;
}
