//! Which words of a line have changed.

use std::ops::Range;

use similar::{Algorithm, DiffOp, capture_diff_slices};

/// Longer lines are not compared word by word.
const LONGEST: usize = 500;

/// Parts of the old line, and of the new one, that are not in the other.
pub(super) type Changed = (Vec<Range<usize>>, Vec<Range<usize>>);

/// Returns what differs between two lines; nothing if they have too little in common
/// for that to tell anything.
pub(super) fn changed(old: &str, new: &str) -> Option<Changed> {
    if old.len() > LONGEST || new.len() > LONGEST {
        return None;
    }
    let (olds, news) = (words(old), words(new));
    let texts = |line: &'_ str, words: &[Range<usize>]| -> Vec<String> {
        words.iter().map(|word| line[word.clone()].to_owned()).collect()
    };
    let operations = capture_diff_slices(Algorithm::Myers, &texts(old, &olds), &texts(new, &news));
    let mut changed = (Vec::new(), Vec::new());
    let mut common = 0;
    for operation in operations {
        if let DiffOp::Equal { old_index, len, .. } = operation {
            let words = &olds[old_index..old_index + len];
            let visible = words.iter().map(|word| old[word.clone()].trim().len());
            common += visible.sum::<usize>();
        } else {
            extend(&mut changed.0, &olds[operation.old_range()]);
            extend(&mut changed.1, &news[operation.new_range()]);
        }
    }
    let whole = old.trim().len().max(new.trim().len());
    (common * 3 >= whole && common > 0).then_some(changed)
}

/// Adds the range from the first to the last word.
fn extend(ranges: &mut Vec<Range<usize>>, words: &[Range<usize>]) {
    if let (Some(first), Some(last)) = (words.first(), words.last()) {
        ranges.push(first.start..last.end);
    }
}

/// Returns where the words are: letters and digits together, spaces together, and
/// everything else by itself.
fn words(line: &str) -> Vec<Range<usize>> {
    let mut words: Vec<Range<usize>> = Vec::new();
    let mut before = Class::Mark;
    for (at, c) in line.char_indices() {
        let class = Class::of(c);
        let end = at + c.len_utf8();
        match words.last_mut() {
            Some(word) if class == before && class != Class::Mark => word.end = end,
            _ => words.push(at..end),
        }
        before = class;
    }
    words
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Word,
    Space,
    Mark,
}

impl Class {
    fn of(c: char) -> Self {
        if c.is_alphanumeric() || c == '_' {
            Self::Word
        } else if c.is_whitespace() {
            Self::Space
        } else {
            Self::Mark
        }
    }
}
