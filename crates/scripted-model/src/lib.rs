#![doc = include_str!("../README.md")]

mod anthropic;
mod delivery;
mod frames;
mod journal;
mod openai;
mod reply;
mod reply_file;
mod request;
mod routes;
mod rule;
mod script;
mod server;
mod strict;

pub use reply::{End, Finish, Quirk, Reply, ToolCall, Usage};
pub use request::{Api, Request};
pub use rule::{Rule, RuleConditions, ToolResults};
pub use script::{Model, Script, ScriptError};
pub use server::{ScriptedModel, StartError};
