//! Finds a block by its first and last line.

use std::time::Duration;

use similar::TextDiff;

use crate::tools::files::Lines;

/// How much of what is between the anchors must be the same.
const SIMILAR: f32 = 0.7;

/// How much better than any other a block must be.
const MARGIN: f32 = 0.1;

/// Most blocks that are compared.
const COMPARED: usize = 50;

/// Returns the first line of each block of as many lines that starts and ends
/// alike and is similar in between: one, or several that are as good.
pub(super) fn starts(lines: &Lines<'_>, wanted: &[&str]) -> Vec<usize> {
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
    TextDiff::configure().timeout(Duration::from_millis(20)).diff_chars(a, b).ratio()
}
