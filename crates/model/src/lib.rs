#![doc = include_str!("../README.md")]

mod adapt;
mod anthropic;
mod attempt;
mod backoff;
mod cache;
mod cause;
mod chat;
mod chat_completions;
mod endpoint;
mod error;
mod history;
mod image;
mod listing;
mod memory;
mod message;
mod models;
mod refusal;
mod request;
mod secret;
mod sse;
mod usage;
mod wire;

pub use cache::{Freshness, ListCache, Listed, ListedFrom};
pub use chat::Chat;
pub use endpoint::{ContextLimit, Endpoint, Prices, is_same_server};
pub use error::{Detail, ModelError};
pub use image::Image;
pub use listing::ModelInfo;
pub use message::{
    Api, AssistantMessage, Finish, Message, Opaque, Part, Reasoning, ToolCall, ToolResult,
    UserMessage,
};
pub use models::{Models, Options, SetupError};
pub use request::{Completion, Progress, Request, ToolSpec};
pub use secret::Secret;
pub use usage::{Cost, CostSource, Usage};
