#![doc = include_str!("../README.md")]

mod anthropic;
mod attempt;
mod chat;
mod chat_completions;
mod endpoint;
mod error;
mod history;
mod listing;
mod message;
mod models;
mod quirks;
mod refusal;
mod request;
mod wire;

pub use chat::Chat;
pub use endpoint::{ContextLimit, Endpoint, Prices, Secret, is_same_server};
pub use error::{Detail, ModelError};
pub use listing::{Freshness, ListCache, ListedFrom, ModelInfo, ModelList};
pub use message::{
    Api, AssistantMessage, Finish, Image, Message, Opaque, Part, Reasoning, ToolCall, ToolResult,
    UserMessage,
};
pub use models::{ModelOptions, Models, SetupError};
pub use request::{Completion, Cost, CostSource, Progress, Request, ToolSpec, Usage};
