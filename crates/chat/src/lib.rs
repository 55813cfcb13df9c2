//! The interactive chat. See the crate's README for the contract.

mod answer;
pub mod attachments;
mod cells;
mod chat;
mod commands;
mod completion;
mod conversation;
mod draw;
mod format;
mod host;
mod input;
mod live;
mod questions;
mod run;
mod sandbox_monitor;
mod terminal;
mod tool_output;
mod turns;
mod view;
mod wakeup;

pub use host::{ChatError, ChatHost, HostMessage, OpenTarget, OpenedConversation};
pub use questions::{Questions, question_channel, read_answer, read_approval};
pub use run::{ChatExit, ChatParts, run, run_on};
pub use terminal::{ChatTerminal, SuspendTerminal};
