//! The shape of `OpenAI`'s responses.

use serde_json::{Value, json};

use crate::frames::{AnswerFrame, EventList, Exchange};
use crate::reply::{BilledUsage, Quirk, ReplyMessage, ScriptedFinish, ScriptedToolCall};

/// What stands for encrypted reasoning when the script gives none.
const ENCRYPTED: &str = "c2NyaXB0ZWQgcmVhc29uaW5n";

/// An item of the output: how it opens, what fills it, and how it is when it is whole.
struct ReplyItem {
    opening: Value,
    /// Events between opening and end; those that a script counts are marked.
    events: Vec<(Value, bool)>,
    whole: Value,
}

/// Returns the events of a streamed answer.
pub(crate) fn stream(message: &ReplyMessage, exchange: &Exchange<'_>) -> Vec<AnswerFrame> {
    let mut events = EventList::new(message);
    let mut number = 0_u64;
    let mut add = |events: &mut EventList<'_>, mut data: Value, counts: bool| {
        data["sequence_number"] = json!(number);
        number += 1;
        let name = data["type"].as_str().unwrap_or_default().to_owned();
        if counts { events.delta(Some(&name), &data) } else { events.structure(Some(&name), &data) }
    };
    let begun = response(message, exchange, "in_progress");
    add(&mut events, json!({"type": "response.created", "response": begun}), false);
    add(&mut events, json!({"type": "response.in_progress", "response": begun}), false);
    for (index, item) in items(message, exchange).into_iter().enumerate() {
        let opened = json!({
            "type": "response.output_item.added", "output_index": index, "item": item.opening,
        });
        add(&mut events, opened, false);
        for (mut data, counts) in item.events {
            data["output_index"] = json!(index);
            add(&mut events, data, counts);
        }
        let done = json!({
            "type": "response.output_item.done", "output_index": index, "item": item.whole,
        });
        add(&mut events, done, false);
    }
    if !events.has(Quirk::NoFinish) {
        let status = status(message);
        let ended = response(message, exchange, status);
        add(&mut events, json!({"type": format!("response.{status}"), "response": ended}), false);
    }
    events.into_frames()
}

/// Returns an answer that is not streamed.
pub(crate) fn whole(message: &ReplyMessage, exchange: &Exchange<'_>) -> Value {
    response(message, exchange, status(message))
}

/// Returns the response as it is in one state.
fn response(message: &ReplyMessage, exchange: &Exchange<'_>, status: &str) -> Value {
    let body = &exchange.request.body;
    let is_ended = status != "in_progress";
    let output: Vec<Value> = if is_ended {
        items(message, exchange).into_iter().map(|item| item.whole).collect()
    } else {
        Vec::new()
    };
    let reason = match &message.finish {
        Some(ScriptedFinish::Refusal) => "content_filter",
        _ => "max_output_tokens",
    };
    let incomplete = (status == "incomplete").then(|| json!({"reason": reason}));
    let with_usage = is_ended && !message.quirks.contains(&Quirk::NoUsage);
    json!({
        "id": format!("resp_scripted_{}", exchange.number),
        "object": "response",
        "created_at": exchange.now,
        "status": status,
        "error": null,
        "incomplete_details": incomplete,
        "instructions": body["instructions"],
        "max_output_tokens": body["max_output_tokens"],
        "model": exchange.request.model(),
        "output": output,
        "parallel_tool_calls": true,
        "previous_response_id": null,
        "reasoning": {"effort": body["reasoning"]["effort"], "summary": null},
        "store": body["store"].as_bool().unwrap_or(true),
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": body["tools"].as_array().cloned().unwrap_or_default(),
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": with_usage.then(|| usage_json(exchange.usage(message))),
        "metadata": {},
    })
}

fn items(message: &ReplyMessage, exchange: &Exchange<'_>) -> Vec<ReplyItem> {
    let mut items = Vec::new();
    if let Some(text) = &message.reasoning {
        items.push(reasoning(text, message.signature.as_deref(), exchange));
    }
    if let Some(data) = &message.redacted_reasoning {
        items.push(reasoning("", Some(data), exchange));
    }
    if let Some(text) = &message.text {
        items.push(words(text, exchange));
    }
    for (index, call) in message.tool_calls.iter().enumerate() {
        items.push(tool_call(call, index, exchange));
    }
    items
}

