//! What a prompt does, and what the editor sees of it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use vestal_scripted_model::{ReplyRule, Script, ScriptedReply};
use vestal_testkit::processes::{marker, processes_with};
use vestal_testkit::until;

use crate::support::TestServer;

#[tokio::test(flavor = "multi_thread")]
async fn words_and_thoughts_stream_and_the_answer_to_the_prompt_comes_after_them() {
    let reply = ScriptedReply::text("It burns.").with_reasoning("Is it lit?").chunked(3);
    let server = TestServer::start(Script::replies([reply])).await;
    let mut client = server.client().await;
    let session = client.session(&server).await;
    let commands = client.update("available_commands_update").await;
    let named = commands["availableCommands"].as_array().unwrap().iter();
    let names: Vec<&str> = named.filter_map(|command| command["name"].as_str()).collect();
    assert!(names.contains(&"compress") && !names.contains(&"quit"), "{names:?}");
    assert_eq!(client.prompt(&session, "is it lit?").await, "end_turn");
    assert_eq!(client.words("agent_message_chunk"), "It burns.");
    assert_eq!(client.words("agent_thought_chunk"), "Is it lit?");
    client.leave().await;
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_shown_with_its_kind_its_output_and_what_it_changed() {
    let write = json!({ "path": "notes.txt", "content": "one\ntwo\n" });
    let edit = json!({ "path": "notes.txt", "old_string": "two", "new_string": "three" });
    let server = TestServer::start(Script::replies([
        ScriptedReply::tool_call("terminal", json!({ "command": "echo lantern" })),
        ScriptedReply::tool_call("write_file", write),
        ScriptedReply::tool_call("patch", edit),
        ScriptedReply::text("done"),
    ]))
    .await;
    let mut client = server.client().await;
    let session = client.session(&server).await;
    let prompt = client.say(&session, "go").await;
    let ran = client.update("tool_call").await;
    let seen = (&ran["title"], &ran["kind"], &ran["status"]);
    assert_eq!(seen, (&json!("echo lantern"), &json!("execute"), &json!("in_progress")));
    let ended = client.call_update(&ran["toolCallId"], "completed").await;
    let text = ended["content"][0]["content"]["text"].as_str().unwrap();
    assert_eq!(text, "```console\nlantern\n```");
    let path = server.project().join("notes.txt");
    let made = client.update("tool_call").await;
    assert_ne!(made["toolCallId"], ran["toolCallId"]);
    let seen = (&made["title"], &made["kind"], &made["locations"]);
    let location = json!([{ "path": path }]);
    assert_eq!(seen, (&json!("Write notes.txt"), &json!("edit"), &location));
    let made = client.call_update(&made["toolCallId"], "completed").await;
    let new = json!({ "type": "diff", "path": path, "newText": "one\ntwo\n" });
    assert_eq!(made["content"], json!([new]));
    let edited = client.update("tool_call").await;
    let edited = client.call_update(&edited["toolCallId"], "completed").await;
    let change = json!({
        "type": "diff", "path": path, "oldText": "one\ntwo\n", "newText": "one\nthree\n",
    });
    assert_eq!(edited["content"], json!([change]));
    assert_eq!(client.stopped(prompt).await, "end_turn");
    // The shell begins in the directory of the editor, where there is no isolation.
    assert_eq!(std::fs::read_to_string(path).unwrap(), "one\nthree\n");
    client.leave().await;
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_plan_is_shown_as_it_changes() {
    let todos = json!({ "todos": [
        { "id": "1", "content": "find wood", "status": "completed" },
        { "id": "2", "content": "light it", "status": "in_progress" },
        { "id": "3", "content": "swim", "status": "cancelled" },
    ] });
    let server = TestServer::start(Script::replies([
        ScriptedReply::tool_call("todo", todos),
        ScriptedReply::text("done"),
    ]))
    .await;
    let mut client = server.client().await;
    let session = client.session(&server).await;
    assert_eq!(client.prompt(&session, "go").await, "end_turn");
    let plan = client.update("plan").await;
    let entry = |content: &str, status: &str| json!({ "content": content, "priority": "medium", "status": status });
    let expected = [entry("find wood", "completed"), entry("light it", "in_progress")];
    assert_eq!(plan["entries"], json!(expected));
    client.leave().await;
    server.end().await;
}

/// A model that removes a directory when it is told to.
fn remover() -> Script {
    Script::rules([
        ReplyRule::when_user_contains("rm").reply_with(|request| {
            let command = request.last_user_text().unwrap_or_default();
            ScriptedReply::tool_call("terminal", json!({ "command": command }))
        }),
        ReplyRule::always().reply(ScriptedReply::text("done")),
    ])
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_dangerous_is_asked_about_and_done_only_when_it_is_allowed() {
    let server = TestServer::start(remover()).await;
    let mut client = server.client().await;
    let session = client.session(&server).await;
    for (option, is_gone) in [("deny", false), ("nonsense", false), ("once", true)] {
        let dir = server.project().join("fuel");
        std::fs::create_dir_all(&dir).unwrap();
        let prompt = client.say(&session, &format!("rm -rf {}", dir.display())).await;
        let call = client.update("tool_call").await;
        let asked = client.find(|it| it["method"] == "session/request_permission").await;
        let params = &asked["params"];
        assert_eq!(params["sessionId"], session.as_str());
        assert_eq!(params["toolCall"]["toolCallId"], call["toolCallId"], "{params}");
        let kinds = params["options"].as_array().unwrap().iter();
        let kinds: Vec<&str> = kinds.filter_map(|option| option["kind"].as_str()).collect();
        assert_eq!(kinds, ["allow_once", "allow_always", "allow_always", "reject_once"]);
        let outcome = json!({ "outcome": { "outcome": "selected", "optionId": option } });
        let answer = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": outcome });
        client.send_message(&answer).await;
        assert_eq!(client.stopped(prompt).await, "end_turn");
        assert_eq!(dir.exists(), !is_gone, "{option}");
    }
    client.leave().await;
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_with_choices_is_answered_with_one_of_them() {
    let ask = json!({ "question": "Which wood?", "choices": ["oak", "ash"] });
    let server = TestServer::start(Script::replies([
        ScriptedReply::tool_call("clarify", ask),
        ScriptedReply::text("ash it is"),
    ]))
    .await;
    let mut client = server.client().await;
    let session = client.session(&server).await;
    let prompt = client.say(&session, "light it").await;
    let asked = client.find(|it| it["method"] == "session/request_permission").await;
    assert_eq!(asked["params"]["toolCall"]["title"], "Which wood?");
    assert_eq!(asked["params"]["options"][1]["name"], "ash");
    let outcome = json!({ "outcome": { "outcome": "selected", "optionId": "1" } });
    client.send_message(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": outcome })).await;
    assert_eq!(client.stopped(prompt).await, "end_turn");
    let result = server.model.requests()[1].last_tool_results().join("");
    assert!(result.contains("ash"), "{result}");
    client.leave().await;
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mode_without_questions_asks_none_and_is_left_again() {
    let server = TestServer::start(remover()).await;
    let mut client = server.client().await;
    let params = json!({ "cwd": server.project(), "mcpServers": [] });
    let opened = client.call("session/new", params).await;
    assert_eq!(opened["modes"]["currentModeId"], "ask");
    let session = opened["sessionId"].as_str().unwrap();
    let mode = |id: &str| json!({ "sessionId": session, "modeId": id });
    client.call("session/set_mode", mode("yolo")).await;
    let dir = server.project().join("fuel");
    std::fs::create_dir(&dir).unwrap();
    let line = format!("rm -rf {}", dir.display());
    assert_eq!(client.prompt(session, &line).await, "end_turn");
    assert!(!dir.exists());
    let error = client.refused("session/set_mode", mode("no-such")).await;
    assert_eq!(error["code"], -32602);
    // The command does the same, and the client hears of it.
    assert_eq!(client.prompt(session, "/yolo off").await, "end_turn");
    assert_eq!(client.update("current_mode_update").await["currentModeId"], "ask");
    std::fs::create_dir(&dir).unwrap();
    client.say(session, &line).await;
    client.find(|it| it["method"] == "session/request_permission").await;
    client.leave().await;
    assert!(dir.exists());
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_session_ends_its_command_its_question_and_the_prompts_that_wait() {
    let server = TestServer::start(Script::rules([
        ReplyRule::when_user_contains("sleep").reply_with(|request| {
            let command = request.last_user_text().unwrap_or_default();
            ScriptedReply::tool_call("terminal", json!({ "command": command }))
        }),
        ReplyRule::always().reply(ScriptedReply::text("done")),
    ]))
    .await;
    let mut client = server.client().await;
    let session = client.session(&server).await;
    let mark = marker();
    let first = client.say(&session, &format!("setsid sleep {mark} & sleep {mark}")).await;
    until("the command runs", || processes_with(&mark).len() >= 2).await;
    let picture = json!({ "type": "image", "data": STANDARD.encode(PNG), "mimeType": "image/png" });
    let params = json!({ "sessionId": session, "prompt": [picture] });
    let second = client.send("session/prompt", params).await;
    client.notify("session/cancel", json!({ "sessionId": session })).await;
    assert_eq!(client.stopped(first).await, "cancelled");
    assert_eq!(client.stopped(second).await, "cancelled");
    assert_eq!(processes_with(&mark), Vec::<u32>::new());
    // The session goes on.
    assert_eq!(client.prompt(&session, "and now?").await, "end_turn");
    let third = client.say(&session, &format!("sleep {mark}")).await;
    until("the command runs", || !processes_with(&mark).is_empty()).await;
    client.notify("$/cancel_request", json!({ "requestId": third })).await;
    assert_eq!(client.stopped(third).await, "cancelled");
    client.leave().await;
    server.end().await;
}

/// The smallest PNG there is a name for.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\0\0\0\0";

#[tokio::test(flavor = "multi_thread")]
async fn pictures_and_files_of_the_editor_reach_the_model() {
    let server = TestServer::start(Script::replies([ScriptedReply::text("a fire")])).await;
    let mut client = server.client().await;
    let session = client.session(&server).await;
    let file = server.project().join("a.rs");
    let uri = format!("file://{}", file.display());
    let prompt = json!([
        { "type": "text", "text": "what is this? " },
        { "type": "resource_link", "uri": uri, "name": "a.rs" },
        { "type": "image", "data": STANDARD.encode(PNG), "mimeType": "image/png" },
        { "type": "resource", "resource": { "uri": uri, "text": "fn main() {}\n" } },
    ]);
    let params = json!({ "sessionId": session, "prompt": prompt });
    assert_eq!(client.call("session/prompt", params).await["stopReason"], "end_turn");
    let request = server.model.requests()[0].messages().last().unwrap().to_string();
    for part in ["what is this?", "a.rs", "fn main() {}", "data:image/png;base64,"] {
        assert!(request.contains(part), "{part}: {request}");
    }
    client.leave().await;
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn words_during_a_turn_reach_its_model_and_are_answered_with_its_end() {
    let sleep = json!({ "command": "until test -e go; do sleep 0.02; done" });
    let server = TestServer::start(Script::replies([
        ScriptedReply::tool_call("terminal", sleep),
        ScriptedReply::text("understood"),
    ]))
    .await;
    let mut client = server.client().await;
    let session = client.session(&server).await;
    let first = client.say(&session, "wait for it").await;
    client.update("tool_call").await;
    let second = client.say(&session, "and hurry").await;
    // Requests are answered in turn, so the words have been taken when this is refused.
    client.refused("session/set_mode", json!({ "sessionId": session, "modeId": "x" })).await;
    std::fs::write(server.project().join("go"), "").unwrap();
    assert_eq!(client.stopped(first).await, "end_turn");
    assert_eq!(client.stopped(second).await, "end_turn");
    let requests = server.model.requests();
    let last = requests.last().unwrap().messages().iter().map(Value::to_string);
    assert!(last.collect::<String>().contains("and hurry"));
    client.leave().await;
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_fails_is_an_error_that_says_what_to_do() {
    let server = TestServer::start(Script::replies([
        ScriptedReply::error(401, "no such key"),
        ScriptedReply::text("done"),
    ]))
    .await;
    let mut client = server.client().await;
    let session = client.session(&server).await;
    let prompt = json!([{ "type": "text", "text": "hello" }]);
    let params = json!({ "sessionId": session, "prompt": prompt });
    let error = client.refused("session/prompt", params).await;
    assert_eq!(error["code"], -32603);
    assert!(error["data"]["advice"].is_string(), "{error}");
    assert_eq!(client.prompt(&session, "again").await, "end_turn");
    client.leave().await;
    server.end().await;
}
