//! Places in a file that are similar to a text: a block by its first and last
//! line, and the closest region when nothing matches.

use std::collections::HashSet;
use std::time::Duration;

use crate::tools::files::{TextLines, pieces};

/// How much of what is between the anchors must be the same.
const SIMILAR: f32 = 0.7;

/// How much better than any other a block must be.
const MARGIN: f32 = 0.1;

/// Most blocks that are compared.
const COMPARED: usize = 50;

/// Returns the first line of each block of as many lines that starts and ends
/// alike and is similar in between: one, or several that are as good.
pub(super) fn block_starts(lines: &TextLines<'_>, wanted: &[&str]) -> Vec<usize> {
    let [first, middle @ .., last] = wanted else {
        return Vec::new();
    };
    let (first, last) = (first.trim(), last.trim());
    if middle.is_empty() || first.is_empty() || last.is_empty() {
        return Vec::new();
    }
    let middle = trimmed(middle);
    let count = (lines.len() + 1).saturating_sub(wanted.len());
    let mut blocks: Vec<(usize, f32)> = (0..count)
        .filter(|start| lines.get(*start).trim() == first)
        .filter(|start| lines.get(start + wanted.len() - 1).trim() == last)
        .take(COMPARED)
        .map(|start| (start, trimmed(&lines.slice(start + 1..start + wanted.len() - 1))))
        .map(|(start, found)| (start, similarity(&middle, &found)))
        .filter(|(_, similar)| *similar >= SIMILAR)
        .collect();
    blocks.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    let best = blocks.first().map_or(0.0, |(_, similar)| *similar);
    let mut starts: Vec<usize> = blocks
        .into_iter()
        .filter(|(_, similar)| best - similar < MARGIN)
        .map(|(start, _)| start)
        .collect();
    starts.sort_unstable();
    starts
}

fn trimmed(lines: &[&str]) -> String {
    lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join("\n")
}

fn similarity(a: &str, b: &str) -> f32 {
    vestal_diff::likeness(a, b, Duration::from_millis(20))
}

/// Lines of a file, from which one on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::tools) struct Region {
    /// Number of the first line, from 1.
    pub(in crate::tools) first: usize,
    pub(in crate::tools) lines: Vec<String>,
}

/// Most lines that are shown.
const SHOWN: usize = 30;

/// Lines shown before and after.
const AROUND: usize = 2;

/// Most characters of a line that are compared.
const COMPARED_CHARS: usize = 120;

/// Most lines that are compared by their characters.
const COMPARED_LINES: usize = 5_000;

/// How alike lines must be to be worth showing.
const ALIKE: f64 = 0.4;

/// Returns the place that is most like `wanted`, with a little around it.
pub(super) fn region(lines: &TextLines<'_>, wanted: &str) -> Option<Region> {
    let wanted = pieces(wanted);
    let start = by_same_lines(lines, &wanted).or_else(|| by_similarity(lines, &wanted))?;
    let first = start.saturating_sub(AROUND);
    let after = (start + wanted.len() + AROUND).min(lines.len()).min(first + SHOWN);
    let shown = lines.slice(first..after).into_iter().map(str::to_owned).collect();
    Some(Region { first: first + 1, lines: shown })
}

/// Returns where the run of lines starts that has most of the wanted ones.
fn by_same_lines(lines: &TextLines<'_>, wanted: &[&str]) -> Option<usize> {
    // Lines of a brace or less say nothing about the place.
    let is_meaningful = |line: &&str| line.chars().filter(|c| c.is_alphanumeric()).count() > 2;
    let known: HashSet<&str> =
        wanted.iter().map(|line| line.trim()).filter(is_meaningful).collect();
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
fn by_similarity(lines: &TextLines<'_>, wanted: &[&str]) -> Option<usize> {
    let cut = |line: &str| line.trim().chars().take(COMPARED_CHARS).collect::<String>();
    let (offset, longest) = wanted.iter().enumerate().max_by_key(|(_, line)| line.trim().len())?;
    let longest = cut(longest);
    let likeness = |line: usize| strsim::normalized_levenshtein(&longest, &cut(lines.get(line)));
    let (line, alike) = (0..lines.len().min(COMPARED_LINES))
        .map(|line| (line, likeness(line)))
        .max_by(|(_, a), (_, b)| a.total_cmp(b))?;
    (alike >= ALIKE).then(|| line.saturating_sub(offset))
}
