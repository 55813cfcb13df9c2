use serde_json::json;

use super::*;
use crate::wire::AnswerDecoder as _;

fn run(events: &[Value]) -> (Result<DecodedAnswer, AnswerFault>, Vec<AnswerProgress>) {
    let mut seen = Vec::new();
    let mut watch = |progress| seen.push(progress);
    let mut decoder = Box::new(AnthropicDecoder::new("there"));
    let mut result = Ok(());
    for value in events {
        let event = StreamEvent { name: String::new(), data: value.to_string() };
        result = result.and_then(|()| decoder.event(&event, &mut watch));
    }
    let answer = result.and_then(|()| decoder.end(&mut watch));
    (answer, seen)
}

fn start(index: u64, block: &Value) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

fn delta(index: u64, delta: &Value) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": delta})
}

fn stop(reason: &str) -> Value {
    json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 9}})
}

fn kept(value: &Value) -> Opaque {
    let provider = "there".to_owned();
    Opaque { api: ProviderApi::AnthropicMessages, provider, value: value.clone() }
}

#[test]
fn blocks_are_reported_as_they_come_and_kept_as_the_provider_wants_them_back() {
    let usage = json!({"input_tokens": 5, "cache_read_input_tokens": 3,
        "cache_creation_input_tokens": 2, "output_tokens": 1});
    let redacted = json!({"type": "redacted_thinking", "data": "xyz"});
    let use_block = json!({"type": "tool_use", "id": "c1", "name": "t", "input": {}});
    let other_use = json!({"type": "tool_use", "id": "c2", "name": "u", "input": {}});
    let (answer, seen) = run(&[
        json!({"type": "message_start", "message": {"model": "m-1", "usage": usage}}),
        json!({"type": "ping"}),
        start(0, &json!({"type": "thinking", "thinking": "", "signature": ""})),
        delta(0, &json!({"type": "thinking_delta", "thinking": "hm"})),
        delta(0, &json!({"type": "signature_delta", "signature": "sig"})),
        json!({"type": "content_block_stop", "index": 0}),
        start(1, &redacted),
        start(2, &json!({"type": "text", "text": ""})),
        delta(2, &json!({"type": "text_delta", "text": "Hello"})),
        start(3, &use_block),
        delta(3, &json!({"type": "input_json_delta", "partial_json": "{\"a\": "})),
        delta(3, &json!({"type": "input_json_delta", "partial_json": "1}"})),
        start(4, &other_use),
        stop("tool_use"),
        json!({"type": "message_stop"}),
    ]);
    let thinking = json!({"type": "thinking", "thinking": "hm", "signature": "sig"});
    let call = |id: &str, name: &str, arguments: &str| ToolCall {
        id: id.to_owned(),
        name: name.to_owned(),
        arguments: arguments.to_owned(),
    };
    let wanted = DecodedAnswer {
        message: AssistantMessage {
            text: "Hello".to_owned(),
            reasoning: vec![
                Reasoning { text: "hm".to_owned(), opaque: Some(kept(&thinking)) },
                Reasoning { text: String::new(), opaque: Some(kept(&redacted)) },
            ],
            calls: vec![call("c1", "t", "{\"a\": 1}"), call("c2", "u", "{}")],
            finish: FinishReason::ToolCalls,
        },
        usage: Some(TokenUsage {
            input: 5,
            output: 9,
            cache_read: 3,
            cache_write: 2,
            reasoning: 0,
        }),
        cost_usd: None,
        model: Some("m-1".to_owned()),
    };
    assert_eq!(answer, Ok(wanted));
    let name = |name: &str| AnswerProgress::Call { name: name.to_owned() };
    let (hm, hello) = ("hm".to_owned(), "Hello".to_owned());
    assert_eq!(
        seen,
        [AnswerProgress::Reasoning(hm), AnswerProgress::Text(hello), name("t"), name("u")]
    );
}

#[test]
fn the_reason_to_stop_is_mapped_and_mended() {
    let finish = |reason: &str| run(&[stop(reason)]).0.unwrap().message.finish;
    assert_eq!(finish("end_turn"), FinishReason::Stop);
    assert_eq!(finish("stop_sequence"), FinishReason::Stop);
    assert_eq!(finish("max_tokens"), FinishReason::Length);
    assert_eq!(finish("pause_turn"), FinishReason::Length);
    assert_eq!(finish("refusal"), FinishReason::Refused);
    assert_eq!(finish("tool_use"), FinishReason::Stop);
}

#[test]
fn an_answer_that_broke_off_is_none_and_an_error_is_an_error() {
    let dialogue = start(0, &json!({"type": "text", "text": "Hello"}));
    assert!(matches!(run(std::slice::from_ref(&dialogue)).0, Err(AnswerFault::Cut(_))));
    assert!(matches!(
        run(&[dialogue.clone(), json!({"type": "message_stop"})]).0,
        Err(AnswerFault::Cut(_))
    ));
    let error = json!({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}});
    let Err(AnswerFault::Refused(refusal)) = run(&[dialogue, error]).0 else {
        panic!("no refusal")
    };
    assert_eq!(
        (refusal.names, refusal.message),
        (vec!["overloaded_error".to_owned()], "busy".to_owned())
    );
    let lost = json!({"type": "content_block_start", "content_block": {"type": "text"}});
    assert!(matches!(run(&[lost]).0, Err(AnswerFault::Garbage(_))));
}

#[test]
fn a_thought_without_a_signature_is_shown_and_not_sent_back() {
    let thinking = start(0, &json!({"type": "thinking", "thinking": "hm"}));
    let message = run(&[thinking, stop("end_turn")]).0.unwrap().message;
    assert_eq!(message.reasoning, [Reasoning { text: "hm".to_owned(), opaque: None }]);
}

#[test]
fn an_answer_in_one_piece_is_taken() {
    let whole = json!({
        "model": "m-1",
        "content": [
            {"type": "text", "text": "Hello"},
            {"type": "tool_use", "id": "c1", "name": "t", "input": {"a": 1}},
        ],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 5, "output_tokens": 9},
    });
    let mut decoder = Box::new(AnthropicDecoder::new("there"));
    decoder.whole(&whole, &mut |_| ()).unwrap();
    let answer = decoder.end(&mut |_| ()).unwrap();
    assert_eq!(answer.message.text, "Hello");
    assert_eq!(answer.message.calls[0].arguments, "{\"a\":1}");
    assert_eq!(answer.message.finish, FinishReason::ToolCalls);
    assert_eq!(answer.usage, Some(TokenUsage { input: 5, output: 9, ..TokenUsage::default() }));
}
