use std::time::Duration;

use serde_json::json;

use super::Script;
use crate::reply::{BilledUsage, Quirk, ScriptedFinish, ScriptedReply, ScriptedToolCall};

/// Returns the replies of a script with this list of them.
fn replies(list: &serde_json::Value) -> Vec<ScriptedReply> {
    let text = json!({"replies": list}).to_string();
    Script::from_json(&text).unwrap().replies.into()
}

#[test]
fn a_written_reply_is_the_built_one() {
    let written = replies(&json!([
        {"text": "hi", "reasoning": "hm", "signature": "s", "redacted_reasoning": "r",
         "tool_calls": [{"name": "terminal", "arguments": {"command": "ls"}, "id": "x"},
                        {"name": "broken", "arguments": "{\"comm"}],
         "finish": "length", "usage": {"input": 1, "output": 2}, "quirks": ["no_index", "crlf"],
         "chunking": 3, "pace_ms": 4, "hold": [5, 1], "headers": {"x-a": "b"}},
        {"text": "hi", "cut": 2},
        {"text": "hi", "stall": 2, "hold": 1},
        {"text": "hi", "error_in_stream": {"after": 1, "message": "overloaded"}},
        {"error": {"status": 429, "message": "slow down", "retry_after": 7}},
        {"error": {"status": 503, "body": {"detail": "no"}, "retry_after": "soon"}},
        {"error": {"status": 502, "body": "<html>"}},
        {"garbage": "{"},
        {"garbage": [255, 0]},
        {"stall": true},
        {},
    ]));
    let built = vec![
        ScriptedReply::text("hi")
            .with_reasoning("hm")
            .with_signature("s")
            .with_redacted_reasoning("r")
            .with_tool_call(ScriptedToolCall::new("terminal", json!({"command": "ls"})).id("x"))
            .with_tool_call(ScriptedToolCall::new("broken", "{\"comm"))
            .finish(ScriptedFinish::Length)
            .usage(BilledUsage { input: 1, output: 2, ..BilledUsage::default() })
            .quirk(Quirk::NoIndex)
            .quirk(Quirk::Crlf)
            .chunked(3)
            .paced(Duration::from_millis(4))
            .hold_after(1)
            .hold_after(5)
            .header("x-a", "b"),
        ScriptedReply::text("hi").cut_after(2),
        ScriptedReply::text("hi").stall_after(2).hold_after(1),
        ScriptedReply::text("hi").error_after(1, "overloaded"),
        ScriptedReply::error(429, "slow down").retry_after(7),
        ScriptedReply::error_body(503, json!({"detail": "no"})).header("retry-after", "soon"),
        ScriptedReply::error_body(502, "<html>"),
        ScriptedReply::garbage("{"),
        ScriptedReply::garbage([255, 0]),
        ScriptedReply::stall(),
        ScriptedReply::message(),
    ];
    assert_eq!(written, built);
}

#[test]
fn what_a_script_cannot_mean_is_refused() {
    for (reply, word) in [
        (json!({"text": "hi", "error": {"status": 500}}), "only one content"),
        (json!({"text": "hi", "cut": 1, "stall": 1}), "only one end"),
        (json!({"error": {"status": 500, "message": "a", "body": "b"}}), "message or a body"),
        (json!({"txet": "hi"}), "unknown field"),
        (json!({"text": "hi", "quirks": ["odd"]}), "unknown variant"),
    ] {
        let text = json!({"replies": [reply]}).to_string();
        let error = Script::from_json(&text).unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
    }
    let rule = json!({"rules": [{"when": {"tool_results": "some"}, "reply": {"text": "hi"}}]});
    let error = Script::from_json(&rule.to_string()).unwrap_err().to_string();
    assert!(error.contains("tool_results is a number"), "{error}");
}

#[test]
fn a_script_that_cannot_be_read_is_named() {
    let error = Script::from_file("/nowhere/script.json".as_ref()).unwrap_err().to_string();
    assert!(error.contains("/nowhere/script.json"), "{error}");
}
