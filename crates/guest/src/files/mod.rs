//! File operations in the sandbox.
//!
//! Everything here uses the credentials of the calling thread and paths as the
//! sandbox sees them, and keeps no state between calls.

mod copy;
mod delete;
mod lines;
mod metadata;
mod patch;
mod paths;
mod pattern;
mod perform;
mod read;
mod rename;
mod search;
mod spool;
mod tree;
mod walk;
mod write;

pub(crate) use copy::{Filled, fill};
pub(crate) use delete::erase;
pub(crate) use perform::{ContentSink, PathRoots, perform};

#[cfg(test)]
mod testing;
