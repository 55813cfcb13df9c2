//! The difference between two texts.

use std::fmt::Write as _;
use std::time::Duration;

use similar::{Change, ChangeTag, TextDiff};

/// How many lines around a change are part of the diff.
const CONTEXT: usize = 3;

/// After so long the diff is as good as it is then.
const PATIENCE: Duration = Duration::from_millis(200);

/// Returns the difference between two versions of a file as a unified diff; empty if
/// there is none.
pub fn between(path: &str, old: &str, new: &str) -> String {
    let diff = TextDiff::configure().timeout(PATIENCE).diff_lines(old, new);
    let mut unified = String::new();
    for group in diff.grouped_ops(CONTEXT) {
        if unified.is_empty() {
            unified = format!("--- a/{path}\n+++ b/{path}\n");
        }
        let changes: Vec<_> = group.iter().flat_map(|part| diff.iter_changes(part)).collect();
        // Counted here: the positions that an operation itself tells are not those of
        // its lines where the algorithm has moved it.
        let olds = range(changes.iter().filter_map(Change::old_index));
        let news = range(changes.iter().filter_map(Change::new_index));
        // Writing to a string cannot fail.
        writeln!(unified, "@@ -{olds} +{news} @@").unwrap_or_default();
        for change in &changes {
            unified.push(match change.tag() {
                ChangeTag::Equal => ' ',
                ChangeTag::Delete => '-',
                ChangeTag::Insert => '+',
            });
            unified += change.value();
            if change.missing_newline() {
                unified += "\n\\ No newline at end of file\n";
            }
        }
    }
    unified
}

/// Returns where lines begin, counted from one, and how many they are.
fn range(mut indexes: impl Iterator<Item = usize>) -> String {
    match indexes.next() {
        Some(first) => format!("{},{}", first + 1, indexes.count() + 1),
        None => "0,0".to_owned(),
    }
}
