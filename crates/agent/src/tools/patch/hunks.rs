//! Patches of several files: how they are written, and what they do to a text.

mod parse;

use std::ops::Range;

use super::find::{Indents, typography};
use crate::tools::files::{TextChange, TextLines};

pub(super) use parse::parse;

/// What a patch does to one file, in the order it says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FilePatch {
    /// The file, as the patch names it.
    pub(super) path: String,
    /// What is done to it.
    pub(super) action: FileAction,
}

/// What is done to a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FileAction {
    /// It is made, with this content.
    Add(String),
    /// It is deleted.
    Delete,
    /// It is changed, and may get another name.
    Update {
        /// The new name.
        move_to: Option<String>,
        /// The changes.
        hunks: Vec<Hunk>,
    },
}

/// One place of a file with its changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Hunk {
    /// Lines to pass on the way to the place, such as the class and the function.
    pub(super) anchors: Vec<String>,
    /// Where it was when the patch was made, as a line from 1.
    pub(super) old_start: Option<usize>,
    pub(super) lines: Vec<HunkLine>,
    /// Whether the old lines are the last of the file.
    pub(super) at_end: bool,
    /// Whether the last old line has no end.
    pub(super) old_unended: bool,
    /// Whether the last new line has no end.
    pub(super) new_unended: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum HunkLine {
    /// It is there and stays.
    Kept(String),
    /// It is there and goes.
    Removed(String),
    /// It is new.
    Added(String),
}

impl HunkLine {
    /// Returns the line if the file has it before.
    fn old(&self) -> Option<&str> {
        match self {
            Self::Kept(line) | Self::Removed(line) => Some(line),
            Self::Added(_) => None,
        }
    }
}

impl Hunk {
    /// Returns the lines that the file has before.
    fn old(&self) -> Vec<&str> {
        self.lines.iter().filter_map(HunkLine::old).collect()
    }
}

/// A patch that cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the patch: {problem}")]
pub(super) struct ParseError {
    /// Which line, from 1.
    pub(super) line: usize,
    /// What is wrong with it.
    pub(super) problem: String,
}

/// How exactly lines must be the same, the strictest first.
const LEVELS: [fn(&str, &str) -> bool; 4] = [
    |a, b| a == b,
    |a, b| a.trim_end() == b.trim_end(),
    |a, b| a.trim() == b.trim(),
    |a, b| typography(a.trim()) == typography(b.trim()),
];

/// How many places of an ambiguous hunk are named.
const NAMED: usize = 5;

/// Returns the changes that hunks make to a text, in order; the error says
/// which hunk does not fit and why.
pub(in crate::tools::patch) fn apply(
    text: &str,
    hunks: &[Hunk],
) -> Result<Vec<TextChange>, String> {
    let lines = TextLines::new(text);
    let mut changes: Vec<(Range<usize>, TextChange)> = Vec::new();
    let mut cursor = 0;
    for (index, hunk) in hunks.iter().enumerate() {
        let misfit = |problem| format!("change {} of {}: {problem}", index + 1, hunks.len());
        let place = place(&lines, hunk, cursor).map_err(misfit)?;
        for (taken, change) in edits(&lines, hunk, place.clone()) {
            let meets = |other: &Range<usize>| taken.start < other.end && other.start < taken.end;
            if changes.iter().any(|(other, _)| meets(other)) {
                return Err(misfit("it changes lines that another one changes too".to_owned()));
            }
            changes.push((taken, change));
        }
        cursor = place.end;
    }
    changes.sort_by_key(|(taken, _)| (taken.start, taken.end));
    Ok(changes.into_iter().map(|(_, change)| change).collect())
}

/// Returns the lines that a hunk's old ones are.
fn place(lines: &TextLines<'_>, hunk: &Hunk, cursor: usize) -> Result<Range<usize>, String> {
    let mut from = cursor;
    for anchor in &hunk.anchors {
        from = find_anchor(lines, anchor, from)?;
    }
    let old = hunk.old();
    if old.is_empty() {
        let at = match (hunk.anchors.is_empty(), hunk.old_start) {
            (false, _) => from,
            // Without old lines the number is that of the line before.
            (true, Some(start)) => start.min(lines.len()),
            (true, None) => lines.len(),
        };
        return Ok(at..at);
    }
    for same in LEVELS {
        let found = candidates(lines, &old, same, hunk.at_end);
        let start = match choose(&found, hunk, from) {
            HunkChoice::One(start) => start,
            HunkChoice::None => continue,
            HunkChoice::Many(starts) => return Err(ambiguous(&starts)),
        };
        return Ok(start..start + old.len());
    }
    Err(missing(lines, &old))
}

enum HunkChoice {
    None,
    One(usize),
    Many(Vec<usize>),
}

