//! What the agent remembers from conversation to conversation. See the crate's
//! README for the contract and an example.

mod clean;
mod entries;
mod file_memory;
mod files;
mod prompt;
mod search;
mod settings;
mod target;
#[cfg(test)]
mod testing;
mod tool;

pub use clean::clean;
pub use entries::Entries;
pub use file_memory::FileMemory;
pub use files::{Change, FileProblem, Files, Limits, ReadError, Refusal, Trouble};
pub use search::SessionSearch;
pub use settings::{Enabled, Remembering, files, from_settings, limits};
pub use target::{Target, UnknownTarget};
pub use tool::{MemoryTool, TOOLSET};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

#[cfg(doctest)]
#[doc = include_str!("../../../docs/memory.md")]
mod guide {}
