//! What a client asked: recorded for the test, and read by the script.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;

use serde::Deserialize;
use serde_json::{Value, json};

/// Which API a request was made in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestApi {
    /// `POST /v1/chat/completions`.
    #[serde(rename = "openai")]
    OpenAi,
    /// `POST /v1/messages`.
    Anthropic,
    /// `POST /v1/responses`.
    Responses,
}

/// One request as it came in.
#[derive(Clone, PartialEq)]
pub struct ReceivedRequest {
    /// The method, in capitals.
    pub method: String,
    /// The path with its query.
    pub path: String,
    /// The headers, names in lower case.
    pub headers: BTreeMap<String, String>,
    /// The body; `null` when there was none or it was not JSON.
    pub body: Value,
    /// Size of the body in bytes.
    pub body_bytes: usize,
    /// The client's end of the connection: equal for requests that share one.
    pub peer: SocketAddr,
}

impl ReceivedRequest {
    /// Returns a header's value.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(&name.to_ascii_lowercase()).map(String::as_str)
    }

    /// Returns the model that was asked for.
    pub fn model(&self) -> &str {
        self.body["model"].as_str().unwrap_or_default()
    }

    /// Returns whether the answer shall be streamed.
    pub fn wants_stream(&self) -> bool {
        self.body["stream"].as_bool().unwrap_or_default()
    }

    /// Returns the API the request was made in: by its path, and where both
    /// have the same one, by the header that only Anthropic's clients send.
    pub fn api(&self) -> RequestApi {
        let path = self.path.split('?').next().unwrap_or_default();
        let chat = path.ends_with("/chat/completions");
        if path.ends_with("/responses") {
            return RequestApi::Responses;
        }
        if path.ends_with("/messages") || (!chat && self.header("anthropic-version").is_some()) {
            RequestApi::Anthropic
        } else {
            RequestApi::OpenAi
        }
    }

    /// Returns the messages of the conversation, as they were sent: of responses, the items of the
    /// input.
    pub fn messages(&self) -> &[Value] {
        let messages = self.body["messages"].as_array().or_else(|| self.body["input"].as_array());
        messages.map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns the names of the offered tools, in their order.
    pub fn tool_names(&self) -> Vec<&str> {
        let tools = self.body["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
        tools
            .iter()
            .filter_map(|tool| tool["function"]["name"].as_str().or_else(|| tool["name"].as_str()))
            .collect()
    }

    /// Returns the system prompt, wherever the API keeps it.
    pub fn system(&self) -> String {
        let first = self
            .messages()
            .iter()
            .filter(|message| matches!(message["role"].as_str(), Some("system" | "developer")));
        let parts: Vec<String> = ["system", "instructions"]
            .map(|field| text_of(&self.body[field]))
            .into_iter()
            .chain(first.map(|message| text_of(&message["content"])))
            .filter(|text| !text.is_empty())
            .collect();
        parts.join("\n")
    }

    /// Returns the text of the last message that a user wrote; tool results are
    /// no such message, whatever role the API gives them.
    pub fn last_user_text(&self) -> Option<String> {
        self.messages().iter().rfind(|m| is_user(m)).map(|message| text_of(&message["content"]))
    }

    /// Returns the texts of all tool results since the last user message.
    pub fn tool_results(&self) -> Vec<String> {
        let messages = self.messages();
        let start = messages.iter().rposition(is_user).map_or(0, |user| user + 1);
        messages[start..].iter().flat_map(results_of).collect()
    }

    /// Returns the texts of the tool results that the request ends with: those
    /// after the last word of the model.
    pub fn last_tool_results(&self) -> Vec<String> {
        let messages = self.messages();
        let start = messages
            .iter()
            .rposition(|message| is_of_model(message) || is_user(message))
            .map_or(0, |last| last + 1);
        messages[start..].iter().flat_map(results_of).collect()
    }

    /// Returns the request as one line of the log, without its secrets.
    pub(crate) fn log_line(&self) -> String {
        let headers: BTreeMap<&str, &str> = self.safe_headers().collect();
        let line = json!({
            "method": self.method,
            "path": self.path,
            "headers": headers,
            "peer": self.peer.to_string(),
            "body_bytes": self.body_bytes,
            "body": self.body,
        });
        format!("{line}\n")
    }

    fn safe_headers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.headers.iter().map(|(name, value)| {
            let secret = matches!(name.as_str(), "authorization" | "x-api-key" | "cookie");
            (name.as_str(), if secret { "***" } else { value.as_str() })
        })
    }
}

impl fmt::Debug for ReceivedRequest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers: BTreeMap<&str, &str> = self.safe_headers().collect();
        formatter
            .debug_struct("ReceivedRequest")
            .field("method", &self.method)
            .field("path", &self.path)
            .field("headers", &headers)
            .field("body", &self.body)
            .field("body_bytes", &self.body_bytes)
            .field("peer", &self.peer)
            .finish()
    }
}

/// Returns whether a person wrote this message. Anthropic's tool results come
/// under the user's role; a message that carries one is an answer to the model.
fn is_user(message: &Value) -> bool {
    message["role"] == "user" && !blocks(message).iter().any(|block| block["type"] == "tool_result")
}

/// Returns whether the model said this.
fn is_of_model(message: &Value) -> bool {
    message["role"] == "assistant"
        || matches!(message["type"].as_str(), Some("function_call" | "reasoning"))
}

/// Returns the texts of the tool results in a message of any API.
fn results_of(message: &Value) -> Vec<String> {
    if message["role"] == "tool" {
        return vec![text_of(&message["content"])];
    }
    if message["type"] == "function_call_output" {
        return vec![text_of(&message["output"])];
    }
    blocks(message)
        .iter()
        .filter(|block| block["type"] == "tool_result")
        .map(|block| text_of(&block["content"]))
        .collect()
}

fn blocks(message: &Value) -> &[Value] {
    message["content"].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Returns the text of a content that is a string or a list of blocks.
fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let texts: Vec<&str> =
                blocks.iter().filter_map(|block| block["text"].as_str()).collect();
            texts.join("\n")
        }
        _ => String::new(),
    }
}

#[cfg(test)]
#[path = "request_tests.rs"]
pub(crate) mod tests;
