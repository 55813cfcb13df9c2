//! Rows of messages made messages of ours.

use serde_json::Value;
use vestal_conversations::{MessageKind, NewMessage};
use vestal_model::{
    AssistantMessage, FinishReason, Image, Message, Part, Reasoning, ToolCall, ToolResult,
    UserMessage,
};

use crate::database::{LONGEST, SourceRow};

/// What stands before content that is a list of parts.
const PARTS: &str = "\0json:";

/// Returns the message of a row; none for one that has no counterpart, such as an instruction of that
/// program.
pub(crate) fn message_of(row: &SourceRow<'_>) -> Option<NewMessage> {
    let content = content(row);
    let message = match row.text("role")?.as_str() {
        "user" => Message::User(UserMessage { parts: content.parts }),
        "assistant" => Message::Assistant(AssistantMessage {
            text: content.text(),
            reasoning: reasoning(row),
            calls: calls(row),
            finish: finish(row),
        }),
        "tool" => Message::Tool(ToolResult {
            call: row.filled("tool_call_id").unwrap_or_default(),
            name: row.filled("tool_name").unwrap_or_else(|| "tool".to_owned()),
            content: content.text(),
            is_error: false,
            images: content.images(),
        }),
        _ => return None,
    };
    let is_observed = row.int("observed").unwrap_or(0) != 0;
    let kind = match &message {
        // Overheard by that program, and not said to it.
        Message::User(_) if is_observed => MessageKind::Note,
        _ => MessageKind::Dialogue,
    };
    Some(NewMessage { kind, ..NewMessage::new(message) })
}

/// What is in a message.
struct Content {
    parts: Vec<Part>,
}

impl Content {
    fn of_text(text: String) -> Self {
        Self { parts: vec![Part::Text { text }] }
    }

    fn text(&self) -> String {
        UserMessage { parts: self.parts.clone() }.text()
    }

    fn images(self) -> Vec<Image> {
        let image = |part| match part {
            Part::Image(image) => Some(image),
            Part::Text { .. } => None,
        };
        self.parts.into_iter().filter_map(image).collect()
    }
}

fn content(row: &SourceRow<'_>) -> Content {
    let mut text = row.text("content").unwrap_or_default();
    if let Some(parts) = text.strip_prefix(PARTS) {
        return match serde_json::from_str::<Value>(parts) {
            Ok(Value::Array(parts)) => Content { parts: parts.iter().map(part).collect() },
            Ok(other) => Content::of_text(other.to_string()),
            Err(_) => Content::of_text("[content that was damaged or too large]".to_owned()),
        };
    }
    let length = row.int("content_length").unwrap_or(0);
    if length > LONGEST {
        text = format!("{text}\n[the rest of {length} bytes was not taken over]");
    }
    Content::of_text(text.replace('\0', " "))
}

/// Returns a part of a list.
fn part(part: &Value) -> Part {
    let text = |text: &str| Part::Text { text: text.to_owned() };
    if let Some(own) = part.as_str().or_else(|| part.get("text")?.as_str()) {
        return text(own);
    }
    let url = part.get("image_url").or_else(|| part.get("source")).or_else(|| part.get("url"));
    let url = url.and_then(|url| url.as_str().or_else(|| url.get("url")?.as_str()));
    match url.map(|url| url.split_once(";base64,").ok_or(url)) {
        Some(Ok((head, data))) => {
            let media_type = head.trim_start_matches("data:").to_owned();
            let known = ["image/png", "image/jpeg", "image/gif", "image/webp"];
            let is_base64 = data.bytes().all(|c| c.is_ascii_alphanumeric() || b"+/=".contains(&c));
            if known.contains(&media_type.as_str()) && is_base64 {
                return Part::Image(Image { media_type, data: data.to_owned(), optional: true });
            }
            text("[a picture that cannot be read]")
        }
        Some(Err(url)) => text(&format!("[a picture at {url}]")),
        None => text("[something that is neither text nor a picture]"),
    }
}

fn reasoning(row: &SourceRow<'_>) -> Vec<Reasoning> {
    let text = row.filled("reasoning").or_else(|| row.filled("reasoning_content"));
    // What only the provider could read is of no use to another program.
    text.map(|text| Reasoning { text, opaque: None }).into_iter().collect()
}

fn calls(row: &SourceRow<'_>) -> Vec<ToolCall> {
    let Some(text) = row.filled("tool_calls") else { return Vec::new() };
    let Ok(Value::Array(calls)) = serde_json::from_str(&text) else { return Vec::new() };
    let call = |(at, call): (usize, &Value)| {
        let function = call.get("function").unwrap_or(call);
        let arguments = match function.get("arguments") {
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
            None => "{}".to_owned(),
        };
        let id = call.get("id").or_else(|| call.get("call_id")).and_then(Value::as_str);
        Some(ToolCall {
            id: id.map_or_else(|| format!("call_{at}"), str::to_owned),
            name: function.get("name")?.as_str()?.to_owned(),
            arguments,
        })
    };
    calls.iter().enumerate().filter_map(call).collect()
}

fn finish(row: &SourceRow<'_>) -> FinishReason {
    match row.filled("finish_reason").as_deref() {
        Some("tool_calls" | "tool_use") => FinishReason::ToolCalls,
        Some("length" | "max_tokens") => FinishReason::Length,
        Some("content_filter" | "refusal") => FinishReason::Refused,
        Some("interrupted" | "cancelled") => FinishReason::Interrupted,
        _ => FinishReason::Stop,
    }
}
