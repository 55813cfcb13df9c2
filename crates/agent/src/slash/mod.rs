//! What is said to the program in a conversation, and not to the model.
//!
//! One table of commands serves every front end: a chat at a
//! terminal, one over a messenger, a dashboard. How a command is read, what its
//! help says and what could be typed next all come from the table, and nothing
//! of a terminal is in it.

mod command;
mod help;
mod parse;
mod reasoning;
mod table;

#[cfg(test)]
#[path = "complete_tests.rs"]
mod complete_tests;
#[cfg(test)]
#[path = "help_tests.rs"]
mod help_tests;
#[cfg(test)]
#[path = "parse_tests.rs"]
mod parse_tests;
#[cfg(test)]
#[path = "table_tests.rs"]
mod table_tests;

pub use command::{
    ArgumentKind, ArgumentStyle, CommandGroup, CommandKind, CommandTiming, CommandWord,
    SlashCommand,
};
pub use help::{Completing, SlashCandidate, complete, help, help_of};
pub use parse::{Invocation, SlashError, Unclosed, nearest, parse, quoted, words};
pub use reasoning::{ReasoningRequest, about_effort, describe_reasoning, read_reasoning};
pub use table::{COMMANDS, find};
