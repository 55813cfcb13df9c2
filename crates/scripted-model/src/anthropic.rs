//! The shape of Anthropic's messages.

use serde_json::{Value, json};

use crate::frames::{AnswerFrame, EventList, Exchange};
use crate::reply::{BilledUsage, Quirk, ReplyMessage, ScriptedFinish, ScriptedToolCall};
use crate::script::Model;

/// The signature of reasoning when the script gives none.
const SIGNATURE: &str = "c2NyaXB0ZWQgc2lnbmF0dXJl";

/// A block of content: how it opens, and the deltas that fill it.
struct ReplyBlock {
    opening: Value,
    deltas: Vec<Value>,
    /// What closes a block without being content that a script counts.
    closing: Option<Value>,
}

/// Returns the events of a streamed answer.
pub(crate) fn stream(message: &ReplyMessage, exchange: &Exchange<'_>) -> Vec<AnswerFrame> {
    let mut events = EventList::new(message);
    let usage = exchange.usage(message);
    let mut opening = json!({
        "id": id(exchange),
        "type": "message",
        "role": "assistant",
        "model": exchange.request.model(),
        "content": [],
        "stop_reason": null,
        "stop_sequence": null,
    });
    if !events.has(Quirk::NoUsage) {
        // The output is not known yet when a stream opens; the count that
        // comes with the end replaces this one.
        opening["usage"] = usage_json(BilledUsage { output: usage.output.min(1), ..usage });
    }
    named(&mut events, &json!({"type": "message_start", "message": opening}));
    for (index, block) in blocks(message, exchange).into_iter().enumerate() {
        named(
            &mut events,
            &json!({"type": "content_block_start", "index": index, "content_block": block.opening}),
        );
        if index == 0 {
            named(&mut events, &json!({"type": "ping"}));
        }
        let delta_of =
            |delta| json!({"type": "content_block_delta", "index": index, "delta": delta});
        for delta in block.deltas {
            events.delta(Some("content_block_delta"), &delta_of(delta));
        }
        if let Some(closing) = block.closing {
            named(&mut events, &delta_of(closing));
        }
        named(&mut events, &json!({"type": "content_block_stop", "index": index}));
    }
    let stop = if events.has(Quirk::NoFinish) { Value::Null } else { json!(stop_reason(message)) };
    let mut end = json!({
        "type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": null},
    });
    if !events.has(Quirk::NoUsage) {
        end["usage"] = json!({"output_tokens": usage.output});
    }
    named(&mut events, &end);
    if !events.has(Quirk::NoDone) {
        named(&mut events, &json!({"type": "message_stop"}));
    }
    events.into_frames()
}

/// Adds an event under the name its data carries as type.
fn named(events: &mut EventList<'_>, data: &Value) {
    events.structure(data["type"].as_str(), data);
}

fn blocks(message: &ReplyMessage, exchange: &Exchange<'_>) -> Vec<ReplyBlock> {
    let mut blocks = Vec::new();
    if let Some(reasoning) = &message.reasoning {
        let pieces = exchange.chunks(reasoning).into_iter();
        blocks.push(ReplyBlock {
            opening: json!({"type": "thinking", "thinking": "", "signature": ""}),
            deltas: pieces
                .map(|text| json!({"type": "thinking_delta", "thinking": text}))
                .collect(),
            closing: Some(json!({"type": "signature_delta", "signature": signature(message)})),
        });
    }
    if let Some(data) = &message.redacted_reasoning {
        blocks.push(ReplyBlock {
            opening: json!({"type": "redacted_thinking", "data": data}),
            deltas: Vec::new(),
            closing: None,
        });
    }
    if let Some(text) = &message.text {
        let pieces = exchange.chunks(text).into_iter();
        blocks.push(ReplyBlock {
            opening: json!({"type": "text", "text": ""}),
            deltas: pieces.map(|text| json!({"type": "text_delta", "text": text})).collect(),
            closing: None,
        });
    }
    for (index, call) in message.tool_calls.iter().enumerate() {
        let pieces = exchange.chunks(&call.arguments_text()).into_iter();
        blocks.push(ReplyBlock {
            opening: json!({
                "type": "tool_use",
                "id": call_id(exchange, index, call),
                "name": call.name,
                "input": {},
            }),
            deltas: pieces
                .map(|json| json!({"type": "input_json_delta", "partial_json": json}))
                .collect(),
            closing: None,
        });
    }
    blocks
}

