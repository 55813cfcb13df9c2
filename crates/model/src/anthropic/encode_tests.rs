use serde_json::json;

use super::*;
use crate::effort::ReasoningOptions;
use crate::message::Image;
use crate::message::{Message, Opaque, Reasoning, ToolCall, ToolResult};

fn endpoint() -> Endpoint {
    Endpoint {
        name: "there".to_owned(),
        api: ProviderApi::AnthropicMessages,
        base_url: "http://h/v1".to_owned(),
        key: None,
        model: "m".to_owned(),
        context_length: None,
        prices: None,
        reasoning: crate::effort::ReasoningOptions::AUTO,
    }
}

fn encode(request: &ModelRequest<'_>) -> Value {
    serde_json::from_slice(&body(&endpoint(), request, Quirks::default()).unwrap()).unwrap()
}

/// Returns the messages as sent, without the marks for caching.
fn messages(messages: &[Message]) -> Value {
    let mut sent = encode(&ModelRequest { messages, ..ModelRequest::default() });
    let mut messages = sent["messages"].take();
    for entry in messages.as_array_mut().unwrap() {
        for block in entry["content"].as_array_mut().unwrap() {
            block.as_object_mut().unwrap().remove("cache_control");
        }
    }
    messages
}

fn assistant_message(text: &str, calls: &[(&str, &str)], reasoning: Vec<Reasoning>) -> Message {
    let calls = calls.iter().map(|(id, arguments)| ToolCall {
        id: (*id).to_owned(),
        name: "t".to_owned(),
        arguments: (*arguments).to_owned(),
    });
    let calls = calls.collect();
    Message::Assistant(AssistantMessage {
        text: text.to_owned(),
        calls,
        reasoning,
        ..Default::default()
    })
}

