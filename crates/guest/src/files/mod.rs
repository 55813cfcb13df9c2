//! Files of the sandbox: one module per operation.
//!
//! Everything here works with the credentials of the calling thread, on paths
//! as the sandbox sees them, and keeps no state between calls.

mod attributes;
mod case;
mod commit;
mod copy;
mod delete;
mod erase;
mod fault;
mod fill;
mod gitignore;
mod glob;
mod lines;
mod list;
mod locate;
mod locks;
mod metadata;
mod mkdir;
mod patch;
mod path;
mod pattern;
mod perform;
mod read;
mod rename;
mod replace;
mod results;
mod search;
mod spool;
mod stat;
mod tree;
mod walk;
mod write;

#[cfg(test)]
mod testing;

pub(crate) use erase::erase;
pub(crate) use fill::{Filled, fill};
pub(crate) use perform::{ContentSink, Places, perform};
