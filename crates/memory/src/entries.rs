//! The entries of the two files of notes.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

/// The line between two notes.
pub(crate) const SEPARATOR: &str = "§";

/// What is written between two notes.
const JOINT: &str = "\n§\n";

/// The notes of one file, in order. None is empty, and none has a line that
/// would separate it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Entries(Vec<String>);

impl Entries {
    /// Reads the text of a file. Whatever it is, it has notes: a file without
    /// separators is one.
    pub fn parse(text: &str) -> Self {
        let mut entries = Vec::new();
        let mut lines: Vec<&str> = Vec::new();
        let mut end = |lines: &mut Vec<&str>| {
            let entry = lines.join("\n");
            // Ends of lines alone: blanks at the beginning may mean something.
            let entry = entry.trim_matches('\n').trim_end();
            if !entry.trim().is_empty() {
                entries.push(entry.to_owned());
            }
            lines.clear();
        };
        for line in text.trim_start_matches('\u{feff}').lines() {
            if is_separator(line) {
                end(&mut lines);
            } else {
                lines.push(line.trim_end());
            }
        }
        end(&mut lines);
        Self(entries)
    }

    /// Returns the text of the file.
    pub(crate) fn to_text(&self) -> String {
        let mut text = self.0.join(JOINT);
        if !text.is_empty() {
            text.push('\n');
        }
        text
    }

    /// Returns how many characters they have, separators included: the number
    /// that limits are about.
    pub fn characters(&self) -> usize {
        let joints = self.0.len().saturating_sub(1) * JOINT.chars().count();
        self.0.iter().map(|entry| entry.chars().count()).sum::<usize>() + joints
    }

    /// Returns each note.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// Returns how many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Reports whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the first of them that fit within so many characters.
    pub(crate) fn within(&self, limit: usize) -> Self {
        let mut kept = Self::default();
        for entry in &self.0 {
            kept.0.push(entry.clone());
            if kept.characters() > limit {
                kept.0.pop();
                break;
            }
        }
        kept
    }

    pub(crate) fn contains(&self, entry: &str) -> bool {
        self.0.iter().any(|own| own == entry)
    }

    pub(crate) fn push(&mut self, entry: String) {
        self.0.push(entry);
    }

    pub(crate) fn replace(&mut self, at: usize, entry: String) {
        if let Some(own) = self.0.get_mut(at) {
            *own = entry;
        }
    }

    pub(crate) fn remove(&mut self, at: usize) {
        if at < self.0.len() {
            self.0.remove(at);
        }
    }
}

/// Reports whether a line stands between two notes.
pub(crate) fn is_separator(line: &str) -> bool {
    line.trim() == SEPARATOR
}

/// Returns a text without what a person cannot see in it: control characters,
/// marks that turn the order of reading, and letters that have no shape, in all
/// of which instructions can hide. Ends of lines are one kind only.
pub fn clean(text: &str) -> String {
    let text = text.replace("\r\n", "\n").replace(['\r', '\u{2028}', '\u{2029}', '\u{85}'], "\n");
    let mut before = '\n';
    let mut kept = String::with_capacity(text.len());
    for letter in text.chars() {
        if is_hidden(letter) || (is_combining(letter) && is_in_a_row(letter, before)) {
            continue;
        }
        kept.push(if letter == '\t' { ' ' } else { letter });
        before = letter;
    }
    let lines: Vec<&str> = kept.trim().lines().map(str::trim_end).collect();
    lines.join("\n")
}

/// Reports whether a letter has a meaning beside another only: it joins two, or
/// says whether the one before it is a sign or a picture.
fn is_combining(letter: char) -> bool {
    is_joiner(letter) || is_style(letter)
}

/// Reports whether a letter that combines with its neighbours has none. In a row of them a
/// text can hide; a picture may be joined to another after its style.
fn is_in_a_row(letter: char, before: char) -> bool {
    before == '\n' || is_joiner(before) || (is_style(letter) && is_style(before))
}

fn is_joiner(letter: char) -> bool {
    matches!(letter, '\u{200c}' | '\u{200d}')
}

fn is_style(letter: char) -> bool {
    matches!(letter, '\u{fe0e}' | '\u{fe0f}')
}

/// Reports whether a letter is not seen. Joiners stay: scripts and pictures are
/// written with them, one at a time.
fn is_hidden(letter: char) -> bool {
    match letter {
        '\n' | '\t' => false,
        // Letters without a shape, ...
        '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}' | '\u{2060}'..='\u{2065}' | '\u{2800}' | '\u{3164}'
        | '\u{fe00}'..='\u{fe0d}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
        | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}'
        // ... and marks that turn the order of reading.
        | '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{206f}' => true,
        other => other.is_control(),
    }
}

/// What notes are about, which decides the file they are in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NotesTarget {
    /// The agent's own: `MEMORY.md`.
    Memory,
    /// The person it works for: `USER.md`.
    User,
}

/// A word that stands for no notes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("notes are of `memory` or of `user`, not of {word:?}")]
pub struct UnknownTarget {
    /// The word.
    pub word: String,
}

impl NotesTarget {
    /// All of them, in the order they are shown in.
    pub const ALL: [Self; 2] = [Self::Memory, Self::User];

    /// Returns the word for it, which is a public name.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::User => "user",
        }
    }

    /// Returns the name of its file.
    pub const fn file_name(self) -> &'static str {
        match self {
            Self::Memory => "MEMORY.md",
            Self::User => "USER.md",
        }
    }
}

impl FromStr for NotesTarget {
    type Err = UnknownTarget;

    fn from_str(word: &str) -> Result<Self, UnknownTarget> {
        let found = Self::ALL.into_iter().find(|target| {
            word.eq_ignore_ascii_case(target.word())
                || word.eq_ignore_ascii_case(target.file_name())
        });
        found.ok_or_else(|| UnknownTarget { word: word.chars().take(60).collect() })
    }
}

impl fmt::Display for NotesTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

#[cfg(test)]
#[path = "entries_tests.rs"]
mod tests;
