//! The only place that prints.
//!
//! Data goes to standard output; notes, warnings, errors and progress go to
//! standard error. Colour is used on terminals only.

pub(crate) mod json;
mod messages;
mod output;
pub(crate) mod status;
mod table;
pub(crate) mod terminal;
pub(crate) mod text;

pub(crate) use json::JsonList;
pub(crate) use messages::{
    Console, StandardError, TerminalMessage, keep_reports, keep_supervisor_reports,
    redirect_messages, restore_messages, show_reports,
};
pub(crate) use output::Sink;
pub(crate) use status::{ActivityLine, CopyStatusLine};
pub(crate) use table::{Cell, Table};
pub(crate) use terminal::CancelAnswers;
pub(crate) use text::{BOLD, DIM, GREEN, RED, YELLOW};
