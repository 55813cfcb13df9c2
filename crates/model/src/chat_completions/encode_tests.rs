use serde_json::json;

use super::*;
use crate::effort::ReasoningOptions;
use crate::message::Image;
use crate::message::{Message, Opaque, Part, ProviderApi, Reasoning, ToolCall, ToolResult};

fn endpoint() -> Endpoint {
    Endpoint {
        name: "there".to_owned(),
        api: ProviderApi::ChatCompletions,
        base_url: "http://h/v1".to_owned(),
        key: None,
        model: "m".to_owned(),
        context_length: None,
        prices: None,
        reasoning: crate::effort::ReasoningOptions::AUTO,
    }
}

fn encode(request: &ModelRequest<'_>, quirks: Quirks) -> Value {
    serde_json::from_slice(&body(&endpoint(), request, quirks).unwrap()).unwrap()
}

fn call(arguments: &str, reasoning: Vec<Reasoning>) -> Message {
    let id = "c1".to_owned();
    let calls = vec![ToolCall { id, name: "t".to_owned(), arguments: arguments.to_owned() }];
    Message::Assistant(AssistantMessage { reasoning, calls, ..Default::default() })
}

fn result(content: &str) -> Message {
    let content = content.to_owned();
    Message::Tool(ToolResult {
        call: "c1".to_owned(),
        name: "t".to_owned(),
        content,
        ..ToolResult::default()
    })
}

fn thought(text: &str, provider: &str, api: ProviderApi, value: Value) -> Reasoning {
    Reasoning {
        text: text.to_owned(),
        opaque: Some(Opaque { api, provider: provider.to_owned(), value }),
    }
}

#[test]
fn a_whole_request_has_the_apis_shape() {
    let image = Part::Image(Image {
        media_type: "image/png".to_owned(),
        data: "QUJD".to_owned(),
        optional: false,
    });
    let parts =
        vec![Part::Text { text: "see".to_owned() }, Part::Text { text: String::new() }, image];
    let messages = [
        Message::user("hi"),
        call("{\"a\": 1}", vec![]),
        result("done"),
        Message::User(UserMessage { parts }),
    ];
    let parameters = json!({"type": "object"});
    let description = "does".to_owned();
    let tools = [ToolSpec { name: "t".to_owned(), description, parameters: parameters.clone() }];
    let request = ModelRequest {
        system: "be",
        messages: &messages,
        tools: &tools,
        max_output_tokens: Some(9),
        ..ModelRequest::default()
    };
    let wanted = json!({
        "model": "m",
        "messages": [
            {"role": "system", "content": "be"},
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": null, "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "t", "arguments": "{\"a\": 1}"}},
            ]},
            {"role": "tool", "tool_call_id": "c1", "content": "done"},
            {"role": "user", "content": [
                {"type": "text", "text": "see"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}},
            ]},
        ],
        "tools": [{"type": "function", "function":
            {"name": "t", "description": "does", "parameters": parameters}}],
        "stream": true,
        "stream_options": {"include_usage": true},
        "max_tokens": 9,
    });
    assert_eq!(encode(&request, Quirks::default()), wanted);
}

#[test]
fn what_a_provider_does_not_take_is_left_out_or_renamed() {
    let messages = [Message::user("hi")];
    let request =
        ModelRequest { messages: &messages, max_output_tokens: Some(9), ..ModelRequest::default() };
    let quirks = Quirks {
        output_limit: OutputLimit::MaxCompletionTokens,
        without_stream_options: true,
        most_output: Some(5),
        ..Quirks::default()
    };
    let wanted = json!({
        "model": "m",
        "messages": [{"role": "user", "content": "hi"}],
        "stream": true,
        "max_completion_tokens": 5,
    });
    assert_eq!(encode(&request, quirks), wanted);
}

#[test]
fn nothing_empty_is_sent() {
    let messages = [
        Message::user(""),
        Message::User(UserMessage::default()),
        Message::Assistant(AssistantMessage::default()),
        Message::user("hi"),
    ];
    let request = ModelRequest { system: " \n", messages: &messages, ..ModelRequest::default() };
    let sent = encode(&request, Quirks::default());
    assert_eq!(sent["messages"], json!([{"role": "user", "content": "hi"}]));
}

