//! The notes of one file.

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
    pub(crate) fn parse(text: &str) -> Self {
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

#[cfg(test)]
#[path = "entries_tests.rs"]
mod tests;
