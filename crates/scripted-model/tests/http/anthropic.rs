//! The shape of messages.

use serde_json::{Value, json};
use vestal_scripted_model::{
    BilledUsage, Model, Quirk, Script, ScriptedFinish, ScriptedModel, ScriptedReply,
    ScriptedToolCall,
};

use crate::client::{Client, Response, asking};

const PATH: &str = "/v1/messages";

fn usage() -> BilledUsage {
    BilledUsage { input: 10, output: 7, cache_read: 4, cache_write: 1, reasoning: 2 }
}

async fn ask(reply: ScriptedReply, body: &Value) -> Response {
    let model = ScriptedModel::start(Script::replies([reply]));
    Client::connect(model.address()).await.post(PATH, body).await
}

#[tokio::test]
async fn a_streamed_answer_is_blocks_of_content_between_start_and_stop() {
    let reply = ScriptedReply::text("héllo world")
        .with_reasoning("hm")
        .with_signature("signed")
        .with_redacted_reasoning("sealed")
        .with_tool_call(ScriptedToolCall::new("terminal", json!({"command": "ls"})).id("toolu_x"))
        .usage(usage())
        .chunked(10);
    let response = ask(reply, &asking("hi")).await;
    assert_eq!(response.header("content-type"), Some("text/event-stream; charset=utf-8"));
    assert!(response.complete);
    let delta = |index: usize, delta: Value| json!({"type": "content_block_delta", "index": index, "delta": delta});
    let start = |index: usize, block: Value| json!({"type": "content_block_start", "index": index, "content_block": block});
    let stop = |index: usize| json!({"type": "content_block_stop", "index": index});
    let expected = [
        json!({"type": "message_start", "message": {
            "id": "msg_scripted_1",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "content": [],
            "stop_reason": null,
            "stop_sequence": null,
            "usage": {
                "input_tokens": 10,
                "cache_creation_input_tokens": 1,
                "cache_read_input_tokens": 4,
                "output_tokens": 1,
            },
        }}),
        start(0, json!({"type": "thinking", "thinking": "", "signature": ""})),
        json!({"type": "ping"}),
        delta(0, json!({"type": "thinking_delta", "thinking": "hm"})),
        delta(0, json!({"type": "signature_delta", "signature": "signed"})),
        stop(0),
        start(1, json!({"type": "redacted_thinking", "data": "sealed"})),
        stop(1),
        start(2, json!({"type": "text", "text": ""})),
        delta(2, json!({"type": "text_delta", "text": "héllo worl"})),
        delta(2, json!({"type": "text_delta", "text": "d"})),
        stop(2),
        start(3, json!({"type": "tool_use", "id": "toolu_x", "name": "terminal", "input": {}})),
        delta(3, json!({"type": "input_json_delta", "partial_json": "{\"command\""})),
        delta(3, json!({"type": "input_json_delta", "partial_json": ":\"ls\"}"})),
        stop(3),
        json!({
            "type": "message_delta",
            "delta": {"stop_reason": "tool_use", "stop_sequence": null},
            "usage": {"output_tokens": 7},
        }),
        json!({"type": "message_stop"}),
    ];
    assert_eq!(response.data(), expected);
    for (name, data) in response.events() {
        let data: Value = serde_json::from_str(&data).unwrap();
        assert_eq!(name.as_deref(), data["type"].as_str());
    }
    assert!(response.text().starts_with("event: message_start\ndata: {"));
}

#[tokio::test]
async fn an_answer_that_is_not_streamed_is_one_object() {
    let mut body = asking("hi");
    body["stream"] = json!(false);
    let reply = ScriptedReply::text("hello")
        .with_reasoning("hm")
        .with_signature("signed")
        .with_tool_call(ScriptedToolCall::new("terminal", json!({"command": "ls"})))
        .usage(usage())
        .finish(ScriptedFinish::Length);
    assert_eq!(
        ask(reply, &body).await.json(),
        json!({
            "id": "msg_scripted_1",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "signed"},
                {"type": "text", "text": "hello"},
                {"type": "tool_use", "id": "toolu_1_0", "name": "terminal",
                 "input": {"command": "ls"}},
            ],
            "stop_reason": "max_tokens",
            "stop_sequence": null,
            "usage": {
                "input_tokens": 10,
                "cache_creation_input_tokens": 1,
                "cache_read_input_tokens": 4,
                "output_tokens": 7,
            },
        })
    );
}

#[tokio::test]
async fn the_end_of_a_message_tells_why_in_the_words_of_the_api() {
    for (finish, word) in [
        (ScriptedFinish::Stop, "end_turn"),
        (ScriptedFinish::Refusal, "refusal"),
        (ScriptedFinish::Other("pause_turn".to_owned()), "pause_turn"),
    ] {
        let response = ask(ScriptedReply::text("hello").finish(finish), &asking("hi")).await;
        assert!(response.text().contains(&format!("\"stop_reason\":\"{word}\"")));
    }
    let bare = ScriptedReply::text("hello")
        .quirk(Quirk::NoFinish)
        .quirk(Quirk::NoUsage)
        .quirk(Quirk::NoDone);
    let response = ask(bare, &asking("hi")).await;
    let last = response.data().pop().unwrap();
    assert_eq!(
        last,
        json!({"type": "message_delta", "delta": {"stop_reason": null, "stop_sequence": null}})
    );
    assert!(!response.text().contains("usage"));
}

#[tokio::test]
async fn an_error_inside_the_stream_is_an_event_of_its_own() {
    let response =
        ask(ScriptedReply::text("hello").chunked(2).error_after(1, "Overloaded"), &asking("hi"))
            .await;
    let (name, data) = response.events().pop().unwrap();
    assert_eq!(name.as_deref(), Some("error"));
    assert_eq!(
        serde_json::from_str::<Value>(&data).unwrap(),
        json!({
            "type": "error",
            "error": {"type": "overloaded_error", "message": "Overloaded"},
            "request_id": "req_scripted",
        })
    );
}

#[tokio::test]
async fn models_are_listed_in_the_shape_of_the_api_that_asks() {
    let script = Script::new().models([Model::new("big").context_length(9000), Model::new("b")]);
    let model = ScriptedModel::start(script);
    let mut client = Client::connect(model.address()).await;
    client.send("GET /v1/models?limit=100 HTTP/1.1\r\nanthropic-version: 2023-06-01", b"").await;
    assert_eq!(
        client.response().await.json(),
        json!({
            "data": [
                {"type": "model", "id": "big", "display_name": "big",
                 "created_at": "2026-01-01T00:00:00Z", "max_input_tokens": 9000},
                {"type": "model", "id": "b", "display_name": "b",
                 "created_at": "2026-01-01T00:00:00Z"},
            ],
            "has_more": false,
            "first_id": "big",
            "last_id": "b",
        })
    );
}
