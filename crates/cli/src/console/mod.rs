//! The only place that prints.
//!
//! Data goes to standard output; notes, warnings, errors and progress go to
//! standard error. Colour is used on terminals only.

mod activity;
pub(crate) mod json;
pub(crate) mod logging;
mod messages;
mod output;
pub(crate) mod status;
mod table;
pub(crate) mod terminal;
pub(crate) mod text;

pub(crate) use activity::ActivityLine;
pub(crate) use json::JsonList;
pub(crate) use messages::Console;
pub(crate) use output::{Sink, TerminalMessage, redirect_messages, restore_messages};
pub(crate) use status::CopyStatusLine;
pub(crate) use table::{Cell, Table};
pub(crate) use terminal::CancelAnswers;
pub(crate) use text::{BOLD, DIM, GREEN, RED, YELLOW};
