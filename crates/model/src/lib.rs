#![doc = include_str!("../README.md")]

mod anthropic;
mod attempt;
mod chat;
mod chat_completions;
mod effort;
mod endpoint;
mod error;
mod history;
mod listing;
mod message;
mod models;
mod quirks;
mod refusal;
mod request;
mod responses;
mod wire;

pub use chat::ModelChain;
pub use effort::{ReasoningEffort, ReasoningOptions};
pub use endpoint::{ApiKey, ContextLimit, Endpoint, ModelPrices, is_same_server};
pub use error::{FailureDetail, ModelError};
pub use listing::{Freshness, ListCache, ListedFrom, ModelInfo, ModelList};
pub use message::{
    AssistantMessage, FinishReason, Image, Message, Opaque, Part, ProviderApi, Reasoning, ToolCall,
    ToolResult, UserMessage,
};
pub use models::{ModelOptions, Models, SetupError};
pub use request::{
    AnswerProgress, Cost, CostSource, ModelAnswer, ModelRequest, TokenUsage, ToolSpec,
};
