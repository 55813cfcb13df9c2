//! What changed in a text, as a unified diff.

use std::time::Duration;

use vestal_diff::Tag;

use super::text::TextLines;

/// Unchanged lines around changed ones.
const CONTEXT: usize = 3;

/// Most bytes of a diff; the rest is counted.
const MAX: usize = 20_000;

/// Longest line in a diff, in characters.
const MAX_LINE: usize = 500;

/// Longest time to look for the shortest diff; then any will do.
const WITHIN: Duration = Duration::from_millis(200);

/// Returns the difference between two texts; empty where there is none.
pub(in crate::tools) fn unified_diff(
    old_name: &str,
    new_name: &str,
    old: &str,
    new: &str,
) -> String {
    let (old, new) = (TextLines::new(old), TextLines::new(new));
    let (before, after) = window(&old, &new);
    let (shown_old, shown_new) = (with_ends(&old, before.clone()), with_ends(&new, after));
    let operations = vestal_diff::diff(&shown_old, &shown_new, Some(WITHIN));
    let mut text = String::new();
    let mut left_out = 0_usize;
    for group in vestal_diff::grouped(operations, CONTEXT) {
        let Some(first) = group.first() else { continue };
        let changes = vestal_diff::changes(&group, &shown_old, &shown_new);
        // Counted by the lines themselves: the ranges of the operations need not
        // join on to each other.
        let mut old_lines = changes.iter().filter_map(|change| change.old).peekable();
        let mut new_lines = changes.iter().filter_map(|change| change.new).peekable();
        let old_start = old_lines.peek().copied().unwrap_or(first.old_range().start);
        let new_start = new_lines.peek().copied().unwrap_or(first.new_range().start);
        let header = format!(
            "@@ -{} +{} @@\n",
            numbers(before.start + old_start, old_lines.count()),
            numbers(before.start + new_start, new_lines.count())
        );
        if text.is_empty() {
            text = format!("--- {old_name}\n+++ {new_name}\n");
        }
        text.push_str(&header);
        for change in &changes {
            let sign = match change.tag {
                Tag::Equal => ' ',
                Tag::Delete => '-',
                Tag::Insert => '+',
            };
            if text.len() > MAX {
                left_out += 1;
            } else {
                put(&mut text, sign, change.text);
            }
        }
    }
    if left_out > 0 {
        let more = format!("… {left_out} more lines\n");
        text.push_str(&more);
    }
    text
}

/// Returns the lines that differ and those around them: most files have few of
/// them, however long they are.
fn window(
    old: &TextLines<'_>,
    new: &TextLines<'_>,
) -> (std::ops::Range<usize>, std::ops::Range<usize>) {
    let same = |a: usize, b: usize| {
        old.text()[old.start(a)..old.start(a + 1)] == new.text()[new.start(b)..new.start(b + 1)]
    };
    let shorter = old.len().min(new.len());
    let head = (0..shorter).take_while(|line| same(*line, *line)).count();
    let tail =
        (1..=shorter - head).take_while(|back| same(old.len() - back, new.len() - back)).count();
    let head = head.saturating_sub(CONTEXT);
    let tail = tail.saturating_sub(CONTEXT);
    (head..old.len() - tail, head..new.len() - tail)
}

fn with_ends<'a>(lines: &TextLines<'a>, range: std::ops::Range<usize>) -> Vec<&'a str> {
    range.map(|line| &lines.text()[lines.start(line)..lines.start(line + 1)]).collect()
}

/// Returns where a run of lines is, as diffs have it: a run of none is named by
/// the line before it.
fn numbers(start: usize, count: usize) -> String {
    match count {
        0 => format!("{start},0"),
        1 => format!("{}", start + 1),
        _ => format!("{},{count}", start + 1),
    }
}

fn put(text: &mut String, sign: char, line: &str) {
    text.push(sign);
    let (line, ended) = line.strip_suffix('\n').map_or((line, false), |line| (line, true));
    match line.char_indices().nth(MAX_LINE) {
        Some((cut, _)) => {
            text.push_str(&line[..cut]);
            text.push('…');
        }
        None => text.push_str(line),
    }
    text.push_str(if ended { "\n" } else { "\n\\ No newline at end of file\n" });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(word: &str, count: u32) -> String {
        let lines: Vec<String> = (1..=count).map(|n| format!("{word} {n}\n")).collect();
        lines.concat()
    }

    #[test]
    fn it_shows_what_changed_and_a_little_around_it() {
        let old = numbered("line", 20);
        let new = old.replace("line 10\n", "line ten\nand more\n").replace("line 20\n", "line 20");
        insta::assert_snapshot!(unified_diff("a/f", "b/f", &old, &new), @r"
        --- a/f
        +++ b/f
        @@ -7,7 +7,8 @@
         line 7
         line 8
         line 9
        -line 10
        +line ten
        +and more
         line 11
         line 12
         line 13
        @@ -17,4 +18,4 @@
         line 17
         line 18
         line 19
        -line 20
        +line 20
        \ No newline at end of file
        ");
    }

    #[test]
    fn texts_that_are_the_same_have_none() {
        assert_eq!(unified_diff("a", "b", "x\n", "x\n"), "");
        assert_eq!(unified_diff("a", "b", "", ""), "");
    }

    #[test]
    fn it_is_bounded_however_much_changed() {
        let old = numbered("old", 100_000);
        let new = numbered("new", 100_000);
        let diff = unified_diff("a", "b", &old, &new);
        assert!(diff.len() < MAX + 2_000, "{}", diff.len());
        assert!(diff.contains("more lines"));
    }
}
