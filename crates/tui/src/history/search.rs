//! Finding a message.

use std::ops::Range;

use super::History;
use crate::editor::Fragment;

/// A message in which something was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    /// Which one, counted from the oldest.
    pub(crate) at: usize,
    /// Where in its text.
    pub(crate) range: Range<usize>,
}

impl History {
    /// Returns the newest message with these words that is not newer than `from`.
    pub(crate) fn older(&self, words: &str, from: usize) -> Option<Found> {
        let last = from.min(self.len().checked_sub(1)?);
        (0..=last).rev().find_map(|at| self.found(words, at))
    }

    /// Returns the oldest message with these words that is not older than `from`.
    pub(crate) fn newer(&self, words: &str, from: usize) -> Option<Found> {
        (from..self.len()).find_map(|at| self.found(words, at))
    }

    fn found(&self, words: &str, at: usize) -> Option<Found> {
        if words.is_empty() {
            return None;
        }
        let range = find(self.get(at).map(Fragment::text)?, words)?;
        Some(Found { at, range })
    }
}

/// Finds words, in any case unless they have capitals.
fn find(text: &str, words: &str) -> Option<Range<usize>> {
    if words.chars().any(char::is_uppercase) {
        return text.find(words).map(|at| at..at + words.len());
    }
    let wanted = words.chars().flat_map(char::to_lowercase);
    text.char_indices().find_map(|(at, _)| {
        let mut rest = text.get(at..)?.char_indices();
        let mut wanted = wanted.clone().peekable();
        let mut end = at;
        while wanted.peek().is_some() {
            let (offset, c) = rest.next()?;
            for lower in c.to_lowercase() {
                wanted.next_if_eq(&lower)?;
            }
            end = at + offset + c.len_utf8();
        }
        Some(at..end)
    })
}

#[cfg(test)]
#[path = "search_tests.rs"]
mod tests;