/// Returns reasoning. Only who asked for it in the form that can be sent back gets that.
fn reasoning(text: &str, encrypted: Option<&str>, exchange: &Exchange<'_>) -> ReplyItem {
    let id = format!("rs_{}_{}", exchange.number, usize::from(text.is_empty()));
    let wanted = exchange.request.body["include"]
        .as_array()
        .is_some_and(|include| include.iter().any(|it| it == "reasoning.encrypted_content"));
    let item = |summary: Value| {
        let mut item = json!({"type": "reasoning", "id": id, "summary": summary});
        if wanted {
            item["encrypted_content"] = json!(encrypted.unwrap_or(ENCRYPTED));
        }
        item
    };
    if text.is_empty() {
        return ReplyItem { opening: item(json!([])), events: Vec::new(), whole: item(json!([])) };
    }
    let part = |text: &str| json!({"type": "summary_text", "text": text});
    let of = |kind: &str, field: &str, value: Value| json!({"type": kind, "item_id": id, "summary_index": 0, field: value});
    let mut events = vec![(of("response.reasoning_summary_part.added", "part", part("")), false)];
    for piece in exchange.chunks(text) {
        events.push((of("response.reasoning_summary_text.delta", "delta", json!(piece)), true));
    }
    events.push((of("response.reasoning_summary_text.done", "text", json!(text)), false));
    events.push((of("response.reasoning_summary_part.done", "part", part(text)), false));
    ReplyItem { opening: item(json!([])), events, whole: item(json!([part(text)])) }
}

fn words(text: &str, exchange: &Exchange<'_>) -> ReplyItem {
    let id = format!("msg_{}", exchange.number);
    let part = |text: &str| json!({"type": "output_text", "text": text, "annotations": []});
    let item = |status: &str, content: Value| json!({"type": "message", "id": id, "status": status, "role": "assistant", "content": content});
    let of = |kind: &str, field: &str, value: Value| json!({"type": kind, "item_id": id, "content_index": 0, field: value});
    let mut events = vec![(of("response.content_part.added", "part", part("")), false)];
    for piece in exchange.chunks(text) {
        let mut delta = of("response.output_text.delta", "delta", json!(piece));
        delta["logprobs"] = json!([]);
        events.push((delta, true));
    }
    let mut done = of("response.output_text.done", "text", json!(text));
    done["logprobs"] = json!([]);
    events.push((done, false));
    events.push((of("response.content_part.done", "part", part(text)), false));
    ReplyItem {
        opening: item("in_progress", json!([])),
        events,
        whole: item("completed", json!([part(text)])),
    }
}

fn tool_call(call: &ScriptedToolCall, index: usize, exchange: &Exchange<'_>) -> ReplyItem {
    let id = format!("fc_{}_{index}", exchange.number);
    let call_id = call.id.clone().unwrap_or_else(|| format!("call_{}_{index}", exchange.number));
    let arguments = call.arguments_text();
    let item = |status: &str, arguments: &str| {
        json!({
            "type": "function_call", "id": id, "call_id": call_id, "name": call.name,
            "arguments": arguments, "status": status,
        })
    };
    let mut events = Vec::new();
    for piece in exchange.chunks(&arguments) {
        let delta = json!({
            "type": "response.function_call_arguments.delta", "item_id": id, "delta": piece,
        });
        events.push((delta, true));
    }
    let done = json!({
        "type": "response.function_call_arguments.done", "item_id": id, "name": call.name,
        "arguments": arguments,
    });
    events.push((done, false));
    ReplyItem { opening: item("in_progress", ""), events, whole: item("completed", &arguments) }
}

fn status(message: &ReplyMessage) -> &'static str {
    match &message.finish {
        Some(ScriptedFinish::Length | ScriptedFinish::Refusal) => "incomplete",
        None
        | Some(ScriptedFinish::Stop | ScriptedFinish::ToolCalls | ScriptedFinish::Other(_)) => {
            "completed"
        }
    }
}

/// Returns an error as it is sent in the middle of an answer.
pub(crate) fn error_event(message: &str) -> Value {
    json!({
        "type": "error", "code": "server_error", "message": message, "param": null,
        "sequence_number": 0,
    })
}

fn usage_json(usage: BilledUsage) -> Value {
    let input = usage.input + usage.cache_read + usage.cache_write;
    json!({
        "input_tokens": input,
        "input_tokens_details": {
            "cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write,
        },
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": input + usage.output,
    })
}