/// Returns an answer that is not streamed.
pub(crate) fn whole(message: &ReplyMessage, exchange: &Exchange<'_>) -> Value {
    let mut content = Vec::new();
    if let Some(reasoning) = &message.reasoning {
        content.push(json!({
            "type": "thinking", "thinking": reasoning, "signature": signature(message),
        }));
    }
    if let Some(data) = &message.redacted_reasoning {
        content.push(json!({"type": "redacted_thinking", "data": data}));
    }
    if let Some(text) = &message.text {
        content.push(json!({"type": "text", "text": text}));
    }
    for (index, call) in message.tool_calls.iter().enumerate() {
        content.push(json!({
            "type": "tool_use",
            "id": call_id(exchange, index, call),
            "name": call.name,
            "input": call.arguments,
        }));
    }
    let stop = if message.quirks.contains(&Quirk::NoFinish) {
        Value::Null
    } else {
        json!(stop_reason(message))
    };
    let mut answer = json!({
        "id": id(exchange),
        "type": "message",
        "role": "assistant",
        "model": exchange.request.model(),
        "content": content,
        "stop_reason": stop,
        "stop_sequence": null,
    });
    if !message.quirks.contains(&Quirk::NoUsage) {
        answer["usage"] = usage_json(exchange.usage(message));
    }
    answer
}

/// Returns the body of an error.
pub(crate) fn error(status: u16, message: &str) -> Value {
    let kind = match status {
        400 => "invalid_request_error",
        401 => "authentication_error",
        402 => "billing_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        504 => "timeout_error",
        529 => "overloaded_error",
        _ => "api_error",
    };
    json!({
        "type": "error",
        "error": {"type": kind, "message": message},
        "request_id": "req_scripted",
    })
}

/// Returns the list of models.
pub(crate) fn models(models: &[Model]) -> Value {
    let entries: Vec<Value> = models
        .iter()
        .map(|model| {
            let mut entry = json!({
                "type": "model",
                "id": model.id,
                "display_name": model.id,
                "created_at": "2026-01-01T00:00:00Z",
            });
            if let Some(length) = model.context_length {
                entry["max_input_tokens"] = json!(length);
            }
            entry
        })
        .collect();
    json!({
        "data": entries,
        "has_more": false,
        "first_id": models.first().map(|model| &model.id),
        "last_id": models.last().map(|model| &model.id),
    })
}

fn id(exchange: &Exchange<'_>) -> String {
    format!("msg_scripted_{}", exchange.number)
}

fn call_id(exchange: &Exchange<'_>, index: usize, call: &ScriptedToolCall) -> String {
    call.id.clone().unwrap_or_else(|| format!("toolu_{}_{index}", exchange.number))
}

fn signature(message: &ReplyMessage) -> &str {
    message.signature.as_deref().unwrap_or(SIGNATURE)
}

fn stop_reason(message: &ReplyMessage) -> &str {
    match &message.finish {
        None if message.tool_calls.is_empty() => "end_turn",
        None | Some(ScriptedFinish::ToolCalls) => "tool_use",
        Some(ScriptedFinish::Stop) => "end_turn",
        Some(ScriptedFinish::Length) => "max_tokens",
        Some(ScriptedFinish::Refusal) => "refusal",
        Some(ScriptedFinish::Other(word)) => word,
    }
}

fn usage_json(usage: BilledUsage) -> Value {
    json!({
        "input_tokens": usage.input,
        "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cache_read,
        "output_tokens": usage.output,
    })
}
