//! Copying a tree of files: `vestal-stage copy FROM TO`.
//!
//! The copy has the owners, permissions, times, attributes, hard links, holes
//! and special files of the original, so that the layers of a sandbox can be
//! mounted again and its programs notice nothing. No link is followed, nothing
//! is left that the tree is made of, and what is mounted in it stays out: what
//! is copied was made by commands that nobody trusts.
//!
//! `TO` must not exist. It can be entered by its owner only until it is whole,
//! and is removed again when it cannot become so.
//!
//! | file | what |
//! |---|---|
//! | `program.rs` | the command line, and what becomes of `TO` |
//! | `tree.rs` | which directory is next, and who copies it |
//! | `directory.rs`, `file.rs`, `other.rs` | one directory, one file, one of anything else |
//! | `content.rs`, `attributes.rs`, `metadata.rs`, `hard_links.rs` | what a file is made of |
//! | `beneath.rs` | opening what is in a tree without leaving it |
//! | `progress.rs`, `count.rs`, `cancel.rs` | what is said meanwhile, and being told to stop |
//! | `remove.rs` | removing what was made |

mod attributes;
mod beneath;
mod cancel;
mod content;
mod count;
mod directory;
mod failure;
mod file;
mod hard_links;
mod metadata;
mod other;
mod program;
mod progress;
mod remove;
mod tree;

pub(crate) use program::main;
