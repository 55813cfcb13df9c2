//! Finds the text a model means in a file, also when it did not repeat it to
//! the letter: the strictest reading first, and never a guess between several.

mod nearest;
mod normalize;

use std::borrow::Cow;
use std::ops::Range;

use serde::Serialize;
use vestal_diff::DiffOp;

use crate::tools::files::{TextChange, TextLines, pieces};
use normalize::{FoldedText, collapse, unescape};

pub(in crate::tools) use nearest::Region;

pub(super) use normalize::{Indents, typography};

/// Largest text that is searched for anything but the very words.
const FUZZY_MAX: usize = 2 << 20;

/// How a text was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::tools) enum Strategy {
    /// To the letter.
    Exact,
    /// Indented differently as a whole.
    Indentation,
    /// With other blanks at the ends of lines.
    LineTrimmed,
    /// With other blanks anywhere.
    Whitespace,
    /// With escapes such as `\n` written out.
    Escapes,
    /// With other quotes and dashes.
    Typography,
    /// By its first and last line, what is between them being similar.
    BlockAnchor,
}

/// How many places are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::tools) enum Occurrences {
    One,
    All,
}

/// What to do to the text.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::tools) struct TextReplacement {
    pub(in crate::tools) strategy: Strategy,
    /// In order, never empty.
    pub(in crate::tools) changes: Vec<TextChange>,
}

/// Why nothing can be done.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::tools) enum Mismatch {
    /// There is nothing to look for.
    Empty,
    /// The new text says what the file says already.
    Same,
    /// It is nowhere.
    Missing {
        /// The place that is most like it.
        closest: Option<Region>,
        /// Line, from 1, in which the new text is already.
        done_at: Option<usize>,
    },
    /// It is in several places.
    Ambiguous {
        /// How many.
        count: usize,
        /// Their lines, from 1; the first few.
        lines: Vec<usize>,
    },
}

/// How many places of an ambiguous text are named, and counted.
const NAMED: usize = 10;
const COUNTED: usize = 1_000;

/// Fewest bytes of a new text that are not in a file by chance.
const MIN_UNIQUE_LENGTH: usize = 10;

/// Finds `old` in `text` and puts `new` in its place.
pub(in crate::tools) fn replace(
    text: &str,
    old: &str,
    new: &str,
    occurrences: Occurrences,
) -> Result<TextReplacement, Mismatch> {
    if old.is_empty() {
        return Err(Mismatch::Empty);
    }
    if old == new {
        return Err(Mismatch::Same);
    }
    let search = TextSearch { text, lines: TextLines::new(text), occurrences };
    for (strategy, find) in STRATEGIES {
        let fuzzy = *strategy != Strategy::Exact;
        if fuzzy && (text.len() > FUZZY_MAX || old.len() > FUZZY_MAX || old.trim().is_empty()) {
            break;
        }
        let changes = find(&search, old, new);
        if changes.is_empty() {
            continue;
        }
        if changes.len() > 1
            && (occurrences == Occurrences::One || *strategy == Strategy::BlockAnchor)
        {
            let lines = changes.iter().take(NAMED);
            let lines = lines.map(|change| search.lines.at(change.range.start) + 1).collect();
            return Err(Mismatch::Ambiguous { count: changes.len(), lines });
        }
        return Ok(TextReplacement { strategy: *strategy, changes });
    }
    let done = (new.trim().len() >= MIN_UNIQUE_LENGTH).then(|| text.find(new)).flatten();
    let done_at = done.map(|at| search.lines.at(at) + 1);
    let closest = (text.len() <= FUZZY_MAX).then(|| nearest::region(&search.lines, old)).flatten();
    Err(Mismatch::Missing { closest, done_at })
}

