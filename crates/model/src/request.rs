//! What a model is asked, and what it answered and took.

use serde::{Deserialize, Serialize};

use crate::effort::ReasoningOptions;
use crate::message::{AssistantMessage, Message};

/// One call of a model.
#[derive(Debug, Clone, Default)]
pub struct ModelRequest<'a> {
    /// What the model is told before the conversation.
    pub system: &'a str,
    /// The conversation.
    pub messages: &'a [Message],
    /// The tools it may call; none: it may call none.
    pub tools: &'a [ToolSpec],
    /// Tokens it may write; `None`: as many as the provider lets it.
    pub max_output_tokens: Option<u64>,
    /// How much it thinks; `None`: as configured for the model.
    pub reasoning: Option<ReasoningOptions>,
}

/// A tool as it is described to the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// Its name.
    pub name: String,
    /// What it does and when to use it.
    pub description: String,
    /// The JSON schema of its arguments, an object.
    pub parameters: serde_json::Value,
}

/// Progress of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnswerProgress {
    /// More words for the person.
    Text(String),
    /// More of what it thinks.
    Reasoning(String),
    /// It has started to call a tool.
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
pub struct ModelAnswer {
    /// What the model said.
    pub message: AssistantMessage,
    /// What it took.
    pub usage: TokenUsage,
    /// What it cost.
    pub cost: Cost,
    /// The provider that answered.
    pub provider: String,
    /// The model that answered, as the provider names it.
    pub model: String,
}

/// Tokens of a call, or of several together, as the provider counted them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenUsage {
    /// Tokens read, those from the provider's cache not included.
    pub input: u64,
    /// Tokens written, reasoning included.
    pub output: u64,
    /// Tokens read from the provider's cache.
    #[serde(default)]
    pub cache_read: u64,
    /// Tokens written to the provider's cache.
    #[serde(default)]
    pub cache_write: u64,
    /// Of those written, what was reasoning.
    #[serde(default)]
    pub reasoning: u64,
}

impl TokenUsage {
    /// Returns all tokens the model had to read.
    pub const fn prompt(&self) -> u64 {
        self.input.saturating_add(self.cache_read).saturating_add(self.cache_write)
    }

    /// Returns all tokens, read and written.
    pub const fn total(&self) -> u64 {
        self.prompt().saturating_add(self.output)
    }
}

impl std::ops::AddAssign for TokenUsage {
    fn add_assign(&mut self, other: Self) {
        self.input = self.input.saturating_add(other.input);
        self.output = self.output.saturating_add(other.output);
        self.cache_read = self.cache_read.saturating_add(other.cache_read);
        self.cache_write = self.cache_write.saturating_add(other.cache_write);
        self.reasoning = self.reasoning.saturating_add(other.reasoning);
    }
}

/// What a call cost, and who says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum Cost {
    /// Nobody knows: the provider does not say and no price is configured.
    Unknown,
    /// Known, in millionths of a US dollar.
    Known {
        /// The amount.
        micro_usd: u64,
        /// Who says so.
        source: CostSource,
    },
}

/// The source of a call's cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CostSource {
    /// The provider, with its answer.
    Provider,
    /// The configured prices.
    Prices,
}
