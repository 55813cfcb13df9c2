//! A conversation from before, as the editor shows it when it is loaded.

use std::collections::HashMap;

use vestal_agent::call_summary;
use vestal_conversations::{MessageKind, Stored};
use vestal_model::{Message, Part, UserMessage};

use crate::limits::{IMAGE_BYTES, REPLAYED};
use crate::paths::SharedFiles;
use crate::protocol::{
    CallStatus, ContentBlock, Location, SessionUpdate, ShownCall, ToolCallUpdate, ToolKind,
};
use crate::updates::{kind_of, shown_text, title_of};

/// Returns what shows these messages, in order. What the program told the model is left out.
pub(crate) fn updates(stored: Vec<Stored>, shared: &SharedFiles) -> Vec<SessionUpdate> {
    let mut shown = Vec::new();
    // Names of calls here, by those that the provider gave them, which come again.
    let mut calls: HashMap<String, String> = HashMap::new();
    let left_out = stored.len().saturating_sub(REPLAYED);
    if left_out > 0 {
        let words = format!("[{left_out} earlier messages are not shown]\n\n");
        shown.push(SessionUpdate::AgentMessageChunk { content: ContentBlock::text(words) });
    }
    for stored in stored.into_iter().skip(left_out) {
        let seq = stored.seq.0;
        match stored.message {
            Message::User(message) => {
                if matches!(stored.kind, MessageKind::Dialogue | MessageKind::Aside) {
                    shown.extend(user_updates(message));
                }
            }
            Message::Assistant(message) => {
                let thoughts = message.reasoning.iter().map(|block| block.text.trim());
                shown.extend(thoughts.filter(|text| !text.is_empty()).map(|text| {
                    SessionUpdate::AgentThoughtChunk { content: ContentBlock::text(text) }
                }));
                if !message.text.trim().is_empty() {
                    let content = ContentBlock::text(message.text);
                    shown.push(SessionUpdate::AgentMessageChunk { content });
                }
                for (at, call) in message.calls.into_iter().enumerate() {
                    let id = format!("past-{seq}-{at}");
                    let (kind, summary) = (kind_of(&call.name), call_summary(&call));
                    let path = (matches!(kind, ToolKind::Read | ToolKind::Edit)
                        && !summary.ends_with('…'))
                    .then(|| shared.in_editor(&summary))
                    .flatten();
                    shown.push(SessionUpdate::ToolCall(ShownCall {
                        id: id.clone(),
                        title: title_of(&call.name, &summary),
                        kind,
                        // One without a result did not come to its end.
                        status: CallStatus::Failed,
                        content: Vec::new(),
                        locations: path
                            .map(|path| Location { path, line: None })
                            .into_iter()
                            .collect(),
                    }));
                    calls.insert(call.id, id);
                }
            }
            Message::Tool(result) => {
                let Some(id) = calls.remove(&result.call) else { continue };
                let status =
                    if result.is_error { CallStatus::Failed } else { CallStatus::Completed };
                shown.push(SessionUpdate::ToolCallUpdate(ToolCallUpdate {
                    status: Some(status),
                    content: Some(vec![shown_text(&result.name, &result.content)]),
                    ..ToolCallUpdate::of(&id)
                }));
            }
        }
    }
    shown
}

fn user_updates(message: UserMessage) -> impl Iterator<Item = SessionUpdate> {
    message.parts.into_iter().map(|part| {
        let content = match part {
            Part::Text { text } => ContentBlock::Text { text },
            Part::Image(image) if image.data.len() > IMAGE_BYTES => {
                ContentBlock::text("[a picture]")
            }
            Part::Image(image) => {
                ContentBlock::Image { data: image.data, mime_type: image.media_type }
            }
        };
        SessionUpdate::UserMessageChunk { content }
    })
}
