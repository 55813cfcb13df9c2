//! The one place that prints.
//!
//! Data goes to standard output, everything said about it to standard error.
//! Colour only where a terminal shows it.

mod activity;
mod copying;
mod divert;
mod json_list;
mod keyboard;
mod leave;
pub(crate) mod log;
mod progress;
mod sink;
mod speech;
pub(crate) mod status;
mod style;
mod table;
pub(crate) mod terminal;
pub(crate) mod text;
pub(crate) mod trace;

pub(crate) use activity::Activity;
pub(crate) use divert::{Said, divert, undivert};
pub(crate) use json_list::JsonList;
pub(crate) use keyboard::GivingUp;
pub(crate) use progress::Progress;
pub(crate) use sink::Sink;
pub(crate) use speech::Console;
pub(crate) use style::{BOLD, DIM, GREEN, RED, YELLOW};
pub(crate) use table::{Cell, Table};
