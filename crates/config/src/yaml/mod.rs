//! YAML with its places: a tree whose nodes know where they stand in the text,
//! and an editor that changes one value and leaves every other byte alone.

mod edit;
mod node;
mod parse;
mod remove;

pub use edit::EditError;
pub(crate) use edit::{append, set};
pub use node::{MapEntry, YamlNode};
pub(crate) use node::{NodeKind, flow, quote};
pub use parse::{SyntaxError, Yaml, YamlKind};
pub(crate) use parse::{YamlDocument, parse};
pub(crate) use remove::remove;

#[cfg(test)]
#[path = "edit_tests.rs"]
mod edit_tests;
#[cfg(test)]
#[path = "parse_tests.rs"]
mod parse_tests;
#[cfg(test)]
#[path = "remove_tests.rs"]
mod remove_tests;
