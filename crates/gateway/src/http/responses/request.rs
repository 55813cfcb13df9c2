//! What is asked of `/v1/responses`, and the items that runs take too.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::http::chat::own_tools;
use crate::http::error::ApiError;
use crate::http::input::{Content, Dialogue};

/// A request, as far as it means anything here.
#[derive(Debug, Deserialize, JsonSchema)]
pub(in crate::http) struct ResponseRequest {
    /// Any name; the response repeats it. Which model is asked is a setting of the agent.
    #[serde(default)]
    pub(super) model: Option<String>,
    /// What is said.
    pub(super) input: Input,
    /// Added to the agent's own instructions, for this turn.
    #[serde(default)]
    pub(super) instructions: Option<String>,
    /// The response to go on from.
    #[serde(default)]
    pub(super) previous_response_id: Option<String>,
    /// Whether the response and its session are kept; true unless given.
    #[serde(default)]
    pub(super) store: Option<bool>,
    /// Whether events are sent as it is made.
    #[serde(default)]
    pub(super) stream: Option<bool>,
    /// Pairs of texts that the response repeats.
    #[serde(default)]
    pub(super) metadata: Option<Value>,
    /// Must be false: a run (`/v1/runs`) goes on without its client.
    #[serde(default)]
    background: Option<bool>,
    /// Must be empty: the agent has its own tools.
    #[serde(default)]
    tools: Option<Vec<Value>>,
    /// The format must be text.
    #[serde(default)]
    text: Option<Value>,
}

impl ResponseRequest {
    /// Refuses what would change the meaning of the answer if it were passed over.
    pub(super) fn refuse_unsupported(&self) -> Result<(), ApiError> {
        if self.background == Some(true) {
            let message = "use POST /v1/runs, which continues without its client";
            return Err(ApiError::unsupported("background", message));
        }
        if self.tools.as_ref().is_some_and(|tools| !tools.is_empty()) {
            return Err(own_tools());
        }
        let format = self.text.as_ref().and_then(|text| text["format"]["type"].as_str());
        if format.is_some_and(|format| format != "text") {
            return Err(ApiError::unsupported("text", "the answer is text"));
        }
        Ok(())
    }
}

/// What is said: text, or items in order.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "must be text, or a list of items")]
pub(in crate::http) enum Input {
    /// What the user says.
    Text(String),
    /// Messages, and what the agent did, as a response had it. The last is what the user says now.
    Items(Vec<InputItem>),
}

/// One item.
#[derive(Debug, Default, Deserialize, JsonSchema)]
pub(in crate::http) struct InputItem {
    /// `message` unless given; `function_call`, `function_call_output` and `reasoning` are taken
    /// as a response had them.
    #[serde(default, rename = "type")]
    kind: Option<String>,
    /// Of a message: `system`, `developer`, `user` or `assistant`.
    #[serde(default)]
    role: Option<String>,
    /// Of a message.
    #[serde(default)]
    content: Option<Content>,
    /// Of a call and its output.
    #[serde(default)]
    call_id: Option<String>,
    /// Of a call.
    #[serde(default)]
    name: Option<String>,
    /// Of a call.
    #[serde(default)]
    arguments: Option<String>,
    /// Of the output of a call.
    #[serde(default)]
    output: Option<String>,
}

/// Adds what is said to a dialogue.
pub(in crate::http) fn add_input(dialogue: &mut Dialogue, input: Input) -> Result<(), ApiError> {
    let items = match input {
        Input::Text(text) => return dialogue.add("input", "user", Some(Content::Text(text))),
        Input::Items(items) => items,
    };
    for item in items {
        let missing = |what: &str| ApiError::invalid("input", format!("an item has no {what}"));
        match item.kind.as_deref() {
            None | Some("message") => {
                let role = item.role.ok_or_else(|| missing("role"))?;
                dialogue.add("input", &role, item.content)?;
            }
            Some("function_call") => dialogue.call(
                item.call_id.ok_or_else(|| missing("call_id"))?,
                item.name.ok_or_else(|| missing("name"))?,
                item.arguments.unwrap_or_default(),
            ),
            Some("function_call_output") => dialogue.called(
                &item.call_id.ok_or_else(|| missing("call_id"))?,
                item.output.unwrap_or_default(),
            )?,
            // What the model thought is of no use to another call of it.
            Some("reasoning") => {}
            Some(other) => {
                let message = format!("items of type {other:?} are not taken");
                return Err(ApiError::unsupported("input", message));
            }
        }
    }
    Ok(())
}
