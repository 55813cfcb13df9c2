//! Sessions: opened, found again, shown, closed; and commands in them.

use serde_json::{Value, json};
use vestal_scripted_model::{Script, ScriptedReply};

use crate::support::{Client, TestServer};

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_is_listed_and_shown_as_it_was_when_it_is_loaded() {
    let server = TestServer::start(Script::replies([
        ScriptedReply::text("Let me see.").with_tool_call(
            vestal_scripted_model::ScriptedToolCall::new(
                "terminal",
                json!({ "command": "echo lantern" }),
            ),
        ),
        ScriptedReply::text("It is called lantern."),
        ScriptedReply::text("Still lantern."),
    ]))
    .await;
    let mut client = server.client().await;
    let session = client.session(&server).await;
    assert_eq!(client.prompt(&session, "what is it called?").await, "end_turn");
    client.leave().await;

    let mut client = server.client().await;
    let elsewhere = json!({ "cwd": "/no/such/directory" });
    assert_eq!(client.call("session/list", elsewhere).await["sessions"], json!([]));
    let listed = client.call("session/list", json!({ "cwd": server.project() })).await;
    let found = &listed["sessions"][0];
    assert_eq!((&found["sessionId"], &found["cwd"]), (&json!(session), &json!(server.project())));
    assert!(listed["nextCursor"].is_null(), "{listed}");

    let load = json!({ "sessionId": session, "cwd": server.project(), "mcpServers": [] });
    let loaded = client.call("session/load", load).await;
    assert_eq!(loaded["modes"]["currentModeId"], "ask");
    assert_eq!(client.words("user_message_chunk"), "what is it called?");
    let call = client.update("tool_call").await;
    assert_eq!(call["title"], "echo lantern");
    let ended = client.call_update(&call["toolCallId"], "completed").await;
    assert!(ended["content"].to_string().contains("lantern"), "{ended}");
    assert_eq!(client.words("agent_message_chunk"), "Let me see.It is called lantern.");
    // It goes on.
    assert_eq!(client.prompt(&session, "and now?").await, "end_turn");
    assert_eq!(client.words("agent_message_chunk"), "Still lantern.");
    let messages = server.model.requests()[2].messages().len();
    assert!(messages >= 5, "{messages}");
    client.leave().await;
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_another_process_holds_is_reported_as_such_and_a_closed_one_is_free() {
    let server = TestServer::start(Script::echo()).await;
    let mut client = server.client().await;
    let session = client.session(&server).await;
    client.prompt(&session, "mine").await;
    let mut other = Client::begin(&server.other().await).await;
    let load = json!({ "sessionId": session, "cwd": server.project(), "mcpServers": [] });
    let error = other.refused("session/load", load.clone()).await;
    assert!(error["message"].as_str().unwrap().contains("branch"), "{error}");
    client.call("session/close", json!({ "sessionId": session })).await;
    let prompt = json!([{ "type": "text", "text": "gone?" }]);
    let params = json!({ "sessionId": session, "prompt": prompt });
    assert_eq!(client.refused("session/prompt", params).await["code"], -32002);
    other.call("session/load", load.clone()).await;
    other.leave().await;
    // To go on without seeing it again.
    client.words("user_message_chunk");
    client.call("session/resume", load).await;
    assert_eq!(client.prompt(&session, "back").await, "end_turn");
    assert_eq!(client.words("user_message_chunk"), "");
    client.leave().await;
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_that_cannot_be_are_refused_with_what_to_do() {
    let server = TestServer::start(Script::echo()).await;
    let mut client = server.client().await;
    for (method, params, code) in [
        ("session/new", json!({}), -32602),
        ("session/new", json!({ "cwd": "relative", "mcpServers": [] }), -32602),
        ("session/new", json!({ "cwd": "/no/such", "mcpServers": [] }), -32602),
        ("session/load", json!({ "sessionId": "nothing", "cwd": "/", "mcpServers": [] }), -32002),
        ("session/load", json!({ "sessionId": "../../x", "cwd": "/", "mcpServers": [] }), -32002),
        ("session/list", json!({ "cursor": "yesterday" }), -32602),
        ("session/prompt", json!({ "sessionId": "x", "prompt": [] }), -32002),
        ("session/prompt", json!({ "sessionId": "x" }), -32602),
        ("authenticate", json!({ "methodId": "x" }), -32602),
        ("no/such", json!({}), -32601),
    ] {
        let error = client.refused(method, params.clone()).await;
        assert_eq!(error["code"], code, "{method} {params}: {error}");
    }
    client.leave().await;
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_are_carried_out_and_shown_and_unknown_ones_never_reach_the_model() {
    let server = TestServer::start(Script::echo()).await;
    let mut client = server.client().await;
    let session = client.session(&server).await;
    client.prompt(&session, "one").await;
    client.words("agent_message_chunk");
    for (line, expected) in [
        ("/help", "/compress"),
        ("/help undo", "take back"),
        ("/status", "approvals"),
        ("/usage", "tokens in"),
        ("/title a fire", "a fire"),
        ("/model", "m; "),
        ("/tools", "terminal"),
        ("/approvals", "Nothing is approved"),
        ("/undo", "Took back 1 turns"),
    ] {
        assert_eq!(client.prompt(&session, line).await, "end_turn", "{line}");
        let shown = client.words("agent_message_chunk");
        assert!(shown.contains(expected), "{line}: {shown}");
    }
    client.find(|message| message["params"]["update"]["title"] == "a fire").await;
    assert_eq!(server.model.requests().len(), 1);
    for line in ["/compres", "/quit", "/new", "/undo x", "/sandbox switch other"] {
        let prompt = json!([{ "type": "text", "text": line }]);
        let params = json!({ "sessionId": session, "prompt": prompt });
        let error = client.refused("session/prompt", params).await;
        assert_eq!(error["code"], -32602, "{line}: {error}");
    }
    assert_eq!(server.model.requests().len(), 1);
    // What was taken back is not said again.
    client.prompt(&session, "two").await;
    let requests = server.model.requests();
    let messages = requests[1].messages().iter().map(Value::to_string);
    assert!(!messages.collect::<String>().contains("one\""));
    client.leave().await;
    server.end().await;
}
