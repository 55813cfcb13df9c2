//! The shape of chat completions.

use serde_json::{Value, json};
use vestal_scripted_model::{
    BilledUsage, Model, Quirk, Script, ScriptedFinish, ScriptedModel, ScriptedReply,
    ScriptedToolCall,
};

use crate::client::{Client, Response, asking};

const PATH: &str = "/v1/chat/completions";

fn usage() -> BilledUsage {
    BilledUsage { input: 10, output: 7, cache_read: 4, cache_write: 1, reasoning: 2 }
}

fn sent_usage() -> Value {
    json!({
        "prompt_tokens": 15,
        "completion_tokens": 7,
        "total_tokens": 22,
        "prompt_tokens_details": {"cached_tokens": 4, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 2, "audio_tokens": 0},
    })
}

async fn ask(reply: ScriptedReply, body: &Value) -> Response {
    let model = ScriptedModel::start(Script::replies([reply]));
    Client::connect(model.address()).await.post(PATH, body).await
}

/// Returns the deltas of a streamed answer, the usage chunk left out.
fn deltas(response: &Response) -> Vec<Value> {
    let chunks = response.data().into_iter().map(|chunk| chunk["choices"][0]["delta"].clone());
    chunks.filter(|delta| !delta.is_null()).collect()
}

#[tokio::test]
async fn a_streamed_answer_is_chunks_then_usage_then_done() {
    let reply = ScriptedReply::text("héllo world").with_reasoning("hm").usage(usage()).chunked(6);
    let response = ask(reply, &asking("hi")).await;
    assert_eq!(response.status, 200);
    assert!(response.complete);
    assert_eq!(response.header("content-type"), Some("text/event-stream; charset=utf-8"));
    assert_eq!(
        deltas(&response),
        [
            json!({"role": "assistant", "content": "", "refusal": null}),
            json!({"reasoning_content": "hm"}),
            json!({"content": "héllo "}),
            json!({"content": "world"}),
            json!({}),
        ]
    );
    let chunks = response.data();
    let mut first = chunks[0].clone();
    assert!(first["created"].take().as_u64().unwrap() > 1_700_000_000);
    assert_eq!(
        first,
        json!({
            "id": "chatcmpl-scripted-1",
            "object": "chat.completion.chunk",
            "created": null,
            "model": "m",
            "system_fingerprint": "fp_scripted",
            "choices": [{
                "index": 0,
                "delta": {"role": "assistant", "content": "", "refusal": null},
                "logprobs": null,
                "finish_reason": null,
            }],
            "usage": null,
        })
    );
    assert_eq!(chunks[4]["choices"][0]["finish_reason"], "stop");
    assert_eq!(chunks[5]["choices"], json!([]));
    assert_eq!(chunks[5]["usage"], sent_usage());
    assert!(response.text().ends_with("}\n\ndata: [DONE]\n\n"));
}

#[tokio::test]
async fn usage_is_reported_only_to_those_who_ask() {
    let mut body = asking("hi");
    body["stream_options"] = Value::Null;
    let response = ask(ScriptedReply::text("hello"), &body).await;
    assert!(!response.text().contains("usage"));
    let response = ask(ScriptedReply::text("hello").quirk(Quirk::NoUsage), &asking("hi")).await;
    assert!(!response.text().contains("usage"));
}

#[tokio::test]
async fn streamed_tool_calls_open_with_id_and_name_and_go_on_with_arguments() {
    let reply = ScriptedReply::tool_calls([
        ScriptedToolCall::new("terminal", json!({"command": "ls"})).id("call_x"),
        ScriptedToolCall::new("broken", "{\"comm"),
    ]);
    let response = ask(reply.chunked(10), &asking("hi")).await;
    assert_eq!(
        deltas(&response)[1..],
        [
            json!({"tool_calls": [{"index": 0, "id": "call_x", "type": "function",
                "function": {"name": "terminal", "arguments": ""}}]}),
            json!({"tool_calls": [{"index": 0, "function": {"arguments": "{\"command\""}}]}),
            json!({"tool_calls": [{"index": 0, "function": {"arguments": ":\"ls\"}"}}]}),
            json!({"tool_calls": [{"index": 1, "id": "call_1_1", "type": "function",
                "function": {"name": "broken", "arguments": ""}}]}),
            json!({"tool_calls": [{"index": 1, "function": {"arguments": "{\"comm"}}]}),
            json!({}),
        ]
    );
    assert!(response.text().contains("\"finish_reason\":\"tool_calls\""));
}

