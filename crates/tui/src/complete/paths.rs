//! Completion of paths.

use std::fs;
use std::path::{Path, PathBuf};

use super::mentions::expand;
use super::word::{Word, at_cursor};
use super::{Completer, Completion};

/// So many are offered at most.
const MOST_OFFERED: usize = 200;

/// So many entries of a directory are looked at, so that Tab answers at once in one
/// with a million files.
const MOST_READ: usize = 20_000;

/// Completes `@path`, and words with a `/` in them, from the files of this machine.
#[derive(Debug, Clone)]
pub struct Paths {
    base: PathBuf,
    home: Option<PathBuf>,
}

impl Paths {
    /// Returns one for which paths begin in `base`, and `~` is `home`.
    pub fn new(base: impl Into<PathBuf>, home: Option<PathBuf>) -> Self {
        Self { base: base.into(), home }
    }

    /// Returns one for the directory and the home of this process.
    pub fn here() -> Self {
        Self::new(".", std::env::home_dir())
    }

    /// Returns the completions of one word.
    fn of(&self, word: &Word, is_last: bool) -> Vec<Completion> {
        if !word.is_mention && !word.path.contains('/') {
            return Vec::new();
        }
        // Only a home can follow: `~` names no file.
        let typed = if word.path == "~" { "~/" } else { word.path.as_str() };
        let (dir, name) = typed
            .rsplit_once('/')
            .map_or(("", typed), |(dir, name)| (typed.get(..=dir.len()).unwrap_or_default(), name));
        let within = self.base.join(expand(dir, self.home.as_deref()));
        let mut found = named(&within, |found| found.starts_with(name), name);
        if found.is_empty() {
            let name = name.to_lowercase();
            found = named(&within, |found| found.to_lowercase().starts_with(&name), &name);
        }
        found.sort_by(|a, b| a.name.cmp(&b.name));
        found.truncate(MOST_OFFERED);
        found
            .into_iter()
            .map(|entry| {
                let is_dir = entry.is_dir(&within);
                let path = format!("{dir}{}{}", entry.name, if is_dir { "/" } else { "" });
                Completion {
                    replaces: word.range.clone(),
                    text: written(&path, word.quote, is_dir, is_last),
                    label: format!("{}{}", entry.name, if is_dir { "/" } else { "" }),
                    about: String::new(),
                }
            })
            .collect()
    }
}

impl Completer for Paths {
    fn complete(&self, text: &str, cursor: usize) -> Vec<Completion> {
        let after = text.get(cursor..).unwrap_or_default();
        let is_last = !after.starts_with(char::is_whitespace);
        let words = at_cursor(text, cursor);
        let completions = words.iter().map(|word| self.of(word, is_last));
        completions.into_iter().find(|found| !found.is_empty()).unwrap_or_default()
    }
}

struct Entry {
    name: String,
    kind: Option<fs::FileType>,
}

impl Entry {
    fn is_dir(&self, within: &Path) -> bool {
        match self.kind {
            Some(kind) if !kind.is_symlink() => kind.is_dir(),
            // Where a link leads is looked up only for what is offered.
            _ => within.join(&self.name).is_dir(),
        }
    }
}

/// Returns the entries of a directory with a name; hidden ones only for somebody
/// who has written the dot.
fn named(within: &Path, fits: impl Fn(&str) -> bool, name: &str) -> Vec<Entry> {
    let Ok(entries) = fs::read_dir(within) else { return Vec::new() };
    entries
        .take(MOST_READ)
        .filter_map(|entry| {
            let entry = entry.ok()?;
            // What is no text cannot be written into one.
            let found = entry.file_name().into_string().ok()?;
            let is_hidden = found.starts_with('.') && !name.starts_with('.');
            let is_offered = !is_hidden && !found.contains(char::is_control) && fits(&found);
            is_offered.then(|| Entry { name: found, kind: entry.file_type().ok() })
        })
        .collect()
}

/// Returns a path as it is written into a text.
fn written(path: &str, quote: Option<char>, is_dir: bool, is_last: bool) -> String {
    let blank = if is_last { " " } else { "" };
    let mut text = String::with_capacity(path.len() + 3);
    text.extend(quote);
    for c in path.chars() {
        let needs_backslash = match quote {
            // Nothing can be written before it that would help.
            Some('\'') => false,
            Some(_) => matches!(c, '"' | '\\'),
            None => c.is_whitespace() || matches!(c, '"' | '\'' | '\\'),
        };
        if needs_backslash {
            text.push('\\');
        }
        text.push(c);
    }
    // A directory goes on.
    if !is_dir {
        text.extend(quote);
        text.push_str(blank);
    }
    text
}

#[cfg(test)]
#[path = "paths_tests.rs"]
mod tests;
