//! The pieces an answer is sent in, before anything is known of delivery.

use bytes::Bytes;
use serde_json::Value;

use crate::reply::{BilledUsage, Quirk, ReplyMessage};
use crate::request::ReceivedRequest;

/// One piece of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AnswerFrame {
    pub(crate) bytes: Bytes,
    /// Whether the piece counts as a delta.
    pub(crate) delta: bool,
}

/// Who answers what: what both shapes need to know besides the message.
pub(crate) struct Exchange<'a> {
    pub(crate) request: &'a ReceivedRequest,
    /// Number of the request on this server, from 1: makes ids unique.
    pub(crate) number: usize,
    /// Seconds since the epoch.
    pub(crate) now: u64,
    pub(crate) chunk_chars: usize,
}

impl Exchange<'_> {
    /// Returns what the message is billed: as the script says, or an estimate
    /// at four bytes per token, so that a longer conversation costs more.
    pub(crate) fn usage(&self, message: &ReplyMessage) -> BilledUsage {
        message.usage.unwrap_or_else(|| {
            let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
            let calls = message.tool_calls.iter();
            let called: usize =
                calls.map(|call| call.name.len() + call.arguments_text().len()).sum();
            let reasoning = length(&message.reasoning);
            BilledUsage {
                input: tokens(self.request.body_bytes),
                output: tokens(reasoning + length(&message.text) + called),
                reasoning: tokens(reasoning),
                ..BilledUsage::default()
            }
        })
    }

    /// Cuts `text` into pieces of the wanted number of characters.
    pub(crate) fn chunks(&self, text: &str) -> Vec<String> {
        if self.chunk_chars == 0 || text.is_empty() {
            return vec![text.to_owned()];
        }
        let characters: Vec<char> = text.chars().collect();
        characters.chunks(self.chunk_chars).map(|piece| piece.iter().collect()).collect()
    }
}

fn tokens(bytes: usize) -> u64 {
    u64::try_from(bytes.div_ceil(4)).unwrap_or(u64::MAX)
}

/// Collects the events of a stream.
pub(crate) struct EventList<'a> {
    message: &'a ReplyMessage,
    frames: Vec<AnswerFrame>,
}

impl<'a> EventList<'a> {
    pub(crate) fn new(message: &'a ReplyMessage) -> Self {
        Self { message, frames: Vec::new() }
    }

    pub(crate) fn has(&self, quirk: Quirk) -> bool {
        self.message.quirks.contains(&quirk)
    }

    /// Adds an event that is part of the frame of the message.
    pub(crate) fn structure(&mut self, name: Option<&str>, data: &Value) {
        self.push(name, &data.to_string(), false);
    }

    /// Adds an event that counts as a delta.
    pub(crate) fn delta(&mut self, name: Option<&str>, data: &Value) {
        self.push(name, &data.to_string(), true);
    }

    /// Adds an event whose data is not JSON.
    pub(crate) fn mark(&mut self, data: &str) {
        self.push(None, data, false);
    }

    fn push(&mut self, name: Option<&str>, data: &str, delta: bool) {
        let mut text = event(name, data);
        if self.has(Quirk::Comments) {
            text.insert_str(0, ": still there\n\n");
        }
        if self.has(Quirk::Crlf) {
            text = text.replace('\n', "\r\n");
        }
        self.frames.push(AnswerFrame { bytes: Bytes::from(text), delta });
    }

    pub(crate) fn into_frames(self) -> Vec<AnswerFrame> {
        self.frames
    }
}

/// Returns one server-sent event. Its data has no line break: serialised JSON
/// escapes them.
pub(crate) fn event(name: Option<&str>, data: &str) -> String {
    name.map_or_else(
        || format!("data: {data}\n\n"),
        |name| format!("event: {name}\ndata: {data}\n\n"),
    )
}
