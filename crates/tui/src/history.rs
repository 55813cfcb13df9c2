//! What was sent before.

mod file;

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::editor::Fragment;
use crate::history::file::File;

/// How many messages are kept.
pub(crate) const MOST_ENTRIES: usize = 1_000;

/// How many bytes of messages are kept.
pub(crate) const MOST_BYTES: usize = 2 << 20;

/// What was sent before, the oldest first: by this process, and by those before it
/// that wrote into the same file.
#[derive(Debug, Default)]
pub struct History {
    entries: VecDeque<Fragment>,
    bytes: usize,
    file: Option<File>,
    error: Option<io::Error>,
}

impl History {
    /// Returns what a file keeps, and keeps there what is added. The file is made
    /// with the first message.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        let file = File::at(path.as_ref());
        let mut history = Self::default();
        for entry in file.read()? {
            history.remember(entry);
        }
        history.file = Some(file);
        Ok(history)
    }

    /// Returns an empty one that ends with the process.
    pub fn in_memory() -> Self {
        Self::default()
    }

    /// Adds a message. What cannot be written to the file is remembered still.
    pub fn add(&mut self, text: &str) -> io::Result<()> {
        self.insert(&Fragment::set(text))
    }

    /// Returns the messages, the oldest first, pastes whole.
    pub fn messages(&self) -> impl DoubleEndedIterator<Item = String> {
        self.entries.iter().map(|entry| entry.expanded().0)
    }

    /// Returns how many there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns one, counted from the oldest.
    pub(crate) fn get(&self, at: usize) -> Option<&Fragment> {
        self.entries.get(at)
    }

    /// Adds a message; trouble with the file can be asked for afterwards.
    pub(crate) fn keep(&mut self, entry: &Fragment) {
        if let Err(error) = self.insert(entry) {
            self.error = Some(error);
        }
    }

    /// Returns, once, what was wrong with the file.
    pub(crate) fn take_error(&mut self) -> Option<io::Error> {
        self.error.take()
    }

    fn insert(&mut self, entry: &Fragment) -> io::Result<()> {
        // The same message twice in a row is one, and what is larger than all that is
        // kept would drive out everything else.
        if entry.is_blank() || self.entries.back() == Some(entry) || entry.whole_len() > MOST_BYTES
        {
            return Ok(());
        }
        self.remember(entry.clone());
        self.file.as_mut().map_or(Ok(()), |file| file.append(entry))
    }

    fn remember(&mut self, entry: Fragment) {
        self.bytes += entry.whole_len();
        self.entries.push_back(entry);
        while self.entries.len() > MOST_ENTRIES || self.bytes > MOST_BYTES {
            let Some(forgotten) = self.entries.pop_front() else { break };
            self.bytes -= forgotten.whole_len();
        }
    }
}

/// A message in which something was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HistoryMatch {
    /// Which one, counted from the oldest.
    pub(crate) at: usize,
    /// Where in its text.
    pub(crate) range: Range<usize>,
}

impl History {
    /// Returns the newest message with these words that is not newer than `from`.
    pub(crate) fn older(&self, words: &str, from: usize) -> Option<HistoryMatch> {
        let last = from.min(self.len().checked_sub(1)?);
        (0..=last).rev().find_map(|at| self.found(words, at))
    }

    /// Returns the oldest message with these words that is not older than `from`.
    pub(crate) fn newer(&self, words: &str, from: usize) -> Option<HistoryMatch> {
        (from..self.len()).find_map(|at| self.found(words, at))
    }

    fn found(&self, words: &str, at: usize) -> Option<HistoryMatch> {
        if words.is_empty() {
            return None;
        }
        let range = find_text(self.get(at).map(Fragment::text)?, words)?;
        Some(HistoryMatch { at, range })
    }
}

/// Finds words, in any case unless they have capitals.
fn find_text(text: &str, words: &str) -> Option<Range<usize>> {
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

/// Returns the line, its end included.
fn encode_entry(entry: &Fragment) -> String {
    let (text, pastes) = entry.expanded();
    let at = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let mut line = json!({ "at": at, "text": text });
    if !pastes.is_empty() {
        line["pastes"] = pastes.iter().map(|range| json!([range.start, range.end])).collect();
    }
    // JSON has no end of line within a line.
    format!("{line}\n")
}

/// Returns the message of a line; nothing for a line that is none.
fn decode_entry(line: &[u8]) -> Option<Fragment> {
    let line: Value = serde_json::from_slice(line).ok()?;
    let text = line.get("text")?.as_str()?;
    let pastes = line.get("pastes").and_then(Value::as_array);
    let pastes: Vec<_> = pastes.into_iter().flatten().filter_map(range).collect();
    let entry = Fragment::with_pastes(text, &pastes);
    (!entry.is_blank()).then_some(entry)
}

fn range(pair: &Value) -> Option<Range<usize>> {
    let offset = |at| usize::try_from(pair.get(at)?.as_u64()?).ok();
    let range = offset(0)?..offset(1)?;
    (range.start < range.end).then_some(range)
}

#[cfg(test)]
#[path = "history_tests.rs"]
mod tests;
