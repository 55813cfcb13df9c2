use serde_json::json;

use super::*;
use crate::wire::AnswerDecoder as _;

fn run(events: &[Value]) -> (Result<DecodedAnswer, AnswerFault>, Vec<AnswerProgress>) {
    let mut seen = Vec::new();
    let mut watch = |progress| seen.push(progress);
    let mut decoder = Box::new(ResponsesDecoder::new("there"));
    let mut result = Ok(());
    for data in events {
        let event = StreamEvent { name: String::new(), data: data.to_string() };
        result = result.and_then(|()| decoder.event(&event, &mut watch));
    }
    let answer = result.and_then(|()| decoder.end(&mut watch));
    (answer, seen)
}

#[expect(clippy::needless_pass_by_value, reason = "it is made for the call")]
fn event(kind: &str, index: u64, field: &str, value: Value) -> Value {
    json!({"type": kind, "output_index": index, field: value})
}

#[expect(clippy::needless_pass_by_value, reason = "it is made for the call")]
fn completed(output: Value) -> Value {
    json!({"type": "response.completed", "response": {
        "status": "completed", "model": "m-1", "output": output, "error": null,
        "usage": {
            "input_tokens": 100, "input_tokens_details": {"cached_tokens": 60},
            "output_tokens": 7, "output_tokens_details": {"reasoning_tokens": 3},
        },
    }})
}

fn reasoning() -> Value {
    json!({"type": "reasoning", "id": "rs_1", "status": "completed", "encrypted_content": "sealed",
        "summary": [{"type": "summary_text", "text": "hm"}, {"type": "summary_text", "text": "so"}]})
}

fn message() -> Value {
    json!({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": "Hello", "annotations": []}]})
}

fn function_call() -> Value {
    json!({"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "ls", "arguments": "{}"})
}

fn wanted() -> DecodedAnswer {
    let opaque = Opaque {
        api: ProviderApi::Responses,
        provider: "there".to_owned(),
        value: json!({"type": "reasoning", "id": "rs_1", "encrypted_content": "sealed",
            "summary": [{"type": "summary_text", "text": "hm"}, {"type": "summary_text", "text": "so"}]}),
    };
    DecodedAnswer {
        message: AssistantMessage {
            text: "Hello".to_owned(),
            reasoning: vec![Reasoning { text: "hm\n\nso".to_owned(), opaque: Some(opaque) }],
            calls: vec![ToolCall {
                id: "c1".to_owned(),
                name: "ls".to_owned(),
                arguments: "{}".to_owned(),
            }],
            finish: FinishReason::ToolCalls,
        },
        usage: Some(TokenUsage {
            input: 40,
            output: 7,
            cache_read: 60,
            cache_write: 0,
            reasoning: 3,
        }),
        cost_usd: None,
        model: Some("m-1".to_owned()),
    }
}

#[test]
fn an_answer_in_pieces_is_reported_as_it_comes_and_kept_whole() {
    let (answer, seen) = run(&[
        json!({"type": "response.created", "response": {"model": "m-1", "status": "in_progress"}}),
        event("response.output_item.added", 0, "item", json!({"type": "reasoning", "summary": []})),
        event("response.reasoning_summary_part.added", 0, "part", json!({})),
        event("response.reasoning_summary_text.delta", 0, "delta", json!("hm")),
        event("response.reasoning_summary_part.added", 0, "part", json!({})),
        event("response.reasoning_summary_text.delta", 0, "delta", json!("so")),
        event("response.output_item.done", 0, "item", reasoning()),
        event("response.output_item.added", 1, "item", json!({"type": "message", "content": []})),
        event("response.output_text.delta", 1, "delta", json!("Hel")),
        event("response.output_text.delta", 1, "delta", json!("lo")),
        event("response.output_item.done", 1, "item", message()),
        event(
            "response.output_item.added",
            2,
            "item",
            json!({"type": "function_call", "name": "ls", "call_id": "c1", "arguments": ""}),
        ),
        event("response.function_call_arguments.delta", 2, "delta", json!("{")),
        event("response.function_call_arguments.delta", 2, "delta", json!("}")),
        event("response.output_item.done", 2, "item", function_call()),
        completed(json!([reasoning(), message(), function_call()])),
        json!({"type": "whatever follows"}),
    ]);
    assert_eq!(answer.unwrap(), wanted());
    let told = |text: &str| AnswerProgress::Reasoning(text.to_owned());
    let said = |text: &str| AnswerProgress::Text(text.to_owned());
    let call = AnswerProgress::Call { name: "ls".to_owned() };
    assert_eq!(seen, [told("hm"), told("\n\n"), told("so"), said("Hel"), said("lo"), call]);
}

#[test]
fn what_only_the_end_tells_is_taken_from_there() {
    let all = json!([reasoning(), message(), function_call()]);
    let (answer, seen) = run(&[
        event("response.output_text.delta", 1, "delta", json!("Hel")),
        completed(all.clone()),
    ]);
    assert_eq!(answer.unwrap(), wanted());
    assert!(seen.contains(&AnswerProgress::Text("lo".to_owned())), "{seen:?}");
    let mut decoder = Box::new(ResponsesDecoder::new("there"));
    let mut seen = Vec::new();
    let mut watch = |progress| seen.push(progress);
    decoder.whole(&completed(all)["response"], &mut watch).unwrap();
    assert_eq!(decoder.end(&mut watch).unwrap(), wanted());
}

#[test]
fn an_answer_says_why_it_ended() {
    let finish = |response: Value| {
        let end = json!({"type": "response.incomplete", "response": response});
        run(&[event("response.output_text.delta", 0, "delta", json!("a")), end]).0
    };
    let incomplete = |reason: &str| {
        finish(json!({"status": "incomplete", "incomplete_details": {"reason": reason}}))
            .unwrap()
            .message
            .finish
    };
    assert_eq!(incomplete("max_output_tokens"), FinishReason::Length);
    assert_eq!(incomplete("content_filter"), FinishReason::Refused);
    let cancelled = finish(json!({"status": "cancelled"}));
    assert!(matches!(cancelled, Err(AnswerFault::Cut(_))), "{cancelled:?}");
    let refusal = json!({"type": "message", "content": [{"type": "refusal", "refusal": "no"}]});
    let (answer, seen) = run(&[completed(json!([refusal]))]);
    assert_eq!(answer.unwrap().message.finish, FinishReason::Refused);
    assert_eq!(seen, [AnswerProgress::Text("no".to_owned())]);
    let (cut, _) = run(&[event("response.output_text.delta", 0, "delta", json!("a"))]);
    assert!(matches!(cut, Err(AnswerFault::Cut(_))), "{cut:?}");
}

#[test]
fn a_failure_is_the_providers_word() {
    let failed = json!({"type": "response.failed", "response": {
        "status": "failed", "error": {"code": "rate_limit_exceeded", "message": "slow down"},
    }});
    let error = json!({"type": "error", "code": "server_error", "message": "broke", "param": null});
    for (event, code, words) in
        [(failed, "rate_limit_exceeded", "slow down"), (error, "server_error", "broke")]
    {
        let Err(AnswerFault::Refused(refusal)) = run(&[event]).0 else { panic!("an answer") };
        assert!(refusal.names.contains(&code.to_owned()), "{refusal:?}");
        assert_eq!(refusal.message, words);
    }
}
