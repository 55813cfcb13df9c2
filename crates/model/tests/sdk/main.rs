//! Responses as the SDK of `OpenAI` for Python has them: what is sent is held to its types, and so
//! is what the scripted model answers. `scripts/test` installs the SDK and names it by
//! `VESTAL_TEST_CLIENTS`.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use vestal_model::{
    Endpoint, Image, Message, ModelOptions, ModelRequest, Models, Part, ProviderApi,
    ReasoningEffort, ReasoningOptions, ToolResult, ToolSpec, UserMessage,
};
use vestal_scripted_model::{BilledUsage, Script, ScriptedModel, ScriptedReply, ScriptedToolCall};

/// Where the clients are. A run without them is red, and says why.
#[expect(clippy::disallowed_methods, reason = "it comes from scripts/test and is not a setting")]
fn clients() -> PathBuf {
    let dir = std::env::var_os("VESTAL_TEST_CLIENTS");
    PathBuf::from(dir.expect("VESTAL_TEST_CLIENTS is not set; scripts/test installs the clients"))
}

/// Runs the check with an input and returns what it prints.
fn check(arguments: &[&str], input: &str) -> String {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sdk/check.py");
    let mut child = Command::new(clients().join("python/bin/python"))
        .args(["-B", script])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

fn reply() -> ScriptedReply {
    let usage = BilledUsage { input: 10, output: 7, ..BilledUsage::default() };
    ScriptedReply::text("Here it is.")
        .with_reasoning("hm")
        .with_signature("sealed")
        .with_tool_call(ScriptedToolCall::new("terminal", json!({"command": "ls"})).id("call_x"))
        .usage(usage)
        .chunked(4)
}

#[tokio::test]
async fn requests_are_as_the_sdk_types_them() {
    let server =
        ScriptedModel::start(Script::replies([reply(), ScriptedReply::text("done")]).strict());
    let models = Models::new(ModelOptions::default()).unwrap();
    let chat = models.chat(vec![Endpoint {
        name: "scripted".to_owned(),
        api: ProviderApi::Responses,
        base_url: server.base_url(),
        key: None,
        model: "m".to_owned(),
        context_length: None,
        prices: None,
        reasoning: ReasoningOptions::effort(ReasoningEffort::High),
    }]);
    let picture =
        Image { media_type: "image/png".to_owned(), data: "QUJD".to_owned(), optional: false };
    let parts = vec![Part::Text { text: "see".to_owned() }, Part::Image(picture.clone())];
    let tools = [ToolSpec {
        name: "terminal".to_owned(),
        description: "runs".to_owned(),
        parameters: json!({"type": "object", "properties": {"command": {"type": "string"}}}),
    }];
    let mut messages = vec![Message::User(UserMessage { parts })];
    let sent = messages.clone();
    let asked = ModelRequest {
        system: "be",
        messages: &sent,
        tools: &tools,
        max_output_tokens: Some(500),
        ..ModelRequest::default()
    };
    let answer = chat.complete(&asked, &mut |_| ()).await.unwrap();
    messages.push(Message::Assistant(answer.message));
    messages.push(Message::Tool(ToolResult {
        call: "call_x".to_owned(),
        name: "terminal".to_owned(),
        content: "a picture".to_owned(),
        images: vec![picture],
        ..ToolResult::default()
    }));
    let asked = ModelRequest { messages: &messages, ..asked };
    chat.complete(&asked, &mut |_| ()).await.unwrap();
    let bodies: Vec<String> =
        server.requests().iter().map(|request| request.body.to_string()).collect();
    assert_eq!(bodies.len(), 2);
    tokio::task::spawn_blocking(move || check(&["requests"], &bodies.join("\n"))).await.unwrap();
}

#[tokio::test]
async fn the_sdk_understands_what_the_scripted_model_answers() {
    let server = ScriptedModel::start(Script::replies([reply()]));
    let base_url = server.base_url();
    let printed = tokio::task::spawn_blocking(move || check(&["stream", &base_url], ""));
    let understood: Value = serde_json::from_str(&printed.await.unwrap()).unwrap();
    let wanted = json!({
        "text": "Here it is.",
        "output_text": "Here it is.",
        "thought": "hm",
        "encrypted": ["sealed"],
        "calls": [["terminal", "{\"command\":\"ls\"}", "call_x"]],
        "input_tokens": 10,
        "status": "completed",
        "last": "response.completed",
    });
    assert_eq!(understood, wanted);
}
