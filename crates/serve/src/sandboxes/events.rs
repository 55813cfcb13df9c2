//! What a client hears without having asked, or before the answer.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::protocol;

/// An event, by its `type`, with its `payload`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "type", content = "payload")]
pub(super) enum SandboxEvent {
    /// The first frame of a connection: requests are taken.
    #[serde(rename = "sandboxes.ready")]
    Ready {
        /// The version of the program.
        version: String,
        /// The version of this protocol; it grows when something is added.
        protocol: u32,
        /// The profile that is served.
        profile: String,
        /// Bytes that a frame of the client may have.
        max_frame_bytes: usize,
        /// Requests that may be under way at once.
        max_requests: usize,
        /// Whether sandboxes without isolation are refused.
        isolated: bool,
    },
    /// The last frame of a connection that the server ends.
    #[serde(rename = "connection.closed")]
    #[expect(dead_code, reason = "the outbox writes it; here it is for the catalogue")]
    Closed {
        /// Why.
        reason: String,
    },
    /// The command of a `run` with `stream` runs.
    #[serde(rename = "job.started")]
    Started {
        /// The `id` of the request.
        request: Value,
        /// The job.
        job: String,
    },
    /// A command whose request streams has written something. It comes before the answer to that request.
    #[serde(rename = "job.output")]
    Output(OutputEvent),
}

/// A stream of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum OutputName {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// A piece of a command's output.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(super) struct OutputEvent {
    /// The `id` of the request.
    pub(super) request: Value,
    /// Which stream.
    pub(super) stream: OutputName,
    /// The offset of its first byte in what the command has written to this stream.
    pub(super) from: u64,
    /// The bytes, where they are UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) text: Option<String>,
    /// The bytes in base64, where they are not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) base64: Option<String>,
    /// How many bytes are left out here, in place of `text` and `base64`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) omitted: Option<u64>,
}

impl OutputEvent {
    pub(super) fn bytes(request: &Value, stream: OutputName, from: u64, bytes: &[u8]) -> Self {
        let (text, base64) = as_text(bytes);
        Self { request: request.clone(), stream, from, text, base64, omitted: None }
    }

    pub(super) fn gap(request: &Value, stream: OutputName, from: u64, omitted: u64) -> Self {
        let (text, base64) = (None, None);
        Self { request: request.clone(), stream, from, text, base64, omitted: Some(omitted) }
    }
}

/// Returns bytes as text or, where they are not UTF-8, in base64.
pub(super) fn as_text(bytes: &[u8]) -> (Option<String>, Option<String>) {
    match std::str::from_utf8(bytes) {
        Ok(text) => (Some(text.to_owned()), None),
        Err(_) => (None, Some(STANDARD.encode(bytes))),
    }
}

impl SandboxEvent {
    /// Returns it as a frame.
    pub(super) fn frame(&self) -> String {
        #[derive(Serialize)]
        struct EventFrame<'a> {
            jsonrpc: &'static str,
            method: &'static str,
            params: &'a SandboxEvent,
        }
        protocol::line(&EventFrame { jsonrpc: "2.0", method: "event", params: self })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn bytes_that_are_no_text_go_over_the_wire_exactly() {
        let frame = |bytes: &[u8]| -> Value {
            let event = OutputEvent::bytes(&json!(7), OutputName::Stderr, 3, bytes);
            serde_json::from_str(&SandboxEvent::Output(event).frame()).unwrap()
        };
        let payload = json!({ "request": 7, "stream": "stderr", "from": 3, "text": "ä\n" });
        let params = json!({ "type": "job.output", "payload": payload });
        let whole = json!({ "jsonrpc": "2.0", "method": "event", "params": params });
        assert_eq!(frame("ä\n".as_bytes()), whole);
        assert_eq!(frame(&[0xff, 0])["params"]["payload"]["base64"], "/wA=");
    }
}
