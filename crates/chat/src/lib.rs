#![doc = include_str!("../README.md")]

pub mod attachments;
mod cells;
mod chat;
mod clipboard;
mod commands;
mod conversation;
mod draw;
mod file_search;
mod host;
mod input;
mod live;
mod output;
mod questions;
mod run;
mod sandbox_monitor;
mod terminal;
mod turns;
mod view;

pub use host::{ChatError, ChatHost, HostMessage, OpenTarget, OpenedConversation};
pub use questions::{Questions, question_channel, read_answer, read_approval};
pub use run::{ChatExit, ChatParts, run, run_on};
pub use terminal::{ChatTerminal, SuspendTerminal};
