//! Paths that somebody speaks of.

use std::ffi::OsString;
use std::ops::Range;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use super::word::words;

/// What ends a sentence rather than a path.
const CLOSING: [char; 11] = ['.', ',', ';', ':', '!', '?', ')', ']', '}', '>', '…'];

/// Returns the paths that are mentioned with an `@` before them (`@src/main.rs`,
/// `@"my file.png"`, `@my\ file.png`, `@~/notes`), with where each is written, the
/// `@` included. Whether there is such a file is for the caller to see.
pub fn mentioned_paths(text: &str) -> Vec<(Range<usize>, PathBuf)> {
    let home = std::env::home_dir();
    words(text).filter_map(|word| mention(text, &word, home.as_deref())).collect()
}

fn mention(
    text: &str,
    word: &super::word::Word,
    home: Option<&Path>,
) -> Option<(Range<usize>, PathBuf)> {
    if !word.is_mention {
        return None;
    }
    let mut end = word.range.end;
    let mut path = word.path.as_str();
    if !word.is_closed {
        // A closing mark is a byte of the text for each of the path, unless it is
        // written with a backslash: then somebody meant it.
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
pub(super) fn expand(path: &str, home: Option<&Path>) -> PathBuf {
    match (path.strip_prefix('~'), home) {
        (Some(""), Some(home)) => home.to_owned(),
        (Some(rest), Some(home)) if rest.starts_with('/') => {
            home.join(rest.trim_start_matches('/'))
        }
        _ => PathBuf::from(path),
    }
}

/// Returns what an address says with `%20` and the like.
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

#[cfg(test)]
#[path = "mentions_tests.rs"]
mod tests;
