//! Clients that send what none should: each gets errors, and the rest goes on.

use serde_json::{Value, json};
use vestal_acp::EditorEnd;
use vestal_scripted_model::{Script, ScriptedReply};
use vestal_testkit::processes::{marker, processes_with};
use vestal_testkit::until;

use crate::support::TestServer;

#[tokio::test(flavor = "multi_thread")]
async fn garbage_before_and_after_the_handshake_ends_nothing() {
    let server = TestServer::start(Script::echo()).await;
    let mut client = server.connect();
    let early = client.refused("session/new", json!({ "cwd": "/", "mcpServers": [] })).await;
    assert_eq!(early["code"], -32600);
    client.send_bytes(b"{ half a frame\n\xff\xfe\n[]\n\"text\"\n{\"id\":99}\n\n").await;
    for (code, id) in [
        (-32700, Value::Null),
        (-32700, Value::Null),
        (-32600, Value::Null),
        (-32600, Value::Null),
        (-32600, json!(99)),
    ] {
        let error = client.find(|message| !message["error"].is_null()).await;
        assert_eq!((&error["error"]["code"], &error["id"]), (&json!(code), &id), "{error}");
    }
    client
        .call("initialize", json!({ "protocolVersion": 77, "clientInfo": { "name": "x" } }))
        .await;
    // Answers to questions that nobody asked, and notifications that nobody knows.
    client.send_message(&json!({ "jsonrpc": "2.0", "id": 5, "result": {} })).await;
    client.notify("session/cancel", json!({ "sessionId": "none" })).await;
    client.notify("no/such", json!([1])).await;
    let session = client.session(&server).await;
    assert_eq!(client.prompt(&session, "still there?").await, "end_turn");
    assert_eq!(client.leave().await, EditorEnd::Gone);
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_of_a_hundred_megabytes_is_refused_by_its_id() {
    let server = TestServer::start(Script::echo()).await;
    let mut client = server.client().await;
    client
        .send_bytes(
            b"{\"jsonrpc\":\"2.0\",\"id\":900,\"method\":\"session/prompt\",\"params\":{\"a\":\"",
        )
        .await;
    let part = vec![b'x'; 1 << 20];
    for _ in 0..100 {
        client.send_bytes(&part).await;
    }
    client.send_bytes(b"\"}}\n").await;
    assert_eq!(client.answer(900).await["error"]["code"], -32600);
    let session = client.session(&server).await;
    assert_eq!(client.prompt(&session, "here").await, "end_turn");
    client.leave().await;
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_at_once_are_bounded_and_an_id_in_use_is_refused() {
    let server = TestServer::start(Script::replies([ScriptedReply::stall()])).await;
    let mut client = server.client().await;
    let session = client.session(&server).await;
    let first = client.say(&session, "stall").await;
    let prompt = json!([{ "type": "text", "text": "again" }]);
    let again = json!({
        "jsonrpc": "2.0", "id": first, "method": "session/prompt",
        "params": { "sessionId": session, "prompt": prompt },
    });
    client.send_message(&again).await;
    let refused = client.find(|message| !message["error"].is_null()).await;
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&Value::Null, &json!(-32600)));
    let mut ids = Vec::new();
    for _ in 0..200 {
        ids.push(client.say(&session, "more").await);
    }
    let refused = client.find(|message| !message["error"].is_null()).await;
    assert_eq!(refused["error"]["code"], -32600, "{refused}");
    client.notify("session/cancel", json!({ "sessionId": session })).await;
    assert_eq!(client.stopped(first).await, "cancelled");
    // Every request has an answer.
    for id in ids {
        if id == refused["id"] {
            continue;
        }
        let answer = client.answer(id).await;
        let is_cancelled = answer["result"]["stopReason"] == "cancelled";
        assert!(is_cancelled || answer["error"]["code"] == -32600, "{answer}");
    }
    client.leave().await;
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_editor_that_vanishes_takes_its_commands_along() {
    let mark = marker();
    let command = json!({ "command": format!("setsid sleep {mark} & sleep {mark}") });
    let reply = ScriptedReply::tool_call("terminal", command);
    let server = TestServer::start(Script::replies([reply])).await;
    let mut client = server.client().await;
    let session = client.session(&server).await;
    client.say(&session, "go").await;
    until("the command runs", || processes_with(&mark).len() >= 2).await;
    // In the middle of a message.
    client.send_bytes(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"meth").await;
    assert_eq!(client.leave().await, EditorEnd::Gone);
    until("its processes are gone", || processes_with(&mark).is_empty()).await;
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_to_an_editor_that_vanishes_is_a_no() {
    let server = TestServer::start(Script::replies([ScriptedReply::tool_call(
        "terminal",
        json!({ "command": "rm -rf fuel" }),
    )]))
    .await;
    let dir = server.project().join("fuel");
    std::fs::create_dir(&dir).unwrap();
    let mut client = server.client().await;
    let session = client.session(&server).await;
    client.say(&session, "go").await;
    client.find(|it| it["method"] == "session/request_permission").await;
    assert_eq!(client.leave().await, EditorEnd::Gone);
    assert!(dir.exists());
    server.end().await;
}
