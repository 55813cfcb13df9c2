//! The shape of `OpenAI`'s chat completions.

use serde_json::{Map, Value, json};

use crate::frames::{AnswerFrame, EventList, Exchange};
use crate::reply::{BilledUsage, Quirk, ReplyMessage, ScriptedFinish, ScriptedToolCall};
use crate::script::Model;

/// Returns the events of a streamed answer.
pub(crate) fn stream(message: &ReplyMessage, exchange: &Exchange<'_>) -> Vec<AnswerFrame> {
    let mut events = EventList::new(message);
    let sends_usage = exchange.request.body["stream_options"]["include_usage"] == true
        && !events.has(Quirk::NoUsage);
    let chunk = |choices: Value, usage: Value| {
        let mut chunk = json!({
            "id": id(exchange),
            "object": "chat.completion.chunk",
            "created": exchange.now,
            "model": exchange.request.model(),
            "system_fingerprint": "fp_scripted",
            "choices": choices,
        });
        if sends_usage {
            chunk["usage"] = usage;
        }
        chunk
    };
    let part = |delta: Value, finish: Value| {
        let choice = json!({
            "index": 0, "delta": delta, "logprobs": null, "finish_reason": finish,
        });
        chunk(json!([choice]), Value::Null)
    };
    events.structure(
        None,
        &part(json!({"role": "assistant", "content": "", "refusal": null}), Value::Null),
    );
    if let Some(reasoning) = &message.reasoning {
        for piece in exchange.chunks(reasoning) {
            events.delta(None, &part(json!({reasoning_field(message): piece}), Value::Null));
        }
    }
    if let Some(text) = &message.text {
        for piece in exchange.chunks(text) {
            events.delta(None, &part(json!({"content": piece}), Value::Null));
        }
    }
    for (index, call) in message.tool_calls.iter().enumerate() {
        for (delta, counts) in call_deltas(message, exchange, index, call) {
            let data = part(json!({"tool_calls": [delta]}), Value::Null);
            if counts { events.delta(None, &data) } else { events.structure(None, &data) }
        }
    }
    if !events.has(Quirk::NoFinish) {
        events.structure(None, &part(json!({}), json!(finish_word(message))));
    }
    if sends_usage {
        events.structure(None, &chunk(json!([]), usage_json(exchange.usage(message))));
    }
    if !events.has(Quirk::NoDone) {
        events.mark("[DONE]");
    }
    events.into_frames()
}

/// Returns the deltas of one tool call and whether each counts: its opening,
/// with id and name, and its arguments piece by piece.
fn call_deltas(
    message: &ReplyMessage,
    exchange: &Exchange<'_>,
    index: usize,
    call: &ScriptedToolCall,
) -> Vec<(Value, bool)> {
    let has = |quirk| message.quirks.contains(&quirk);
    let delta = |opening: bool, function: Value| {
        let mut delta = Map::new();
        if !has(Quirk::NoIndex) {
            delta.insert("index".to_owned(), json!(index));
        }
        if opening || has(Quirk::RepeatedNames) {
            if !has(Quirk::NoId) {
                delta.insert("id".to_owned(), json!(call_id(exchange, index, call)));
            }
            delta.insert("type".to_owned(), json!("function"));
        }
        delta.insert("function".to_owned(), function);
        Value::Object(delta)
    };
    let arguments = call.arguments_text();
    if has(Quirk::ObjectArguments) {
        let function = json!({"name": call.name, "arguments": call.arguments});
        return vec![(delta(true, function), true)];
    }
    let middle = call.name.char_indices().nth(call.name.chars().count() / 2);
    let (first, rest) = call.name.split_at(middle.map_or(0, |(at, _)| at));
    let mut deltas = if has(Quirk::SplitNames) {
        vec![
            (delta(true, json!({"name": first, "arguments": ""})), false),
            (delta(false, json!({"name": rest, "arguments": ""})), false),
        ]
    } else if has(Quirk::CumulativeNames) {
        vec![
            (delta(true, json!({"name": first, "arguments": ""})), false),
            (delta(false, json!({"name": call.name, "arguments": ""})), false),
        ]
    } else {
        vec![(delta(true, json!({"name": call.name, "arguments": ""})), false)]
    };
    for piece in exchange.chunks(&arguments) {
        let function = if has(Quirk::RepeatedNames) {
            json!({"name": call.name, "arguments": piece})
        } else {
            json!({"arguments": piece})
        };
        deltas.push((delta(false, function), true));
    }
    deltas
}

