//! What is asked of a model, and what comes back.

use serde::{Deserialize, Serialize};

use crate::message::{AssistantMessage, Message};
use crate::usage::{Cost, Usage};

/// One call of a model.
#[derive(Debug, Clone, Default)]
pub struct Request<'a> {
    /// What the model is told before the conversation.
    pub system: &'a str,
    /// The conversation.
    pub messages: &'a [Message],
    /// The tools it may call; none: it may call none.
    pub tools: &'a [ToolSpec],
    /// Tokens it may write; `None`: as many as the provider lets it.
    pub max_output_tokens: Option<u64>,
}

/// A tool as the model is told of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// Its name.
    pub name: String,
    /// What it does and when to use it.
    pub description: String,
    /// The JSON schema of its arguments, an object.
    pub parameters: serde_json::Value,
}

/// What happens while a model answers, for those who watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// More words for the person.
    Text(String),
    /// More of what it thinks.
    Reasoning(String),
    /// It has begun to call a tool.
    Call {
        /// Which.
        name: String,
    },
    /// The attempt failed and what it had said is void; another follows.
    Retrying {
        /// Which attempt comes next, from 2.
        attempt: u32,
        /// When.
        after: std::time::Duration,
        /// Why.
        reason: String,
    },
    /// Another model is asked instead; what was said until now is void.
    FellBack {
        /// Its provider.
        provider: String,
        /// Its name.
        model: String,
        /// Why.
        reason: String,
    },
}

/// A whole answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Completion {
    /// What the model said.
    pub message: AssistantMessage,
    /// What it took.
    pub usage: Usage,
    /// What it cost.
    pub cost: Cost,
    /// The provider that answered.
    pub provider: String,
    /// The model that answered, as the provider names it.
    pub model: String,
}