/// Chooses among the places where the lines are.
fn choose(found: &[usize], hunk: &Hunk, from: usize) -> HunkChoice {
    if let Some(start) = hunk.old_start {
        let wanted = start.saturating_sub(1);
        let nearest = found.iter().min_by_key(|place| place.abs_diff(wanted));
        return nearest.map_or(HunkChoice::None, |place| HunkChoice::One(*place));
    }
    let after: Vec<usize> = found.iter().copied().filter(|place| *place >= from).collect();
    match (&after[..], found) {
        ([one], _) | ([], [one]) => HunkChoice::One(*one),
        ([], []) => HunkChoice::None,
        // Anchors name the place; the first one behind them is meant.
        ([first, ..], _) if !hunk.anchors.is_empty() => HunkChoice::One(*first),
        ([], many) | (many, _) => HunkChoice::Many(many.to_vec()),
    }
}

/// Returns where all of the old lines are, one behind the other.
fn candidates(
    lines: &TextLines<'_>,
    old: &[&str],
    same: fn(&str, &str) -> bool,
    at_end: bool,
) -> Vec<usize> {
    let count = (lines.len() + 1).saturating_sub(old.len());
    let starts = if at_end { count.saturating_sub(1)..count } else { 0..count };
    let fits =
        |start: &usize| old.iter().enumerate().all(|(n, line)| same(lines.get(start + n), line));
    starts.filter(fits).collect()
}

/// Returns the line behind an anchor: behind the cursor if it is there,
/// anywhere else if it is there once.
fn find_anchor(lines: &TextLines<'_>, anchor: &str, from: usize) -> Result<usize, String> {
    let looser: fn(&str, &str) -> bool = |line, anchor| line.trim().starts_with(anchor.trim());
    for same in LEVELS.into_iter().chain([looser]) {
        let all: Vec<usize> =
            (0..lines.len()).filter(|line| same(lines.get(*line), anchor)).collect();
        let after = all.iter().find(|line| **line >= from);
        match (after, &all[..]) {
            (Some(line), _) | (None, [line]) => return Ok(line + 1),
            _ => {}
        }
    }
    Err(format!("no line {anchor:?} to start from"))
}

fn ambiguous(starts: &[usize]) -> String {
    let named: Vec<String> =
        starts.iter().take(NAMED).map(|start| (start + 1).to_string()).collect();
    let more = if starts.len() > NAMED { ", …" } else { "" };
    format!(
        "its lines are in {} places, at lines {}{more}; add more lines around it, or a line `@@ \
         something above it`",
        starts.len(),
        named.join(", ")
    )
}

fn missing(lines: &TextLines<'_>, old: &[&str]) -> String {
    // The first line that is nowhere is what is usually wrong.
    let is_there =
        |wanted: &&&str| (0..lines.len()).any(|line| lines.get(line).trim() == wanted.trim());
    match old.iter().find(|line| !is_there(line)) {
        Some(line) => format!("its lines are not in the file; this one is nowhere in it: {line:?}"),
        None => "its lines are in the file, but not one behind the other".to_owned(),
    }
}

/// Returns the changes of a hunk at its place, and which lines each takes:
/// lines that are kept are not touched at all.
fn edits(
    lines: &TextLines<'_>,
    hunk: &Hunk,
    place: Range<usize>,
) -> Vec<(Range<usize>, TextChange)> {
    let old = hunk.old();
    let found = lines.slice(place.clone());
    let indents = Indents::between(&old, &found);
    let mut edits = Vec::new();
    let mut at = place.start;
    let mut run: Option<(Range<usize>, Vec<String>)> = None;
    for line in &hunk.lines {
        match line {
            HunkLine::Kept(_) => {
                edits.extend(run.take());
                at += 1;
            }
            HunkLine::Removed(_) => {
                run.get_or_insert_with(|| (at..at, Vec::new())).0.end = at + 1;
                at += 1;
            }
            HunkLine::Added(text) => {
                let (_, new) = run.get_or_insert_with(|| (at..at, Vec::new()));
                new.push(indents.apply(text));
            }
        }
    }
    edits.extend(run.take());
    let change = |(taken, new): (Range<usize>, Vec<String>)| {
        let change = change(lines, hunk, &taken, &new);
        (taken, change)
    };
    edits.into_iter().map(change).collect()
}

/// Returns the change that puts lines in the place of others. The last line of
/// the file stays ended, or not, as it was, unless the patch says otherwise.
fn change(lines: &TextLines<'_>, hunk: &Hunk, taken: &Range<usize>, new: &[String]) -> TextChange {
    let mut range = lines.start(taken.start)..lines.start(taken.end);
    let mut text = new.join("\n");
    if !new.is_empty() {
        text.push('\n');
    }
    if taken.end == lines.len() {
        let unended = lines.len() > 0 && !lines.is_ended();
        let ended = match (hunk.old_unended, hunk.new_unended) {
            (_, true) => false,
            (true, false) => true,
            (false, false) => !unended,
        };
        if !ended && text.ends_with('\n') {
            text.pop();
        }
        if taken.is_empty() && unended && !new.is_empty() {
            // New lines behind a last one that has no end.
            range = lines.text().len()..lines.text().len();
            text.insert(0, '\n');
        }
    }
    TextChange { range, text }
}

#[cfg(test)]
#[path = "hunks_tests.rs"]
mod tests;
