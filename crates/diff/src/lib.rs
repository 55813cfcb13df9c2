#![doc = include_str!("../README.md")]

use std::collections::HashMap;
use std::time::{Duration, Instant};

use similar::algorithms::{Capture, Compact, Replace, myers};
pub use similar::{ChangeTag as Tag, DiffOp};

/// A piece of either text, and what becomes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiffPiece<'t> {
    /// Whether it stays, goes or comes.
    pub tag: Tag,
    /// Which piece of the old text it is; none if it comes.
    pub old: Option<usize>,
    /// Which piece of the new text it is; none if it goes.
    pub new: Option<usize>,
    /// The piece.
    pub text: &'t str,
}

/// Returns what makes the new pieces of the old ones. After `within`, it is not the shortest way any more.
pub fn diff(old: &[&str], new: &[&str], within: Option<Duration>) -> Vec<DiffOp> {
    let mut numbers: HashMap<&str, u32> = HashMap::new();
    let (mut olds, mut news) = (Vec::with_capacity(old.len()), Vec::with_capacity(new.len()));
    for (pieces, numbered) in [(old, &mut olds), (new, &mut news)] {
        for piece in pieces {
            let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
            numbered.push(*numbers.entry(piece).or_insert(next));
        }
    }
    operations(&olds, &news, within)
}

/// Returns how much of two texts is the same, from 0 to 1, character by character.
pub fn likeness(a: &str, b: &str, within: Duration) -> f32 {
    let numbered = |text: &str| -> Vec<u32> { text.chars().map(u32::from).collect() };
    let (a, b) = (numbered(a), numbered(b));
    similar::diff_ratio(&operations(&a, &b, Some(within)), a.len(), b.len())
}

/// Returns groups of operations that are near each other, with at most so many unchanged pieces around
/// what changes.
pub fn grouped(operations: Vec<DiffOp>, context: usize) -> Vec<Vec<DiffOp>> {
    similar::group_diff_ops(operations, context)
}

/// Returns the pieces that operations are about: of a replacement first what goes, then what comes.
pub fn changes<'t>(operations: &[DiffOp], old: &[&'t str], new: &[&'t str]) -> Vec<DiffPiece<'t>> {
    let mut all = Vec::new();
    for operation in operations {
        if let DiffOp::Equal { old_index, new_index, len } = *operation {
            all.extend((0..len).map(|at| DiffPiece {
                tag: Tag::Equal,
                old: Some(old_index + at),
                new: Some(new_index + at),
                text: old[old_index + at],
            }));
            continue;
        }
        all.extend(operation.old_range().map(|at| DiffPiece {
            tag: Tag::Delete,
            old: Some(at),
            new: None,
            text: old[at],
        }));
        all.extend(operation.new_range().map(|at| DiffPiece {
            tag: Tag::Insert,
            old: None,
            new: Some(at),
            text: new[at],
        }));
    }
    all
}

fn operations(old: &[u32], new: &[u32], within: Option<Duration>) -> Vec<DiffOp> {
    let deadline = within.and_then(|within| Instant::now().checked_add(within));
    let mut found = Compact::new(Replace::new(Capture::new()), old, new);
    let (olds, news) = (0..old.len(), 0..new.len());
    match myers::diff_deadline(&mut found, old, olds, new, news, deadline) {
        Ok(()) => found.into_inner().into_inner().into_ops(),
        // What only collects does not fail.
        Err(never) => match never {},
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns what the operations make of the old pieces.
    fn applied(old: &[&str], new: &[&str], operations: &[DiffOp]) -> String {
        let mut text = String::new();
        let mut taken = 0;
        for change in changes(operations, old, new) {
            if let Some(at) = change.old {
                assert_eq!(at, taken, "each old piece is there once, in order");
                taken += 1;
            }
            if change.tag != Tag::Delete {
                text.push_str(change.text);
            }
        }
        assert_eq!(taken, old.len());
        text
    }

    #[test]
    fn the_operations_make_the_new_text_of_the_old_one() {
        let texts = ["", "a", "ab", "abc", "xaybzc", "cba", "aaaa", "abab", "äöü", "bababa"];
        let pieces = |text: &'static str| -> Vec<&'static str> {
            text.split_inclusive(|_: char| true).collect()
        };
        for old in texts {
            for new in texts {
                let (olds, news) = (pieces(old), pieces(new));
                let operations = diff(&olds, &news, None);
                assert_eq!(applied(&olds, &news, &operations), new, "{old} {new}");
                let at_once = diff(&olds, &news, Some(Duration::ZERO));
                assert_eq!(applied(&olds, &news, &at_once), new, "{old} {new}, in no time");
            }
        }
    }

    #[test]
    fn the_shortest_way_is_found_and_far_changes_are_groups_of_their_own() {
        let old: Vec<String> = (0..100).map(|line| format!("{line}\n")).collect();
        let mut new = old.clone();
        new[10] = "ten\n".to_owned();
        new.remove(90);
        let (old, new): (Vec<&str>, Vec<&str>) =
            (old.iter().map(String::as_str).collect(), new.iter().map(String::as_str).collect());
        let groups = grouped(diff(&old, &new, None), 3);
        let shown: Vec<Vec<String>> = groups
            .iter()
            .map(|group| {
                let changed = changes(group, &old, &new);
                let changed = changed.iter().filter(|change| change.tag != Tag::Equal);
                changed.map(|change| format!("{:?} {}", change.tag, change.text.trim())).collect()
            })
            .collect();
        assert_eq!(shown, [vec!["Delete 10", "Insert ten"], vec!["Delete 90"]]);
    }

    #[test]
    fn texts_are_as_alike_as_they_have_characters_in_common() {
        let alike = |a, b| likeness(a, b, Duration::from_mins(1));
        assert!((alike("", "") - 1.0).abs() < f32::EPSILON);
        assert!((alike("abcd", "abxd") - 0.75).abs() < f32::EPSILON);
        assert!(alike("abc", "xyz").abs() < f32::EPSILON);
    }
}