/// Says which changes the text needs; none where the old one is not found.
type Find = fn(&TextSearch<'_>, &str, &str) -> Vec<TextChange>;

/// The ways to find a text, the strictest first, so that a loose one never
/// takes a place that a strict one would have told from others.
const STRATEGIES: &[(Strategy, Find)] = &[
    (Strategy::Exact, |search, old, new| search.exact(old, new)),
    (Strategy::Indentation, |search, old, new| search.indentation(old, new)),
    (Strategy::LineTrimmed, |search, old, new| search.line_trimmed(old, new)),
    (Strategy::Whitespace, |search, old, new| search.whitespace(old, new)),
    (Strategy::Escapes, |search, old, new| search.escapes(old, new)),
    (Strategy::Typography, |search, old, new| search.typography(old, new)),
    (Strategy::BlockAnchor, |search, old, new| search.block_anchor(old, new)),
];

struct TextSearch<'a> {
    text: &'a str,
    lines: TextLines<'a>,
    occurrences: Occurrences,
}

impl TextSearch<'_> {
    fn exact(&self, old: &str, new: &str) -> Vec<TextChange> {
        let mut free_from = 0;
        let mut change = |at: usize| {
            let start = at - normalize::surplus(&self.text[..at], old, new);
            // Blanks that the place before has taken are not there to be taken again.
            let start = if start < free_from { at } else { start };
            free_from = at + old.len();
            TextChange { range: start..free_from, text: new.to_owned() }
        };
        match self.occurrences {
            Occurrences::All => self.text.match_indices(old).map(|(at, _)| change(at)).collect(),
            // A text that overlaps itself is in two places as well.
            Occurrences::One => {
                let after = |at: usize| self.text[at..].find(old).map(|found| at + found);
                let step = old.chars().next().map_or(1, char::len_utf8);
                let spots = std::iter::successors(after(0), |at| after(at + step));
                spots.take(COUNTED).map(change).collect()
            }
        }
    }

    fn indentation(&self, old: &str, new: &str) -> Vec<TextChange> {
        let wanted = pieces(old);
        let windows = Windows::by(&self.lines, &wanted, |line| line.trim().into());
        let shape = normalize::without_common(&wanted);
        let same = |start: &usize| {
            let found = self.lines.slice(*start..*start + wanted.len());
            normalize::without_common(&found) == shape
        };
        let starts = windows.starts().filter(same).collect();
        self.in_windows(starts, old, new)
    }

    fn line_trimmed(&self, old: &str, new: &str) -> Vec<TextChange> {
        let windows = Windows::by(&self.lines, &pieces(old), |line| line.trim().into());
        self.in_windows(windows.starts().collect(), old, new)
    }

    fn whitespace(&self, old: &str, new: &str) -> Vec<TextChange> {
        let windows = Windows::by(&self.lines, &pieces(old), |line| collapse(line).into());
        let found = self.in_windows(windows.starts().collect(), old, new);
        if !found.is_empty() {
            return found;
        }
        in_folded(&FoldedText::blanks(self.text), FoldedText::blanks(old.trim()).text(), old, new)
    }

    fn escapes(&self, old: &str, new: &str) -> Vec<TextChange> {
        let plain = unescape(old);
        if plain == old || plain.trim().is_empty() {
            return Vec::new();
        }
        let new = unescape(new);
        [Self::exact, Self::indentation, Self::line_trimmed]
            .into_iter()
            .map(|find| find(self, &plain, &new))
            .find(|changes| !changes.is_empty())
            .unwrap_or_default()
    }

    fn typography(&self, old: &str, new: &str) -> Vec<TextChange> {
        let windows = Windows::by(&self.lines, &pieces(old), |line| typography(line.trim()));
        let found = self.in_windows(windows.starts().collect(), old, new);
        if !found.is_empty() {
            return found;
        }
        in_folded(&FoldedText::typography(self.text), &typography(old.trim()), old, new)
    }

    fn block_anchor(&self, old: &str, new: &str) -> Vec<TextChange> {
        self.in_windows(nearest::block_starts(&self.lines, &pieces(old)), old, new)
    }

    /// Changes whole lines: those that the model leaves alone stay as the file
    /// has them, the others are indented as the file is.
    fn in_windows(&self, starts: Vec<usize>, old: &str, new: &str) -> Vec<TextChange> {
        let (wanted, given) = (pieces(old), pieces(new));
        let ended = old.ends_with('\n');
        let mut changes: Vec<TextChange> = Vec::new();
        for start in starts {
            let after = start + wanted.len();
            let found = self.lines.slice(start..after);
            let mut text = transfer(&found, &wanted, &given).join("\n");
            let mut range = self.lines.start(start)..self.lines.end(after - 1);
            if ended {
                range.end = self.lines.start(after);
                if !given.is_empty() && (after < self.lines.len() || self.lines.is_ended()) {
                    text.push('\n');
                }
            } else if new.ends_with('\n') {
                text.push('\n');
            }
            // Where all places are meant, those that overlap cannot be.
            let is_free = changes.last().is_none_or(|last| last.range.end <= range.start);
            if is_free || self.occurrences == Occurrences::One {
                changes.push(TextChange { range, text });
            }
        }
        changes
    }
}

