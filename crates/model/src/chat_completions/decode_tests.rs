use serde_json::json;

use super::*;
use crate::message::{Opaque, ProviderApi, Reasoning, ToolCall};
use crate::wire::AnswerDecoder as _;

fn run(events: &[&str]) -> (Result<DecodedAnswer, AnswerFault>, Vec<AnswerProgress>) {
    let mut seen = Vec::new();
    let mut watch = |progress| seen.push(progress);
    let mut decoder = Box::new(ChatCompletionsDecoder::new("there"));
    let mut result = Ok(());
    for data in events {
        let event = StreamEvent { name: String::new(), data: (*data).to_owned() };
        result = result.and_then(|()| decoder.event(&event, &mut watch));
    }
    let answer = result.and_then(|()| decoder.end(&mut watch));
    (answer, seen)
}

fn chunk(delta: &Value, finish: Option<&str>) -> String {
    json!({"model": "m-1", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
        .to_string()
}

fn message(events: &[&str]) -> AssistantMessage {
    run(events).0.unwrap().message
}

#[test]
fn words_thoughts_and_figures_are_reported_in_order_and_kept() {
    let usage = json!({"choices": [], "usage": {
        "prompt_tokens": 100, "completion_tokens": 7, "cost": 0.0125,
        "prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 10},
        "completion_tokens_details": {"reasoning_tokens": 3},
    }});
    let (answer, seen) = run(&[
        &chunk(&json!({"role": "assistant", "content": ""}), None),
        &chunk(&json!({"reasoning_content": "hm"}), None),
        &chunk(&json!({"content": "Hel"}), None),
        &chunk(&json!({"content": "lo"}), None),
        &chunk(&json!({}), Some("stop")),
        &usage.to_string(),
        "[DONE]",
        "whatever follows",
    ]);
    let value = json!({"field": "reasoning_content"});
    let opaque = Opaque { api: ProviderApi::ChatCompletions, provider: "there".to_owned(), value };
    let wanted = DecodedAnswer {
        message: AssistantMessage {
            text: "Hello".to_owned(),
            reasoning: vec![Reasoning { text: "hm".to_owned(), opaque: Some(opaque) }],
            calls: vec![],
            finish: FinishReason::Stop,
        },
        usage: Some(TokenUsage {
            input: 30,
            output: 7,
            cache_read: 60,
            cache_write: 10,
            reasoning: 3,
        }),
        cost_usd: Some(0.0125),
        model: Some("m-1".to_owned()),
    };
    assert_eq!(answer, Ok(wanted));
    let reply = ["hm", "Hel", "lo"].map(str::to_owned);
    let [hm, hel, lo] = reply;
    assert_eq!(
        seen,
        [AnswerProgress::Reasoning(hm), AnswerProgress::Text(hel), AnswerProgress::Text(lo)]
    );
}

#[test]
fn details_of_reasoning_are_put_together_and_kept_whole() {
    let piece = |text: &str, signature: Option<&str>| {
        json!({"reasoning": text, "reasoning_details": [
            {"type": "reasoning.text", "index": 0, "text": text, "signature": signature},
        ]})
    };
    let encrypted = json!({"type": "reasoning.encrypted", "index": 1, "data": "xyz"});
    let message = message(&[
        &chunk(&piece("a", None), None),
        &chunk(&piece("b", Some("sig")), None),
        &chunk(&json!({"reasoning_details": [encrypted]}), None),
        &chunk(&json!({"content": "c"}), Some("stop")),
    ]);
    let text = json!({"type": "reasoning.text", "index": 0, "text": "ab", "signature": "sig"});
    let [reasoning] = message.reasoning.try_into().unwrap();
    assert_eq!(reasoning.text, "ab");
    assert_eq!(reasoning.opaque.unwrap().value, json!({"reasoning_details": [text, encrypted]}));
}

#[test]
fn the_reason_to_stop_is_mapped_and_mended() {
    let finish = |reason: &str| message(&[&chunk(&json!({"content": "x"}), Some(reason))]).finish;
    assert_eq!(finish("stop"), FinishReason::Stop);
    assert_eq!(finish("length"), FinishReason::Length);
    assert_eq!(finish("content_filter"), FinishReason::Refused);
    assert_eq!(finish("tool_calls"), FinishReason::Stop);
    assert_eq!(finish("eos"), FinishReason::Stop);
    let call = json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "t", "arguments": "{}"}}]});
    assert_eq!(message(&[&chunk(&call, Some("stop"))]).finish, FinishReason::ToolCalls);
    let refusal = message(&[&chunk(&json!({"refusal": "no"}), Some("stop"))]);
    assert_eq!((refusal.finish, refusal.text.as_str()), (FinishReason::Refused, "no"));
    let old = json!({"function_call": {"name": "t", "arguments": "{}"}});
    let old = message(&[&chunk(&old, Some("function_call"))]);
    assert_eq!(old.finish, FinishReason::ToolCalls);
    assert!(matches!(old.calls.as_slice(), [ToolCall { name, .. }] if name == "t"));
}

