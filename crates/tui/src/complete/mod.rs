//! What can be written for somebody who asks with Tab.

mod mentions;
mod paths;
mod word;

use std::ops::Range;

pub use self::mentions::{mentioned_paths, pasted_path};
pub use self::paths::Paths;

/// Knows how a text can go on.
pub trait Completer {
    /// Returns what can be written at the cursor, the best first. Offsets are bytes
    /// of `text`.
    fn complete(&self, text: &str, cursor: usize) -> Vec<Completion>;
}

/// Something that can be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completion {
    /// What it is written in the place of.
    pub replaces: Range<usize>,
    /// What is written, with the blank behind it when the word is complete.
    pub text: String,
    /// How it is listed.
    pub label: String,
    /// What it is, in a few words.
    pub about: String,
}