#[test]
fn reasoning_goes_back_to_who_made_it_and_to_nobody_else() {
    let plain = |provider: &str| {
        thought("hm", provider, ProviderApi::ChatCompletions, json!({"field": "reasoning_content"}))
    };
    let details = json!({"reasoning_details": [{"type": "reasoning.encrypted", "data": "x"}]});
    let signed = thought("", "there", ProviderApi::ChatCompletions, details.clone());
    let foreign = thought("", "there", ProviderApi::AnthropicMessages, details.clone());
    let sent = |reasoning: Reasoning, goes_on: bool, quirks: Quirks| {
        let mut messages = vec![Message::user("q"), call("{}", vec![reasoning]), result("r")];
        if !goes_on {
            messages.push(Message::user("another"));
        }
        let request = ModelRequest { messages: &messages, ..ModelRequest::default() };
        let mut message = encode(&request, quirks)["messages"][1].take();
        let message = message.as_object_mut().unwrap();
        message.retain(|key, _| key.starts_with("reasoning"));
        Value::Object(std::mem::take(message))
    };
    let none = Quirks::default();
    assert_eq!(sent(plain("there"), true, none), json!({"reasoning_content": "hm"}));
    assert_eq!(sent(plain("there"), false, none), json!({}));
    assert_eq!(sent(plain("elsewhere"), true, none), json!({}));
    assert_eq!(sent(signed.clone(), true, none), details);
    assert_eq!(sent(signed.clone(), false, none), details);
    assert_eq!(sent(foreign, true, none), json!({}));
    assert_eq!(sent(signed, true, Quirks { without_reasoning: true, ..none }), json!({}));
}

/// Returns the messages as sent.
fn sent(messages: &[Message], quirks: Quirks) -> Value {
    encode(&ModelRequest { messages, ..ModelRequest::default() }, quirks)["messages"].take()
}

fn png() -> Image {
    Image { media_type: "image/png".to_owned(), data: "QUJD".to_owned(), optional: false }
}

#[test]
fn messages_of_one_side_are_one_message() {
    let picture = UserMessage { parts: vec![Part::Image(png())] };
    let nothing = Message::Assistant(AssistantMessage::default());
    let messages = [Message::user("one"), nothing, Message::user("two"), Message::user("three")];
    let words = json!([{"role": "user", "content": "one\n\ntwo\n\nthree"}]);
    assert_eq!(sent(&messages, Quirks::default()), words);
    let messages = [Message::user("look"), Message::User(picture), Message::user("there")];
    let expected = json!([{"role": "user", "content": [
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}},
        {"type": "text", "text": "there"},
    ]}]);
    assert_eq!(sent(&messages, Quirks::default()), expected);
}

#[test]
fn pictures_of_a_result_follow_it_in_the_next_message_of_the_user() {
    let Message::Tool(shown) = result("a chart") else { panic!("no result") };
    let shown = Message::Tool(ToolResult { images: vec![png()], ..shown });
    let messages = [Message::user("hi"), call("{}", vec![]), shown, Message::user("and?")];
    let all = sent(&messages, Quirks::default());
    assert_eq!(all[2], json!({"role": "tool", "tool_call_id": "c1", "content": "a chart"}));
    let expected = json!({"role": "user", "content": [
        {"type": "text", "text": "[Pictures in the result of t:]"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}},
        {"type": "text", "text": "and?"},
    ]});
    assert_eq!((&all[3], &all[4]), (&expected, &Value::Null));
    let blind = Quirks { without_optional_images: true, ..Quirks::default() };
    assert_eq!(sent(&messages, blind)[3], json!({"role": "user", "content": "and?"}));
}

#[test]
fn the_reasoning_effort_is_sent_where_one_is_set() {
    let sent = |reasoning: ReasoningOptions, quirks: Quirks| {
        let messages = [Message::user("hi")];
        let reasoning = Some(reasoning);
        let request = ModelRequest { messages: &messages, reasoning, ..ModelRequest::default() };
        encode(&request, quirks)["reasoning_effort"].take()
    };
    let high = ReasoningOptions::effort(ReasoningEffort::High);
    assert_eq!(sent(ReasoningOptions::AUTO, Quirks::default()), Value::Null);
    assert_eq!(sent(high, Quirks::default()), "high");
    let left_out = Quirks { thinking: ThinkingRule::LeftOut, ..Quirks::default() };
    assert_eq!(sent(high, left_out), Value::Null);
}