#[test]
fn an_answer_that_broke_off_is_none() {
    let reply = chunk(&json!({"content": "Hello"}), None);
    assert!(matches!(run(&[&reply]).0, Err(AnswerFault::Cut(_))));
    assert!(matches!(run(&[]).0, Err(AnswerFault::Cut(_))));
    assert!(matches!(run(&["[DONE]"]).0, Err(AnswerFault::Cut(_))));
    assert!(matches!(run(&[&chunk(&json!({}), Some("error"))]).0, Err(AnswerFault::Cut(_))));
    assert_eq!(message(&[&reply, "[DONE]"]).text, "Hello");
}

#[test]
fn an_error_in_the_stream_is_an_error_and_garbage_is_garbage() {
    let reply = chunk(&json!({"content": "Hello"}), None);
    let error = r#"{"error":{"code":502,"message":"upstream died"},"choices":[]}"#;
    let Err(AnswerFault::Refused(refusal)) = run(&[&reply, error]).0 else { panic!("no refusal") };
    assert_eq!((refusal.status, refusal.message.as_str()), (Some(502), "upstream died"));
    assert!(matches!(run(&[&reply, "{nonsense"]).0, Err(AnswerFault::Garbage(_))));
    assert!(matches!(run(&["[1]"]).0, Err(AnswerFault::Garbage(_))));
}

#[test]
fn an_answer_in_one_piece_is_taken() {
    let whole = json!({"choices": [{"message": {"content": "Hello"}, "finish_reason": "stop"}]});
    let mut decoder = Box::new(ChatCompletionsDecoder::new("there"));
    decoder.whole(&whole, &mut |_| ()).unwrap();
    assert_eq!(decoder.end(&mut |_| ()).unwrap().message.text, "Hello");
    let mut decoder = ChatCompletionsDecoder::new("there");
    assert!(matches!(decoder.whole(&json!({}), &mut |_| ()), Err(AnswerFault::Garbage(_))));
}

#[test]
fn words_in_a_list_of_pieces_are_taken() {
    let content = json!({"content": [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "text", "text": "Hello"},
    ]});
    let message = message(&[&chunk(&content, Some("stop"))]);
    assert_eq!((message.text.as_str(), message.reasoning[0].text.as_str()), ("Hello", "hm"));
}

#[test]
fn thoughts_between_tags_are_thoughts_and_no_part_of_the_answer() {
    let (answer, seen) = run(&[
        &chunk(&json!({"content": "<thi"}), None),
        &chunk(&json!({"content": "nk>hm</think>\n"}), None),
        &chunk(&json!({"content": "\nHello"}), Some("stop")),
        "[DONE]",
    ]);
    let message = answer.unwrap().message;
    assert_eq!((message.text.as_str(), message.reasoning[0].text.as_str()), ("Hello", "hm"));
    let reply =
        [AnswerProgress::Reasoning("hm".to_owned()), AnswerProgress::Text("Hello".to_owned())];
    assert_eq!(seen, reply);
}
