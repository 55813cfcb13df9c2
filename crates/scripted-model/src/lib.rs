#![doc = include_str!("../README.md")]

mod anthropic;
mod delivery;
mod frames;
mod journal;
mod openai;
mod reply;
mod reply_file;
mod request;
mod responses;
mod routes;
mod rule;
mod script;
mod server;
mod strict;

pub use reply::{BilledUsage, DeliveryEnd, Quirk, ScriptedFinish, ScriptedReply, ScriptedToolCall};
pub use request::{ReceivedRequest, RequestApi};
pub use rule::{ReplyRule, RuleConditions, ToolResults};
pub use script::{Model, Script, ScriptError};
pub use server::{ScriptedModel, StartError};
