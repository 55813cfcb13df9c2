//! What an editor chooses: the mode, the model, how much it thinks, and servers of tools.

use serde_json::{Value, json};
use vestal_scripted_model::{ReplyRule, Script, ScriptedReply};

use crate::support::{Client, TestServer};

/// Returns the current value of an option.
fn current<'o>(options: &'o Value, id: &str) -> &'o str {
    let all = options.as_array().unwrap();
    let option = all.iter().find(|option| option["id"] == id).unwrap();
    option["currentValue"].as_str().unwrap()
}

fn values(options: &Value, id: &str) -> Vec<String> {
    let all = options.as_array().unwrap();
    let option = all.iter().find(|option| option["id"] == id).unwrap();
    let values = option["options"].as_array().unwrap().iter();
    values.map(|choice| choice["value"].as_str().unwrap().to_owned()).collect()
}

/// Waits until an option is shown with a value. The list of models, which comes when it is known, is
/// shown with the other options.
async fn shown(client: &mut Client, id: &str, value: &str) {
    while current(&client.update("config_option_update").await["configOptions"], id) != value {}
}

async fn open(client: &mut Client, server: &TestServer) -> Value {
    let params = json!({ "cwd": server.project(), "mcpServers": [] });
    client.call("session/new", params).await
}

/// Answers a question with one of its options.
async fn choose(client: &mut Client, asked: &Value, option: &str) {
    let outcome = json!({ "outcome": { "outcome": "selected", "optionId": option } });
    client.send_message(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": outcome })).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_plan_mode_nothing_is_changed_before_the_plan_is_approved() {
    let write = || json!({ "path": "notes.txt", "content": "lit\n" });
    let plan = json!({ "plan": "1. Write notes.txt." });
    let server = TestServer::start(Script::replies([
        ScriptedReply::tool_call("write_file", write()),
        ScriptedReply::tool_call("present_plan", plan.clone()),
        ScriptedReply::tool_call("present_plan", plan),
        ScriptedReply::tool_call("write_file", write()),
        ScriptedReply::text("done"),
    ]))
    .await;
    let mut client = server.client().await;
    let opened = open(&mut client, &server).await;
    let session = opened["sessionId"].as_str().unwrap().to_owned();
    let modes = opened["modes"]["availableModes"].as_array().unwrap().iter();
    let modes: Vec<&str> = modes.filter_map(|mode| mode["id"].as_str()).collect();
    assert_eq!(modes, ["ask", "yolo", "plan"]);
    assert_eq!(values(&opened["configOptions"], "mode"), modes);
    client.call("session/set_mode", json!({ "sessionId": session, "modeId": "plan" })).await;
    shown(&mut client, "mode", "plan").await;
    let prompt = client.say(&session, "light it").await;
    let path = server.project().join("notes.txt");
    for answer in ["reject", "approve"] {
        let asked = client.find(|it| it["method"] == "session/request_permission").await;
        assert!(!path.exists());
        let call = &asked["params"]["toolCall"];
        assert_eq!(call["kind"], "switch_mode", "{asked}");
        assert_eq!(call["content"][0]["content"]["text"], "1. Write notes.txt.", "{asked}");
        choose(&mut client, &asked, answer).await;
    }
    assert_eq!(client.update("current_mode_update").await["currentModeId"], "ask");
    assert_eq!(client.stopped(prompt).await, "end_turn");
    assert_eq!(std::fs::read_to_string(path).unwrap(), "lit\n");
    client.leave().await;
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_model_and_how_much_it_thinks_are_chosen_and_count_from_the_next_turn_on() {
    let server =
        TestServer::start(Script::rules([ReplyRule::always().reply(ScriptedReply::text("yes"))]))
            .await;
    let mut client = server.client().await;
    let opened = open(&mut client, &server).await;
    let session = opened["sessionId"].as_str().unwrap().to_owned();
    let options = &opened["configOptions"];
    let model = current(options, "model").to_owned();
    let provider = model.strip_suffix(":m").unwrap();
    assert_eq!(current(options, "thought_level"), "auto");
    assert!(values(options, "model").contains(&model), "{options}");
    let other = format!("{provider}:other");
    let set =
        |id: &str, value: &str| json!({ "sessionId": session, "configId": id, "value": value });
    let changed = client.call("session/set_config_option", set("model", &other)).await;
    assert_eq!(current(&changed["configOptions"], "model"), other);
    let changed = client.call("session/set_config_option", set("thought_level", "high")).await;
    assert_eq!(current(&changed["configOptions"], "thought_level"), "high");
    assert_eq!(client.prompt(&session, "are you there?").await, "end_turn");
    let asked = server.model.requests();
    assert_eq!(asked.last().unwrap().model(), "other");
    // What is chosen in words is shown, too.
    assert_eq!(client.prompt(&session, &format!("/model {model}")).await, "end_turn");
    shown(&mut client, "model", &model).await;
    for (id, value) in [("thought_level", "deep"), ("mode", "fast"), ("size", "1")] {
        client.refused("session/set_config_option", set(id, value)).await;
    }
    client.leave().await;
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_of_the_editor_that_cannot_be_used_is_named_and_the_session_opens() {
    let server = TestServer::start(Script::replies([ScriptedReply::text("yes")])).await;
    let mut client = server.client().await;
    let missing = json!({
        "name": "lamps", "command": "/no/such/program", "args": [],
        "env": [{ "name": "KEY", "value": "hidden-value" }],
    });
    let old = json!({ "type": "sse", "name": "old", "url": "http://127.0.0.1:1", "headers": [] });
    let params = json!({ "cwd": server.project(), "mcpServers": [missing, old, 7] });
    let opened = client.call("session/new", params).await;
    let session = opened["sessionId"].as_str().unwrap().to_owned();
    assert_eq!(client.prompt(&session, "are you there?").await, "end_turn");
    let words = client.words("agent_thought_chunk") + &client.words("agent_message_chunk");
    for part in ["\"old\" is not used", "lamps", "yes"] {
        assert!(words.contains(part), "{part}: {words}");
    }
    assert!(!words.contains("hidden-value"), "{words}");
    client.leave().await;
    server.end().await;
}
