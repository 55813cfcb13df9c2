//! The place in a file that is most like a text that is not in it.

use std::collections::HashSet;

use crate::tools::files::{Lines, pieces};

/// Lines of a file, from which one on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::tools) struct Region {
    /// Number of the first line, from 1.
    pub(in crate::tools) first: usize,
    /// The lines.
    pub(in crate::tools) lines: Vec<String>,
}

/// Most lines that are shown.
const SHOWN: usize = 30;

/// Lines shown before and after.
const AROUND: usize = 2;

/// Most characters of a line that are compared.
const COMPARED: usize = 120;

/// Most lines that are compared by their characters.
const COMPARED_LINES: usize = 5_000;

/// How alike lines must be to be worth showing.
const ALIKE: f64 = 0.4;

/// Returns the place that is most like `wanted`, with a little around it.
pub(super) fn region(lines: &Lines<'_>, wanted: &str) -> Option<Region> {
    let wanted = pieces(wanted);
    let start = by_same_lines(lines, &wanted).or_else(|| by_likeness(lines, &wanted))?;
    let first = start.saturating_sub(AROUND);
    let after = (start + wanted.len() + AROUND).min(lines.len()).min(first + SHOWN);
    let shown = lines.slice(first..after).into_iter().map(str::to_owned).collect();
    Some(Region { first: first + 1, lines: shown })
}

/// Returns where the run of lines starts that has most of the wanted ones.
fn by_same_lines(lines: &Lines<'_>, wanted: &[&str]) -> Option<usize> {
    // Lines of a brace or less say nothing about the place.
    let telling = |line: &&str| line.chars().filter(|c| c.is_alphanumeric()).count() > 2;
    let known: HashSet<&str> = wanted.iter().map(|line| line.trim()).filter(telling).collect();
    let hits: Vec<bool> =
        (0..lines.len()).map(|line| known.contains(lines.get(line).trim())).collect();
    let mut inside = 0_usize;
    let mut best: Option<(usize, usize)> = None;
    for end in 0..hits.len() {
        inside += usize::from(hits[end]);
        if let Some(left) = end.checked_sub(wanted.len()) {
            inside -= usize::from(hits[left]);
        }
        let start = (end + 1).saturating_sub(wanted.len());
        if inside > 0 && best.is_none_or(|(most, _)| inside > most) {
            best = Some((inside, start));
        }
    }
    best.map(|(_, start)| start)
}

/// Returns where the block would start if its longest line were the one most
/// like it.
fn by_likeness(lines: &Lines<'_>, wanted: &[&str]) -> Option<usize> {
    let cut = |line: &str| line.trim().chars().take(COMPARED).collect::<String>();
    let (offset, longest) = wanted.iter().enumerate().max_by_key(|(_, line)| line.trim().len())?;
    let longest = cut(longest);
    let likeness = |line: usize| strsim::normalized_levenshtein(&longest, &cut(lines.get(line)));
    let (line, alike) = (0..lines.len().min(COMPARED_LINES))
        .map(|line| (line, likeness(line)))
        .max_by(|(_, a), (_, b)| a.total_cmp(b))?;
    (alike >= ALIKE).then(|| line.saturating_sub(offset))
}
