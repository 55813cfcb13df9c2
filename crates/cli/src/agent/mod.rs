//! The agent as this program runs it: made from the settings, with the person
//! at the terminal.

mod build;
mod outcome;
mod person;

pub(crate) use build::{begin_log, build};
pub(crate) use outcome::{exit_of, failure_of};
pub(crate) use person::{Asking, Person, is_present};