#[tokio::test]
async fn an_answer_that_is_not_streamed_is_one_object() {
    let mut body = asking("hi");
    body["stream"] = json!(false);
    let reply = ScriptedReply::text("hello")
        .with_reasoning("hm")
        .with_tool_call(ScriptedToolCall::new("terminal", json!({"command": "ls"})))
        .usage(usage())
        .finish(ScriptedFinish::Length);
    let response = ask(reply, &body).await;
    assert_eq!(response.header("content-type"), Some("application/json"));
    let mut answer = response.json();
    answer["created"].take();
    assert_eq!(
        answer,
        json!({
            "id": "chatcmpl-scripted-1",
            "object": "chat.completion",
            "created": null,
            "model": "m",
            "system_fingerprint": "fp_scripted",
            "choices": [{
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": "hello",
                    "refusal": null,
                    "reasoning_content": "hm",
                    "tool_calls": [{
                        "id": "call_1_0",
                        "type": "function",
                        "function": {"name": "terminal", "arguments": "{\"command\":\"ls\"}"},
                    }],
                },
                "logprobs": null,
                "finish_reason": "length",
            }],
            "usage": sent_usage(),
        })
    );
}

#[tokio::test]
async fn quirks_of_tool_calls_are_as_providers_have_them() {
    let call = || ScriptedReply::tool_call("terminal", json!({"a": 1})).chunked(0);
    let of = async |quirk| {
        let response = ask(call().quirk(quirk), &asking("hi")).await;
        let all = deltas(&response);
        let calls = all.iter().filter_map(|delta| delta["tool_calls"].get(0));
        calls.cloned().collect::<Vec<Value>>()
    };
    let opening = |name: &str| {
        json!({"index": 0, "id": "call_1_0", "type": "function",
            "function": {"name": name, "arguments": ""}})
    };
    let arguments = json!({"index": 0, "function": {"arguments": "{\"a\":1}"}});
    let named = |name: &str| json!({"index": 0, "function": {"name": name, "arguments": ""}});
    assert_eq!(
        of(Quirk::NoIndex).await,
        [
            json!({"id": "call_1_0", "type": "function",
                "function": {"name": "terminal", "arguments": ""}}),
            json!({"function": {"arguments": "{\"a\":1}"}}),
        ]
    );
    assert_eq!(
        of(Quirk::NoId).await[0],
        json!({"index": 0, "type": "function", "function": {"name": "terminal", "arguments": ""}})
    );
    assert_eq!(of(Quirk::SplitNames).await, [opening("term"), named("inal"), arguments.clone()]);
    assert_eq!(of(Quirk::CumulativeNames).await, [opening("term"), named("terminal"), arguments]);
    assert_eq!(
        of(Quirk::RepeatedNames).await[1],
        json!({"index": 0, "id": "call_1_0", "type": "function",
            "function": {"name": "terminal", "arguments": "{\"a\":1}"}})
    );
    assert_eq!(
        of(Quirk::ObjectArguments).await,
        [json!({"index": 0, "id": "call_1_0", "type": "function",
            "function": {"name": "terminal", "arguments": {"a": 1}}})]
    );
}

#[tokio::test]
async fn quirks_of_the_stream_are_as_providers_have_them() {
    let of = async |quirk| {
        ask(ScriptedReply::text("hello").with_reasoning("hm").quirk(quirk), &asking("hi")).await
    };
    assert!(!of(Quirk::NoFinish).await.text().contains("\"finish_reason\":\"stop\""));
    assert!(!of(Quirk::NoDone).await.text().contains("[DONE]"));
    assert!(of(Quirk::Crlf).await.text().ends_with("data: [DONE]\r\n\r\n"));
    assert!(of(Quirk::Comments).await.text().starts_with(": still there\n\ndata: {"));
    assert_eq!(deltas(&of(Quirk::ReasoningField).await)[1], json!({"reasoning": "hm"}));
}

#[tokio::test]
async fn an_error_inside_the_stream_is_a_chunk_of_its_own() {
    let response =
        ask(ScriptedReply::text("hello").chunked(2).error_after(1, "overloaded"), &asking("hi"))
            .await;
    assert_eq!(response.status, 200);
    assert_eq!(
        response.data()[2],
        json!({"error":
            {"message": "overloaded", "type": "server_error", "param": null, "code": null}})
    );
    assert_eq!(response.events().len(), 3);
}

#[tokio::test]
async fn models_are_listed_with_their_context_length_where_it_is_reported() {
    let script = Script::new().models([Model::new("big").context_length(9000), Model::new("b")]);
    let model = ScriptedModel::start(script);
    let mut client = Client::connect(model.address()).await;
    client.send("GET /v1/models HTTP/1.1", b"").await;
    assert_eq!(
        client.response().await.json(),
        json!({"object": "list", "data": [
            {"id": "big", "object": "model", "created": 1_700_000_000, "owned_by": "script",
             "context_length": 9000},
            {"id": "b", "object": "model", "created": 1_700_000_000, "owned_by": "script"},
        ]})
    );
    assert_eq!(model.requests(), []);
    assert_eq!(model.other_requests()[0].path, "/v1/models");
}
