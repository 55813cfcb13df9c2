//! Completion of what is being typed: words, `@` mentions and paths.

use std::ffi::OsString;
use std::fs;
use std::ops::Range;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use crate::matching::{MatchRank, match_rank};

/// Knows how a text can continue.
pub trait Completer {
    /// Returns what can be written at the cursor, the best first. Offsets are bytes
    /// of `text`.
    fn complete(&self, text: &str, cursor: usize) -> Vec<Suggestion>;
}

/// Something that can be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suggestion {
    /// What it is written in the place of.
    pub replaces: Range<usize>,
    /// What is written, with the blank behind it when the word is complete.
    pub text: String,
    /// How it is listed.
    pub label: String,
    /// What it is, in a few words.
    pub about: String,
}

/// A word in which a path may be.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PathWord {
    /// Where the path is written, with its quotes, and without the `@` before it.
    range: Range<usize>,
    /// Whether an `@` is before it.
    is_mention: bool,
    /// The quote with which it begins.
    quote: Option<char>,
    /// Whether that quote is closed.
    is_closed: bool,
    /// The path, without quotes and backslashes.
    path: String,
}

/// What a quote at the beginning of a word is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quotes {
    /// The beginning of something quoted.
    Count,
    /// A character like others.
    Ignored,
}

/// What may be before a word that belongs to the prose around it.
const OPENING: [char; 4] = ['(', '[', '{', '<'];

/// Returns the words of a text.
fn words(text: &str) -> impl Iterator<Item = PathWord> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at + text.get(at..)?.find(|c: char| !c.is_whitespace())?;
        let mut word = read(text, start, Quotes::Count);
        if word.quote.is_some() && !word.is_closed {
            // An unclosed quote is an apostrophe.
            word = read(text, start, Quotes::Ignored);
        }
        // What follows a closing quote directly belongs to no path.
        let rest = text.get(word.range.end..).unwrap_or_default();
        at = word.range.end + rest.find(char::is_whitespace).unwrap_or(rest.len());
        Some(word)
    })
}

/// Returns the words at whose end the cursor may be, the likeliest first: in
/// `it's "my file` it may be a path with a blank or one that begins with `file`.
fn at_cursor(text: &str, cursor: usize) -> Vec<PathWord> {
    let Some(before) = text.get(..cursor) else { return Vec::new() };
    let mut at = before.rfind('\n').map_or(0, |end| end + 1);
    let mut found = Vec::new();
    while let Some(blanks) =
        before.get(at..).and_then(|rest| rest.find(|c: char| !c.is_whitespace()))
    {
        let start = at + blanks;
        let mut word = read(before, start, Quotes::Count);
        if word.quote.is_some() && !word.is_closed {
            let plain = read(before, start, Quotes::Ignored);
            found.push(std::mem::replace(&mut word, plain));
        }
        at = word.range.end;
        if at == before.len() && !word.is_closed {
            found.push(word);
        }
    }
    found
}

/// Returns the word that begins at `start`, where no blank is.
fn read(text: &str, start: usize, quotes: Quotes) -> PathWord {
    let whole = text.get(start..).unwrap_or_default();
    let rest = whole.trim_start_matches(OPENING);
    let (rest, is_mention) = rest.strip_prefix('@').map_or((rest, false), |rest| (rest, true));
    let start = start + whole.len() - rest.len();
    let quote = rest.chars().next().filter(|c| matches!(c, '"' | '\''));
    let quote = quote.filter(|_| quotes == Quotes::Count);
    let mut path = String::new();
    let mut chars = rest.char_indices().skip(usize::from(quote.is_some()));
    let mut end = rest.len();
    let mut is_closed = false;
    while let Some((offset, c)) = chars.next() {
        let ends = match quote {
            // A quote ends at the end of the line.
            Some(open) => c == open || c == '\n',
            None => c.is_whitespace(),
        };
        if ends {
            is_closed = quote == Some(c);
            end = offset + usize::from(is_closed);
            break;
        }
        if c != '\\' || quote == Some('\'') {
            path.push(c);
            continue;
        }
        let next = chars.next().map(|(_, c)| c);
        // In double quotes, a backslash escapes only some characters.
        if quote.is_some() && next.is_some_and(|next| !"\\\"".contains(next)) {
            path.push('\\');
        }
        path.extend(next);
    }
    PathWord { range: start..start + end, is_mention, quote, is_closed, path }
}

/// What ends a sentence rather than a path.
const CLOSING: [char; 11] = ['.', ',', ';', ':', '!', '?', ')', ']', '}', '>', '…'];

/// Returns the paths that are mentioned with an `@` before them (`@src/main.rs`,
/// `@"my file.png"`, `@my\ file.png`, `@~/notes`), with where each is written, the
/// `@` included. Whether there is such a file is for the caller to see.
pub fn mentioned_paths(text: &str) -> Vec<(Range<usize>, PathBuf)> {
    let home = std::env::home_dir();
    words(text).filter_map(|word| mention(text, &word, home.as_deref())).collect()
}

fn mention(text: &str, word: &PathWord, home: Option<&Path>) -> Option<(Range<usize>, PathBuf)> {
    if !word.is_mention {
        return None;
    }
    let mut end = word.range.end;
    let mut path = word.path.as_str();
    if !word.is_closed {
        // A closing mark is one byte in both text and path, unless it is escaped: then it
        // belongs to the path.
        let written = text.get(word.range.clone())?;
        let kept = written.trim_end_matches(CLOSING);
        if !kept.ends_with('\\') {
            end = word.range.start + kept.len();
            let cut = written.len() - kept.len();
            path = path.get(..path.len().checked_sub(cut)?)?;
        }
    }
    if path.is_empty() {
        return None;
    }
    Some((word.range.start - 1..end, expand(path, home)))
}

