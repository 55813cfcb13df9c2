//! What the agent remembers from conversation to conversation. See the crate's
//! README for the contract and an example.

mod entries;
mod file_memory;
mod files;
pub mod keys;
mod search;
#[cfg(test)]
mod testing;
mod tool;

pub use entries::{Entries, NotesTarget, UnknownTarget, clean};
pub use file_memory::{Enabled, FileMemory, MemoryParts, files, from_settings, limits};
pub use files::{
    MemoryError, MemoryFileProblem, MemoryRefusal, NoteChange, NoteFiles, NoteLimits, ReadError,
};
pub use search::SessionSearch;
pub use tool::{MemoryTool, TOOLSET};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

#[cfg(doctest)]
#[doc = include_str!("../../../docs/memory.md")]
mod guide {}
