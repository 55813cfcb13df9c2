//! Words as people write paths: blanks belong to a word after a backslash and
//! within quotes. Quotes count only at the beginning of a word, because prose has
//! apostrophes.

use std::ops::Range;

/// A word in which a path may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Word {
    /// Where the path is written, with its quotes, and without the `@` before it.
    pub(super) range: Range<usize>,
    /// Whether an `@` is before it.
    pub(super) is_mention: bool,
    /// The quote with which it begins.
    pub(super) quote: Option<char>,
    /// Whether that quote is closed.
    pub(super) is_closed: bool,
    /// The path, without quotes and backslashes.
    pub(super) path: String,
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
pub(super) fn words(text: &str) -> impl Iterator<Item = Word> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at + text.get(at..)?.find(|c: char| !c.is_whitespace())?;
        let mut word = read(text, start, Quotes::Count);
        if word.quote.is_some() && !word.is_closed {
            // A quote that nobody closes is an apostrophe.
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
pub(super) fn at_cursor(text: &str, cursor: usize) -> Vec<Word> {
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
fn read(text: &str, start: usize, quotes: Quotes) -> Word {
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
            // Within quotes lines end too: nobody means the rest of the text.
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
        // In double quotes a backslash stands for itself before most.
        if quote.is_some() && next.is_some_and(|next| !"\\\"".contains(next)) {
            path.push('\\');
        }
        path.extend(next);
    }
    Word { range: start..start + end, is_mention, quote, is_closed, path }
}

#[cfg(test)]
#[path = "word_tests.rs"]
mod tests;
