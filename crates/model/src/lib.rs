#![doc = include_str!("../README.md")]

mod adapt;
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
pub use endpoint::Secret;
pub use endpoint::{ContextLimit, Endpoint, Prices, is_same_server};
pub use error::{Detail, ModelError};
pub use listing::ModelInfo;
pub use listing::{Freshness, ListCache, ListedFrom, ModelList};
pub use message::Image;
pub use message::{
    Api, AssistantMessage, Finish, Message, Opaque, Part, Reasoning, ToolCall, ToolResult,
    UserMessage,
};
pub use models::{ModelOptions, Models, SetupError};
pub use request::{Completion, Progress, Request, ToolSpec};
pub use request::{Cost, CostSource, Usage};