/// Returns the path when a paste is one, as terminals paste what is dragged into
/// them: quoted, with backslashes, or as a `file:` address.
pub fn pasted_path(text: &str) -> Option<PathBuf> {
    let text = text.trim();
    if text.is_empty() || text.contains('\n') {
        return None;
    }
    if let Some(address) = text.strip_prefix("file://") {
        let path = address.strip_prefix("localhost").unwrap_or(address);
        return path.starts_with('/').then(|| decoded(path));
    }
    let mut found = words(text);
    let word = found.next()?;
    if found.next().is_some() || word.is_mention {
        // Some terminals paste a path with blanks as it is.
        return text.starts_with('/').then(|| PathBuf::from(text));
    }
    let is_path = word.path.starts_with('/') || word.path.starts_with("~/");
    is_path.then(|| expand(&word.path, std::env::home_dir().as_deref()))
}

/// Returns a path with `~` expanded.
fn expand(path: &str, home: Option<&Path>) -> PathBuf {
    match (path.strip_prefix('~'), home) {
        (Some(""), Some(home)) => home.to_owned(),
        (Some(rest), Some(home)) if rest.starts_with('/') => {
            home.join(rest.trim_start_matches('/'))
        }
        _ => PathBuf::from(path),
    }
}

/// Decodes percent-encoding in an address.
fn decoded(address: &str) -> PathBuf {
    let mut bytes = Vec::with_capacity(address.len());
    let mut rest = address.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let hex = after.get(..2).filter(|_| first == b'%');
        let byte = hex.and_then(|hex| std::str::from_utf8(hex).ok());
        match byte.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = after.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    OsString::from_vec(bytes).into()
}

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
    fn of(&self, word: &PathWord, is_last: bool) -> Vec<Suggestion> {
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
                Suggestion {
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
    fn complete(&self, text: &str, cursor: usize) -> Vec<Suggestion> {
        let after = text.get(cursor..).unwrap_or_default();
        let is_last = !after.starts_with(char::is_whitespace);
        let words = at_cursor(text, cursor);
        let completions = words.iter().map(|word| self.of(word, is_last));
        completions.into_iter().find(|found| !found.is_empty()).unwrap_or_default()
    }
}

/// A mention (`@path`) that is being written at the cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mention {
    /// Where it begins, the `@` included.
    pub start: usize,
    /// The path so far, without quotes and backslashes.
    pub path: String,
}

/// Returns the mention at whose end the cursor is; none after the blank or the quote that ends it.
pub fn mention_at(text: &str, cursor: usize) -> Option<Mention> {
    let word = at_cursor(text, cursor).into_iter().find(|word| word.is_mention)?;
    Some(Mention { start: word.range.start - 1, path: word.path })
}

/// Returns the paths that fit the mention at the cursor wherever in them the typed letters are,
/// the best first. Spread letters count from the third one on.
pub fn mention_suggestions<'a>(
    text: &str,
    cursor: usize,
    paths: impl IntoIterator<Item = &'a str>,
) -> Vec<Suggestion> {
    let Some(word) = at_cursor(text, cursor).into_iter().find(|word| word.is_mention) else {
        return Vec::new();
    };
    let after = text.get(cursor..).unwrap_or_default();
    let is_last = !after.starts_with(char::is_whitespace);
    let may_be_spread = word.path.chars().count() > 2;
    let ranked = paths.into_iter().filter_map(|path| {
        let rank = match_rank(&word.path, path)?;
        (may_be_spread || !rank.is_spread()).then_some((rank, path))
    });
    let mut ranked: Vec<(MatchRank, &str)> = ranked.collect();
    ranked.sort_unstable();
    ranked.truncate(MOST_OFFERED);
    let suggestion = |(_, path): (MatchRank, &str)| Suggestion {
        replaces: word.range.clone(),
        text: written(path, word.quote, path.ends_with('/'), is_last),
        label: path.to_owned(),
        about: String::new(),
    };
    ranked.into_iter().map(suggestion).collect()
}

struct PathEntry {
    name: String,
    kind: Option<fs::FileType>,
}

impl PathEntry {
    fn is_dir(&self, within: &Path) -> bool {
        match self.kind {
            Some(kind) if !kind.is_symlink() => kind.is_dir(),
            // Where a link leads is looked up only for what is offered.
            _ => within.join(&self.name).is_dir(),
        }
    }
}

/// Returns the entries of a directory that match; hidden ones only if a dot was typed.
fn named(within: &Path, fits: impl Fn(&str) -> bool, name: &str) -> Vec<PathEntry> {
    let Ok(entries) = fs::read_dir(within) else { return Vec::new() };
    entries
        .take(MOST_READ)
        .filter_map(|entry| {
            let entry = entry.ok()?;
            // What is not text cannot be written into one.
            let found = entry.file_name().into_string().ok()?;
            let is_hidden = found.starts_with('.') && !name.starts_with('.');
            let is_offered = !is_hidden && !found.contains(char::is_control) && fits(&found);
            is_offered.then(|| PathEntry { name: found, kind: entry.file_type().ok() })
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
    // After a directory, the path continues.
    if !is_dir {
        text.extend(quote);
        text.push_str(blank);
    }
    text
}

#[cfg(test)]
#[path = "complete_tests.rs"]
mod tests;
