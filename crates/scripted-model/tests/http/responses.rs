//! The shape of responses.

use serde_json::{Value, json};
use vestal_scripted_model::{
    BilledUsage, Script, ScriptedFinish, ScriptedModel, ScriptedReply, ScriptedToolCall,
};

use crate::client::{Client, Response};

const PATH: &str = "/v1/responses";

async fn ask(reply: ScriptedReply, more: Value) -> Response {
    let model = ScriptedModel::start(Script::replies([reply]).strict());
    let mut body = json!({"model": "m", "input": "hi", "stream": true, "store": false});
    body["input"] = json!([{"role": "user", "content": "hi"}]);
    if let Value::Object(more) = more {
        for (name, value) in more {
            body[name] = value;
        }
    }
    Client::connect(model.address()).await.post(PATH, &body).await
}

fn reply() -> ScriptedReply {
    let usage = BilledUsage { input: 10, output: 7, cache_read: 4, cache_write: 0, reasoning: 2 };
    ScriptedReply::text("héllo world")
        .with_reasoning("hm")
        .with_signature("sealed")
        .with_tool_call(ScriptedToolCall::new("terminal", json!({"command": "ls"})).id("call_x"))
        .usage(usage)
        .chunked(10)
}

fn output() -> Value {
    json!([
        {"type": "reasoning", "id": "rs_1_0", "encrypted_content": "sealed",
            "summary": [{"type": "summary_text", "text": "hm"}]},
        {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant",
            "content": [{"type": "output_text", "text": "héllo world", "annotations": []}]},
        {"type": "function_call", "id": "fc_1_0", "call_id": "call_x", "name": "terminal",
            "arguments": "{\"command\":\"ls\"}", "status": "completed"},
    ])
}

#[tokio::test]
async fn a_streamed_answer_is_items_that_open_fill_and_end() {
    let response = ask(reply(), json!({"include": ["reasoning.encrypted_content"]})).await;
    assert_eq!(response.header("content-type"), Some("text/event-stream; charset=utf-8"));
    assert!(response.complete);
    let events = response.data();
    let kinds: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    let wanted = [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.reasoning_summary_part.added",
        "response.reasoning_summary_text.delta",
        "response.reasoning_summary_text.done",
        "response.reasoning_summary_part.done",
        "response.output_item.done",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.output_item.added",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.output_item.done",
        "response.completed",
    ];
    assert_eq!(kinds, wanted);
    let numbers: Vec<u64> =
        events.iter().map(|event| event["sequence_number"].as_u64().unwrap()).collect();
    assert!(numbers.iter().copied().eq(0..21), "{numbers:?}");
    let end = &events[20]["response"];
    assert_eq!(end["output"], output());
    let usage = json!({
        "input_tokens": 14, "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 0},
        "output_tokens": 7, "output_tokens_details": {"reasoning_tokens": 2},
        "total_tokens": 21,
    });
    assert_eq!(end["usage"], usage);
}

#[tokio::test]
async fn an_answer_that_is_not_streamed_is_one_object() {
    let more = json!({"stream": false, "include": ["reasoning.encrypted_content"]});
    let response = ask(reply(), more).await;
    let body: Value = response.json();
    assert_eq!((&body["object"], &body["status"]), (&json!("response"), &json!("completed")));
    assert_eq!(body["output"], output());
    // Who does not ask for encrypted reasoning does not get it.
    let response = ask(reply(), json!({"stream": false})).await;
    let body: Value = response.json();
    assert_eq!(body["output"][0].get("encrypted_content"), None);
}

#[tokio::test]
async fn an_answer_that_is_cut_short_says_why() {
    for (finish, reason) in
        [(ScriptedFinish::Length, "max_output_tokens"), (ScriptedFinish::Refusal, "content_filter")]
    {
        let response =
            ask(ScriptedReply::text("so").finish(finish), json!({"stream": false})).await;
        let body: Value = response.json();
        assert_eq!(body["status"], "incomplete");
        assert_eq!(body["incomplete_details"], json!({"reason": reason}));
    }
}

#[tokio::test]
async fn what_the_api_refuses_is_refused() {
    let lost = json!([{"type": "function_call_output", "call_id": "x", "output": "y"}]);
    let response = ask(reply(), json!({"input": lost})).await;
    assert_eq!(response.status, 400);
    assert!(response.text().contains("No tool call found"), "{}", response.text());
}
