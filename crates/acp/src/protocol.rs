//! The Agent Client Protocol, version 1, as far as it is spoken here: the only place that knows what its
//! messages look like.
//!
//! The types are our own. The crate `agent-client-protocol` would turn `serde_json/preserve_order` on for
//! the whole program, which changes the order of every JSON object it prints and hashes, and its
//! connection keeps what a client does not read in memory without a bound. That these types are the
//! protocol's is tested with the SDKs for Python and TypeScript, which validate every message.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The version that is spoken.
pub(crate) const VERSION: u16 = 1;

/// The name of a request.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum RequestId {
    /// As most clients number them.
    Number(i64),
    /// A text.
    Text(String),
}

/// What a client sent.
#[derive(Debug, PartialEq)]
pub(crate) enum Incoming {
    Request {
        id: RequestId,
        method: String,
        params: Value,
    },
    Notification {
        method: String,
        params: Value,
    },
    /// The answer to a request of ours; an error is none.
    Response {
        id: RequestId,
        result: Option<Value>,
    },
    /// It is none of these; with its id, if it has one.
    Bad(Option<RequestId>),
}

impl Incoming {
    pub(crate) fn read(message: Value) -> Self {
        let Value::Object(mut message) = message else { return Self::Bad(None) };
        let id = message.remove("id").map(serde_json::from_value::<RequestId>);
        let method = match message.remove("method") {
            Some(Value::String(method)) => Some(method),
            Some(_) => return Self::Bad(id.and_then(Result::ok)),
            None => None,
        };
        let params =
            message.remove("params").unwrap_or_else(|| Value::Object(serde_json::Map::new()));
        match (id, method) {
            (Some(Ok(id)), Some(method)) => Self::Request { id, method, params },
            (None, Some(method)) => Self::Notification { method, params },
            (Some(Ok(id)), None) if message.contains_key("result") => {
                Self::Response { id, result: message.remove("result") }
            }
            (Some(Ok(id)), None) if message.contains_key("error") => {
                Self::Response { id, result: None }
            }
            (id, _) => Self::Bad(id.and_then(Result::ok)),
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct InitializeParams {
    /// The newest version that the client speaks.
    #[expect(dead_code, reason = "it must be there; the answer is the same whatever it is")]
    pub(crate) protocol_version: Value,
    #[serde(default)]
    pub(crate) client_info: Option<ClientInfo>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct ClientInfo {
    pub(crate) name: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NewSessionParams {
    pub(crate) cwd: PathBuf,
    #[serde(default)]
    pub(crate) mcp_servers: Vec<Value>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LoadSessionParams {
    pub(crate) session_id: String,
    pub(crate) cwd: PathBuf,
    #[serde(default)]
    pub(crate) mcp_servers: Vec<Value>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct ListSessionsParams {
    #[serde(default)]
    pub(crate) cwd: Option<PathBuf>,
    #[serde(default)]
    pub(crate) cursor: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PromptParams {
    pub(crate) session_id: String,
    pub(crate) prompt: Vec<ContentBlock>,
}

/// Parameters that name a session and nothing else.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NamedSession {
    pub(crate) session_id: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SetModeParams {
    pub(crate) session_id: String,
    pub(crate) mode_id: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SetOptionParams {
    pub(crate) session_id: String,
    pub(crate) config_id: String,
    pub(crate) value: String,
}

/// Parameters of `$/cancel_request`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CancelRequestParams {
    pub(crate) request_id: RequestId,
}

/// A piece of what somebody says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub(crate) enum ContentBlock {
    Text { text: String },
    Image { data: String, mime_type: String },
    Audio {},
    ResourceLink { uri: String, name: String },
    Resource { resource: EmbeddedResource },
}

/// The content of a file, as the editor has it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EmbeddedResource {
    pub(crate) uri: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) blob: Option<String>,
}

impl ContentBlock {
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }
}

/// Why a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StopReason {
    EndTurn,
    MaxTurnRequests,
    Refusal,
    Cancelled,
}

/// Something new in a session.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "sessionUpdate", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub(crate) enum SessionUpdate {
    UserMessageChunk { content: ContentBlock },
    AgentMessageChunk { content: ContentBlock },
    AgentThoughtChunk { content: ContentBlock },
    ToolCall(ShownCall),
    ToolCallUpdate(ToolCallUpdate),
    Plan { entries: Vec<PlanEntry> },
    AvailableCommandsUpdate { available_commands: Vec<AvailableCommand> },
    CurrentModeUpdate { current_mode_id: &'static str },
    ConfigOptionUpdate { config_options: Vec<ConfigOption> },
    SessionInfoUpdate { title: String },
    UsageUpdate { used: u64, size: u64 },
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ShownCall {
    #[serde(rename = "toolCallId")]
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) kind: ToolKind,
    pub(crate) status: CallStatus,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) content: Vec<ToolContent>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) locations: Vec<Location>,
}

/// What has changed of a call. What is absent stays.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ToolCallUpdate {
    pub(crate) tool_call_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) kind: Option<ToolKind>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<CallStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) content: Option<Vec<ToolContent>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) locations: Option<Vec<Location>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ToolKind {
    Read,
    Edit,
    Search,
    Execute,
    Think,
    SwitchMode,
    Other,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CallStatus {
    Pending,
    InProgress,
    Completed,
    Failed,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub(crate) enum ToolContent {
    Content {
        content: ContentBlock,
    },
    Diff {
        path: PathBuf,
        /// None of a file that is new.
        #[serde(skip_serializing_if = "Option::is_none")]
        old_text: Option<String>,
        new_text: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Location {
    pub(crate) path: PathBuf,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) line: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct PlanEntry {
    pub(crate) content: String,
    pub(crate) priority: &'static str,
    pub(crate) status: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct AvailableCommand {
    pub(crate) name: String,
    pub(crate) description: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) input: Option<CommandHint>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct CommandHint {
    pub(crate) hint: String,
}

/// Something of a session that an editor offers to choose.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ConfigOption {
    pub(crate) id: &'static str,
    pub(crate) name: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) description: Option<String>,
    /// What kind of thing it is; the same word as its id.
    pub(crate) category: &'static str,
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    pub(crate) current_value: String,
    pub(crate) options: Vec<ConfigChoice>,
}

impl ConfigOption {
    /// Returns an option with one value out of several.
    pub(crate) fn select(
        id: &'static str,
        name: &'static str,
        current: &str,
        options: Vec<ConfigChoice>,
    ) -> Self {
        let current_value = current.to_owned();
        Self { id, name, description: None, category: id, kind: "select", current_value, options }
    }

    /// Returns how many values there are to choose from.
    pub(crate) fn choices(&self) -> usize {
        self.options.len()
    }
}

/// A value of an option.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct ConfigChoice {
    pub(crate) value: String,
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
}

impl ConfigChoice {
    pub(crate) fn new(value: String, name: String, description: Option<String>) -> Self {
        Self { value, name, description }
    }
}

/// A way to answer a question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PermissionOption {
    pub(crate) option_id: String,
    pub(crate) name: String,
    pub(crate) kind: &'static str,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PermissionParams<'a> {
    pub(crate) session_id: &'a str,
    pub(crate) tool_call: ToolCallUpdate,
    pub(crate) options: Vec<PermissionOption>,
}

/// Returns which option a person chose; none if they chose none.
pub(crate) fn chosen(answer: &Value) -> Option<&str> {
    (answer["outcome"]["outcome"] == "selected").then(|| answer["outcome"]["optionId"].as_str())?
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_message_is_what_its_members_make_it() {
        let id = || RequestId::Number(1);
        let nothing = || json!({});
        let (method, params) = (String::from("m"), json!([1]));
        for (message, expected) in [
            (
                json!({ "id": 1, "method": "m", "params": [1] }),
                Incoming::Request { id: id(), method: method.clone(), params },
            ),
            (json!({ "method": "m" }), Incoming::Notification { method, params: nothing() }),
            (
                json!({ "id": 1, "result": null }),
                Incoming::Response { id: id(), result: Some(Value::Null) },
            ),
            (json!({ "id": 1, "error": {} }), Incoming::Response { id: id(), result: None }),
            (json!({ "id": 1 }), Incoming::Bad(Some(id()))),
            (json!({ "id": 1, "method": 2 }), Incoming::Bad(Some(id()))),
            (json!({ "id": {}, "method": "m" }), Incoming::Bad(None)),
            (json!({ "id": null, "method": "m" }), Incoming::Bad(None)),
            (json!([]), Incoming::Bad(None)),
        ] {
            assert_eq!(Incoming::read(message.clone()), expected, "{message}");
        }
    }

    #[test]
    fn an_answer_names_the_option_that_was_chosen() {
        let selected = json!({ "outcome": { "outcome": "selected", "optionId": "once" } });
        assert_eq!(chosen(&selected), Some("once"));
        let cancelled = json!({ "outcome": { "outcome": "cancelled", "optionId": "once" } });
        for none in [cancelled, json!({}), json!(null), json!({ "outcome": "selected" })] {
            assert_eq!(chosen(&none), None, "{none}");
        }
    }
}