fn result(call: &str, content: &str, is_error: bool) -> Message {
    let (call, content) = (call.to_owned(), content.to_owned());
    Message::Tool(ToolResult { call, name: "t".to_owned(), content, is_error, images: Vec::new() })
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

#[test]
fn a_whole_request_has_the_apis_shape_and_marks_for_caching() {
    let image = Part::Image(Image {
        media_type: "image/png".to_owned(),
        data: "QUJD".to_owned(),
        optional: false,
    });
    let history = [
        Message::user("first"),
        assistant_message("sure", &[], vec![]),
        Message::User(UserMessage { parts: vec![image] }),
        assistant_message("", &[("c1", "{\"b\": 1, \"a\": 2}")], vec![]),
        result("c1", "done", false),
    ];
    let parameters = json!({"type": "object"});
    let spec = |name: &str| ToolSpec {
        name: name.to_owned(),
        description: "does".to_owned(),
        parameters: parameters.clone(),
    };
    let tools = [spec("t"), spec("u")];
    let request =
        ModelRequest { system: "be", messages: &history, tools: &tools, ..ModelRequest::default() };
    let mark = json!({"type": "ephemeral"});
    let source = json!({"type": "base64", "media_type": "image/png", "data": "QUJD"});
    let wanted = json!({
        "model": "m",
        "max_tokens": 32000,
        "system": [{"type": "text", "text": "be", "cache_control": mark}],
        "messages": [
            {"role": "user", "content": [text("first")]},
            {"role": "assistant", "content": [text("sure")]},
            {"role": "user", "content": [{"type": "image", "source": source, "cache_control": mark}]},
            {"role": "assistant", "content": [
                {"type": "tool_use", "id": "c1", "name": "t", "input": {"b": 1, "a": 2}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": "done", "cache_control": mark}]},
        ],
        "tools": [
            {"name": "t", "description": "does", "input_schema": parameters},
            {"name": "u", "description": "does", "input_schema": parameters, "cache_control": mark},
        ],
        "stream": true,
    });
    assert_eq!(encode(&request), wanted);
    // The order of the arguments is as the model wrote them.
    let bytes = body(&endpoint(), &request, Quirks::default()).unwrap();
    assert!(String::from_utf8_lossy(&bytes).contains("\"input\":{\"b\": 1, \"a\": 2}"));
}

#[test]
fn roles_alternate_and_results_come_before_words() {
    let history = [
        Message::user("one"),
        Message::user("two"),
        assistant_message("", &[("a/1", "{}"), ("b", "oops")], vec![]),
        Message::user("steer"),
        result("b", "", true),
        result("a/1", "A", false),
        Message::user("more"),
    ];
    let wanted = json!([
        {"role": "user", "content": [text("one"), text("two")]},
        {"role": "assistant", "content": [
            {"type": "tool_use", "id": "a_1", "name": "t", "input": {}},
            {"type": "tool_use", "id": "b", "name": "t", "input": {"unreadable_arguments": "oops"}},
        ]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "a_1", "content": "A"},
            {"type": "tool_result", "tool_use_id": "b", "is_error": true},
            text("steer"),
            text("more"),
        ]},
    ]);
    assert_eq!(messages(&history), wanted);
}

#[test]
fn a_cut_history_begins_and_ends_with_the_persons_side() {
    let history = [
        assistant_message("", &[], vec![]),
        assistant_message("words \n", &[], vec![]),
        Message::user(" \n"),
    ];
    let wanted = json!([
        {"role": "user", "content": [text("(Earlier messages are left out.)")]},
        {"role": "assistant", "content": [text("words")]},
        {"role": "user", "content": [text("Continue.")]},
    ]);
    assert_eq!(messages(&history), wanted);
}

#[test]
fn thoughts_go_back_unchanged_to_who_made_them_and_to_nobody_else() {
    let block = json!({"type": "thinking", "thinking": "hm", "signature": "s"});
    let opaque = |provider: &str, api: ProviderApi, value: &Value| Reasoning {
        text: "hm".to_owned(),
        opaque: Some(Opaque { api, provider: provider.to_owned(), value: value.clone() }),
    };
    let reasoning = vec![
        opaque("there", ProviderApi::AnthropicMessages, &block),
        opaque("elsewhere", ProviderApi::AnthropicMessages, &block),
        opaque("there", ProviderApi::ChatCompletions, &block),
        opaque("there", ProviderApi::AnthropicMessages, &json!("not a block")),
        Reasoning { text: "unsigned".to_owned(), opaque: None },
    ];
    let history =
        [Message::user("q"), assistant_message("a", &[], reasoning.clone()), Message::user("b")];
    assert_eq!(messages(&history)[1]["content"], json!([block, text("a")]));
    // Thoughts alone are not a message.
    let history = [Message::user("q"), assistant_message("", &[], reasoning), Message::user("b")];
    assert_eq!(messages(&history), json!([{"role": "user", "content": [text("q"), text("b")]}]));
}

#[test]
fn a_request_without_tools_names_and_forbids_those_of_its_history() {
    let history = [
        Message::user("q"),
        assistant_message("", &[("a", "{}"), ("b", "{}")], vec![]),
        result("a", "A", false),
    ];
    let sent = encode(&ModelRequest { messages: &history, ..ModelRequest::default() });
    let mark = json!({"type": "ephemeral"});
    let tool = json!({"name": "t", "input_schema": {"type": "object"}, "cache_control": mark});
    assert_eq!(sent["tools"], json!([tool]));
    assert_eq!(sent["tool_choice"], json!({"type": "none"}));
    let sent = encode(&ModelRequest { messages: &history[..1], ..ModelRequest::default() });
    assert_eq!((&sent["tools"], &sent["tool_choice"]), (&Value::Null, &Value::Null));
}

#[test]
fn output_is_limited_to_what_is_asked_for_and_to_what_the_provider_lets() {
    let history = [Message::user("q")];
    let request =
        ModelRequest { messages: &history, max_output_tokens: Some(50), ..ModelRequest::default() };
    assert_eq!(encode(&request)["max_tokens"], 50);
    let quirks = Quirks { most_output: Some(20), ..Quirks::default() };
    let sent: Value =
        serde_json::from_slice(&body(&endpoint(), &request, quirks).unwrap()).unwrap();
    assert_eq!(sent["max_tokens"], 20);
}

#[test]
fn pictures_of_a_result_are_part_of_it() {
    let image =
        Image { media_type: "image/png".to_owned(), data: "QUJD".to_owned(), optional: false };
    let Message::Tool(shown) = result("c1", "a chart", false) else { panic!("no result") };
    let shown = Message::Tool(ToolResult { images: vec![image], ..shown });
    let sent =
        messages(&[Message::user("hi"), assistant_message("", &[("c1", "{}")], vec![]), shown]);
    let source = json!({"type": "base64", "media_type": "image/png", "data": "QUJD"});
    let content = json!([text("a chart"), {"type": "image", "source": source}]);
    let expected = json!([{"type": "tool_result", "tool_use_id": "c1", "content": content}]);
    assert_eq!(sent[2]["content"], expected);
}

/// Returns what is sent of how much the model shall think, and how much it may write.
fn thinking(messages: &[Message], reasoning: ReasoningOptions, quirks: Quirks) -> Value {
    let request = ModelRequest { messages, reasoning: Some(reasoning), ..ModelRequest::default() };
    let sent: Value =
        serde_json::from_slice(&body(&endpoint(), &request, quirks).unwrap()).unwrap();
    json!([sent["thinking"], sent["output_config"], sent["max_tokens"]])
}

#[test]
fn the_reasoning_effort_is_sent_in_tokens_or_a_word() {
    let hello = [Message::user("hello")];
    let plain = Quirks::default();
    let high = ReasoningOptions::effort(ReasoningEffort::High);
    let budget = ReasoningOptions { budget_tokens: Some(5000), ..high };
    let enabled = |tokens: u64| json!({"type": "enabled", "budget_tokens": tokens});
    assert_eq!(thinking(&hello, ReasoningOptions::AUTO, plain), json!([null, null, 32_000]));
    assert_eq!(thinking(&hello, high, plain), json!([enabled(24_576), null, 56_576]));
    assert_eq!(thinking(&hello, budget, plain), json!([enabled(5000), null, 37_000]));
    let none = ReasoningOptions::effort(ReasoningEffort::None);
    assert_eq!(thinking(&hello, none, plain), json!([null, null, 32_000]));
    // A model that may write little thinks less, or not at all.
    let small = |most| Quirks { most_output: Some(most), ..plain };
    assert_eq!(thinking(&hello, high, small(8192)), json!([enabled(7168), null, 8192]));
    assert_eq!(thinking(&hello, high, small(2000)), json!([null, null, 2000]));
    let adaptive = Quirks { thinking: ThinkingRule::Adaptive, ..plain };
    let word = json!([{"type": "adaptive"}, {"effort": "high"}, 32_000]);
    assert_eq!(thinking(&hello, high, adaptive), word);
    let left_out = Quirks { thinking: ThinkingRule::LeftOut, ..plain };
    assert_eq!(thinking(&hello, high, left_out), json!([null, null, 32_000]));
}

#[test]
fn amid_calls_of_another_model_there_is_no_thinking() {
    let high = ReasoningOptions::effort(ReasoningEffort::High);
    let thought = |provider: &str| Reasoning {
        text: "hm".to_owned(),
        opaque: Some(Opaque {
            api: ProviderApi::AnthropicMessages,
            provider: provider.to_owned(),
            value: json!({"type": "thinking", "thinking": "hm", "signature": "s"}),
        }),
    };
    let amid = |provider: &str| {
        let call = assistant_message("", &[("c1", "{}")], vec![thought(provider)]);
        [Message::user("first"), call, result("c1", "done", false)]
    };
    let quirks = Quirks::default();
    assert_eq!(thinking(&amid("there"), high, quirks)[0]["type"], "enabled");
    assert_eq!(thinking(&amid("elsewhere"), high, quirks)[0], Value::Null);
    let answered = assistant_message("so", &[], vec![]);
    let mut next = amid("elsewhere").to_vec();
    next.extend([answered, Message::user("and?")]);
    assert_eq!(thinking(&next, high, quirks)[0]["type"], "enabled");
}