/// Changes pieces of lines. Blanks around the old text are not looked for,
/// so the same ones around the new text are not put in.
fn in_folded(folded: &FoldedText, wanted: &str, old: &str, new: &str) -> Vec<TextChange> {
    if wanted.is_empty() {
        return Vec::new();
    }
    let head = &old[..old.len() - old.trim_start().len()];
    let tail = &old[old.trim_end().len()..];
    let new = new.strip_prefix(head).unwrap_or(new);
    let new = new.strip_suffix(tail).unwrap_or(new);
    let ranges: Vec<Range<usize>> = folded.find(wanted).collect();
    ranges.into_iter().map(|range| TextChange { range, text: new.to_owned() }).collect()
}

/// The places where a run of lines is found.
pub(super) struct Windows {
    starts: Vec<usize>,
}

impl Windows {
    /// Finds the places where all lines have the same key as the wanted ones.
    pub(super) fn by(
        lines: &TextLines<'_>,
        wanted: &[&str],
        key: impl for<'k> Fn(&'k str) -> Cow<'k, str>,
    ) -> Self {
        let wanted: Vec<Cow<'_, str>> = wanted.iter().map(|line| key(line)).collect();
        // Blank lines are everywhere; what they surround is looked for.
        let Some(first) = wanted.iter().position(|line| !line.is_empty()) else {
            return Self { starts: Vec::new() };
        };
        let fits = |start: usize| {
            key(lines.get(start + first)) == wanted[first]
                && wanted.iter().enumerate().all(|(n, line)| key(lines.get(start + n)) == *line)
        };
        let count = (lines.len() + 1).saturating_sub(wanted.len());
        Self { starts: (0..count).filter(|start| fits(*start)).collect() }
    }

    /// Returns the first line of each place.
    pub(super) fn starts(&self) -> impl Iterator<Item = usize> {
        self.starts.iter().copied()
    }
}

/// Returns the lines to put in the place of `found`. Lines that the model
/// repeats are left as the file has them, down to the last blank.
pub(super) fn transfer(found: &[&str], old: &[&str], new: &[&str]) -> Vec<String> {
    let indents = Indents::towards(old, found, new);
    let mut lines = Vec::with_capacity(new.len());
    for op in vestal_diff::diff(old, new, None) {
        match op {
            DiffOp::Equal { old_index, len, .. } => {
                let kept = found[old_index..old_index + len].iter();
                lines.extend(kept.map(|line| (*line).to_owned()));
            }
            DiffOp::Delete { .. } => {}
            DiffOp::Insert { new_index, new_len, .. }
            | DiffOp::Replace { new_index, new_len, .. } => {
                let given = new[new_index..new_index + new_len].iter();
                lines.extend(given.map(|line| indents.apply(line)));
            }
        }
    }
    lines
}

#[cfg(test)]
#[path = "find_tests.rs"]
mod tests;