/// Returns an answer that is not streamed.
pub(crate) fn whole(message: &ReplyMessage, exchange: &Exchange<'_>) -> Value {
    let has = |quirk| message.quirks.contains(&quirk);
    let mut encoded = json!({"role": "assistant", "content": message.text, "refusal": null});
    if let Some(reasoning) = &message.reasoning {
        encoded[reasoning_field(message)] = json!(reasoning);
    }
    if !message.tool_calls.is_empty() {
        let calls = message.tool_calls.iter().enumerate().map(|(index, call)| {
            let arguments = if has(Quirk::ObjectArguments) {
                call.arguments.clone()
            } else {
                json!(call.arguments_text())
            };
            let mut entry = json!({
                "type": "function",
                "function": {"name": call.name, "arguments": arguments},
            });
            if !has(Quirk::NoId) {
                entry["id"] = json!(call_id(exchange, index, call));
            }
            entry
        });
        encoded["tool_calls"] = calls.collect();
    }
    let mut choice = json!({"index": 0, "message": encoded, "logprobs": null});
    if !has(Quirk::NoFinish) {
        choice["finish_reason"] = json!(finish_word(message));
    }
    let mut answer = json!({
        "id": id(exchange),
        "object": "chat.completion",
        "created": exchange.now,
        "model": exchange.request.model(),
        "system_fingerprint": "fp_scripted",
        "choices": [choice],
    });
    if !has(Quirk::NoUsage) {
        answer["usage"] = usage_json(exchange.usage(message));
    }
    answer
}

/// Returns the body of an error.
pub(crate) fn error(status: u16, message: &str) -> Value {
    let (kind, code) = match status {
        400 => ("invalid_request_error", Value::Null),
        401 => ("invalid_request_error", json!("invalid_api_key")),
        403 => ("insufficient_permissions", Value::Null),
        404 => ("invalid_request_error", json!("model_not_found")),
        429 => ("requests", json!("rate_limit_exceeded")),
        _ => ("server_error", Value::Null),
    };
    json!({"error": {"message": message, "type": kind, "param": null, "code": code}})
}

/// Returns the list of models.
pub(crate) fn models(models: &[Model]) -> Value {
    let entries: Vec<Value> = models
        .iter()
        .map(|model| {
            let mut entry = json!({
                "id": model.id, "object": "model", "created": 1_700_000_000, "owned_by": "script",
            });
            if let Some(length) = model.context_length {
                entry["context_length"] = json!(length);
            }
            entry
        })
        .collect();
    json!({"object": "list", "data": entries})
}

fn id(exchange: &Exchange<'_>) -> String {
    format!("chatcmpl-scripted-{}", exchange.number)
}

fn call_id(exchange: &Exchange<'_>, index: usize, call: &ScriptedToolCall) -> String {
    call.id.clone().unwrap_or_else(|| format!("call_{}_{index}", exchange.number))
}

fn reasoning_field(message: &ReplyMessage) -> &'static str {
    if message.quirks.contains(&Quirk::ReasoningField) { "reasoning" } else { "reasoning_content" }
}

fn finish_word(message: &ReplyMessage) -> &str {
    match &message.finish {
        None if message.tool_calls.is_empty() => "stop",
        None | Some(ScriptedFinish::ToolCalls) => "tool_calls",
        Some(ScriptedFinish::Stop) => "stop",
        Some(ScriptedFinish::Length) => "length",
        Some(ScriptedFinish::Refusal) => "content_filter",
        Some(ScriptedFinish::Other(word)) => word,
    }
}

fn usage_json(usage: BilledUsage) -> Value {
    let prompt = usage.input + usage.cache_read + usage.cache_write;
    json!({
        "prompt_tokens": prompt,
        "completion_tokens": usage.output,
        "total_tokens": prompt + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning, "audio_tokens": 0},
    })
}
