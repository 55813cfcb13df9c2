use serde_json::json;

use super::*;
use crate::effort::ReasoningOptions;
use crate::message::{Message, Opaque, Reasoning, ToolCall, ToolResult};
use crate::quirks::ThinkingRule;

fn endpoint() -> Endpoint {
    Endpoint {
        name: "there".to_owned(),
        api: ProviderApi::Responses,
        base_url: "http://h/v1".to_owned(),
        key: None,
        model: "m".to_owned(),
        context_length: None,
        prices: None,
        reasoning: ReasoningOptions::AUTO,
    }
}

fn encode(request: &ModelRequest<'_>, quirks: Quirks) -> Value {
    serde_json::from_slice(&body(&endpoint(), request, quirks).unwrap()).unwrap()
}

fn image() -> Image {
    Image { media_type: "image/png".to_owned(), data: "QUJD".to_owned(), optional: false }
}

fn call(reasoning: Vec<Reasoning>) -> Message {
    let calls = vec![ToolCall {
        id: "c1".to_owned(),
        name: "t".to_owned(),
        arguments: "{\"a\": 1}".to_owned(),
    }];
    Message::Assistant(AssistantMessage {
        text: "so".to_owned(),
        reasoning,
        calls,
        ..Default::default()
    })
}

fn result(images: Vec<Image>) -> Message {
    Message::Tool(ToolResult {
        call: "c1".to_owned(),
        name: "t".to_owned(),
        content: "done".to_owned(),
        images,
        ..ToolResult::default()
    })
}

fn thought(provider: &str, value: Value) -> Reasoning {
    let opaque = Opaque { api: ProviderApi::Responses, provider: provider.to_owned(), value };
    Reasoning { text: "hm".to_owned(), opaque: Some(opaque) }
}

#[test]
fn a_whole_request_has_the_apis_shape() {
    let kept = json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"});
    let parts = vec![Part::Text { text: "see".to_owned() }, Part::Image(image())];
    let messages = [
        Message::user("hi"),
        call(vec![thought("there", kept.clone())]),
        result(vec![image()]),
        Message::User(UserMessage { parts }),
    ];
    let parameters = json!({"type": "object"});
    let (name, description) = ("t".to_owned(), "does".to_owned());
    let tools = [ToolSpec { name, description, parameters: parameters.clone() }];
    let request = ModelRequest {
        system: "be",
        messages: &messages,
        tools: &tools,
        max_output_tokens: Some(9),
        reasoning: Some(ReasoningOptions::effort(ReasoningEffort::High)),
    };
    let picture = json!({
        "type": "input_image", "image_url": "data:image/png;base64,QUJD", "detail": "auto",
    });
    let text = |text: &str| json!({"type": "input_text", "text": text});
    let wanted = json!({
        "model": "m",
        "instructions": "be",
        "input": [
            {"role": "user", "content": "hi"},
            kept,
            {"role": "assistant", "content": "so"},
            {"type": "function_call", "call_id": "c1", "name": "t", "arguments": "{\"a\": 1}"},
            {"type": "function_call_output", "call_id": "c1", "output": [text("done"), picture]},
            {"role": "user", "content": [text("see"), picture]},
        ],
        "tools": [{
            "type": "function", "name": "t", "description": "does", "parameters": parameters,
            "strict": false,
        }],
        "stream": true,
        "store": false,
        "include": ["reasoning.encrypted_content"],
        "max_output_tokens": 16,
        "reasoning": {"effort": "high", "summary": "auto"},
    });
    assert_eq!(encode(&request, Quirks::default()), wanted);
}

#[test]
fn what_a_provider_does_not_take_is_left_out() {
    let messages = [Message::user("hi"), call(vec![]), result(vec![image()])];
    let high = Some(ReasoningOptions::effort(ReasoningEffort::High));
    let request = ModelRequest { messages: &messages, reasoning: high, ..ModelRequest::default() };
    let quirks = Quirks {
        without_optional_images: true,
        without_encrypted_reasoning: true,
        without_reasoning_summary: true,
        ..Quirks::default()
    };
    let sent = encode(&request, quirks);
    assert_eq!(sent["input"][3]["output"], "done");
    assert_eq!(sent["include"], Value::Null);
    assert_eq!(sent["reasoning"], json!({"effort": "high"}));
    let thoughtless = Quirks { thinking: ThinkingRule::LeftOut, ..Quirks::default() };
    assert_eq!(encode(&request, thoughtless)["reasoning"], Value::Null);
    let none = Some(ReasoningOptions::effort(ReasoningEffort::None));
    let request = ModelRequest { reasoning: none, ..request };
    assert_eq!(encode(&request, Quirks::default())["reasoning"], json!({"effort": "none"}));
}

#[test]
fn thoughts_go_back_to_who_made_them_and_only_as_they_can_be_read() {
    let readable =
        json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"});
    let sealed = json!({"type": "reasoning", "id": "rs_1", "summary": []});
    let count = |reasoning: Reasoning, quirks: Quirks| {
        let messages = [Message::user("hi"), call(vec![reasoning]), result(vec![])];
        let request = ModelRequest { messages: &messages, ..ModelRequest::default() };
        let sent = encode(&request, quirks);
        sent["input"].as_array().unwrap().iter().filter(|item| item["type"] == "reasoning").count()
    };
    assert_eq!(count(thought("there", readable.clone()), Quirks::default()), 1);
    assert_eq!(count(thought("elsewhere", readable.clone()), Quirks::default()), 0);
    assert_eq!(count(thought("there", sealed), Quirks::default()), 0);
    let without = Quirks { without_reasoning: true, ..Quirks::default() };
    assert_eq!(count(thought("there", readable), without), 0);
}
