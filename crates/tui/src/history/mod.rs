//! What was sent before.

mod entry;
mod file;
mod search;

use std::collections::VecDeque;
use std::io;
use std::path::Path;

use self::file::File;
pub(crate) use self::search::Found;
use crate::editor::Fragment;

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
    trouble: Option<io::Error>,
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
            self.trouble = Some(error);
        }
    }

    /// Returns, once, what was wrong with the file.
    pub(crate) fn trouble(&mut self) -> Option<io::Error> {
        self.trouble.take()
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

#[cfg(test)]
#[path = "history_tests.rs"]
mod tests;
