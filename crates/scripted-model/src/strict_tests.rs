use serde_json::{Value, json};

use super::fault;
use crate::request::tests::request;

/// Returns what is wrong with these messages in chat completions.
fn openai(messages: &Value) -> Option<String> {
    fault(&request("/v1/chat/completions", json!({"model": "m", "messages": messages})))
}

/// Returns what is wrong with these messages in Anthropic's API.
fn anthropic(messages: &Value) -> Option<String> {
    let body = json!({"model": "m", "max_tokens": 9, "messages": messages});
    let mut request = request("/v1/messages", body);
    request.headers.insert("anthropic-version".to_owned(), "2023-06-01".to_owned());
    fault(&request)
}

fn call(id: &str) -> Value {
    json!({"role": "assistant", "content": null, "tool_calls": [
        {"id": id, "type": "function", "function": {"name": "t", "arguments": "{}"}},
    ]})
}

fn result(id: &str) -> Value {
    json!({"role": "tool", "tool_call_id": id, "content": "done"})
}

fn usage(id: &str) -> Value {
    json!({"role": "assistant", "content": [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "text", "text": "let me see"},
        {"type": "tool_use", "id": id, "name": "t", "input": {}},
    ]})
}

fn answer(id: &str) -> Value {
    json!({"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": id, "content": "done"},
        {"type": "text", "text": "and hurry"},
    ]})
}

fn user() -> Value {
    json!({"role": "user", "content": "hi"})
}

#[test]
fn a_history_that_holds_together_is_taken_by_both() {
    assert_eq!(openai(&json!([user(), call("1"), result("1"), call("1"), result("1")])), None);
    assert_eq!(anthropic(&json!([user(), usage("1"), answer("1"), usage("2"), answer("2")])), None);
}

#[test]
fn chat_completions_refuse_what_does_not_hold_together() {
    for (messages, word) in [
        (json!([]), "at least one"),
        (json!([user(), call("1")]), "without a result"),
        (json!([user(), call("1"), user(), result("1")]), "without a result"),
        (json!([user(), result("1")]), "answers no open call"),
        (json!([user(), call("1"), result("1"), result("1")]), "answers no open call"),
        (json!([user(), call("")]), "an id of its own"),
        (json!([{"role": "human", "content": "hi"}]), "is not a role"),
        (json!([user(), {"role": "assistant", "content": null}]), "neither content nor"),
        (
            json!([user(), {"role": "assistant", "tool_calls": [{"id": "1", "function":
            {"name": "t", "arguments": {}}}]}]),
            "as strings",
        ),
    ] {
        let fault = openai(&messages).expect(word);
        assert!(fault.contains(word), "{fault}");
    }
}

#[test]
fn messages_refuse_what_does_not_hold_together() {
    let block = |block: Value| json!([user(), {"role": "assistant", "content": [block]}]);
    let late = json!({"role": "user", "content": [
        {"type": "text", "text": "and"},
        {"type": "tool_result", "tool_use_id": "1", "content": "done"},
    ]});
    for (messages, word) in [
        (json!([usage("1"), answer("1")]), "first message"),
        (json!([user(), usage("1")]), "without a result"),
        (json!([user(), usage("1"), user()]), "without a result"),
        (json!([user(), answer("1")]), "answers no tool_use"),
        (json!([user(), usage("1"), late]), "must come first"),
        (json!([{"role": "system", "content": "hi"}]), "neither user nor assistant"),
        (json!([{"role": "user", "content": ""}]), "must not be empty"),
        (block(json!({"type": "text", "text": ""})), "non-empty"),
        (block(json!({"type": "thinking", "thinking": "hm"})), "needs its signature"),
        (block(json!({"type": "tool_use", "id": "1", "input": "{}"})), "must be an object"),
        (block(json!({"type": "tool_call"})), "is not a type of block"),
    ] {
        let fault = anthropic(&messages).expect(word);
        assert!(fault.contains(word), "{fault}");
    }
}

#[test]
fn what_every_request_needs_is_asked_for() {
    let messages = json!([user()]);
    let of = |path: &str, body: Value| fault(&request(path, body)).expect("a fault");
    assert!(of("/v1/chat/completions", json!({"messages": messages})).contains("model"));
    let body = json!({"model": "m", "messages": messages});
    assert!(of("/v1/messages", body.clone()).contains("anthropic-version"));
    let mut request = request("/v1/messages", body);
    request.headers.insert("anthropic-version".to_owned(), "2023-06-01".to_owned());
    assert!(fault(&request).expect("a fault").contains("max_tokens"));
    let tools = json!([{"name": "t"}, {"name": "t"}]);
    let twice = json!({"model": "m", "messages": messages, "tools": tools});
    assert!(of("/v1/messages", twice).contains("twice"));
}

/// Returns what is wrong with this input in responses.
fn responses(input: &Value) -> Option<String> {
    fault(&request("/v1/responses", json!({"model": "m", "input": input, "store": false})))
}

#[test]
fn responses_hold_together() {
    let user = json!({"role": "user", "content": [{"type": "input_text", "text": "hi"}]});
    let call = json!({"type": "function_call", "call_id": "a", "name": "t", "arguments": "{}"});
    let output = json!({"type": "function_call_output", "call_id": "a", "output": "done"});
    let thought = json!({"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "x"});
    let said = json!({"role": "assistant", "content": "so"});
    let fine = json!([user, thought, call, output, thought, said, user]);
    assert_eq!(responses(&fine), None);
    for (input, complaint) in [
        (json!([user, call, user]), "No tool output found"),
        (json!([user, output]), "No tool call found"),
        (json!([user, call, output, call, output]), "call_id of its own"),
        (json!([user, thought, user]), "required following item"),
        (json!([user, {"type": "reasoning", "id": "rs", "summary": []}, said]), "not persisted"),
        (json!([{"role": "user", "content": [{"type": "text", "text": "x"}]}]), "invalid value"),
        (json!([{"type": "what"}]), "not a type of item"),
        (json!([]), "at least one"),
    ] {
        let fault = responses(&input).unwrap_or_default();
        assert!(fault.contains(complaint), "{input}: {fault}");
    }
}
