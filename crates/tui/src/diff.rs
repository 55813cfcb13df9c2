//! Unified diffs: making, parsing and rendering them.

use std::fmt::Write as _;
use std::ops::Range;
use std::time::Duration;

use vestal_diff::{DiffOp, Tag};

use crate::style::{self, Style};
use crate::text::{Line, Span};

/// How many lines around a change are part of the diff.
const CONTEXT: usize = 3;

/// Time after which a diff is no longer improved.
const DIFF_TIMEOUT: Duration = Duration::from_millis(200);

/// Returns the difference between two versions of a file as a unified diff; empty if
/// there is none.
pub fn between(path: &str, old: &str, new: &str) -> String {
    let old: Vec<&str> = old.split_inclusive('\n').collect();
    let new: Vec<&str> = new.split_inclusive('\n').collect();
    let operations = vestal_diff::diff(&old, &new, Some(DIFF_TIMEOUT));
    let mut unified = String::new();
    for group in vestal_diff::grouped(operations, CONTEXT) {
        if unified.is_empty() {
            unified = format!("--- a/{path}\n+++ b/{path}\n");
        }
        let changes = vestal_diff::changes(&group, &old, &new);
        // Counted here, because the positions of an operation are wrong after the algorithm
        // has moved it.
        let olds = range(changes.iter().filter_map(|change| change.old));
        let news = range(changes.iter().filter_map(|change| change.new));
        // Writing to a string cannot fail.
        writeln!(unified, "@@ -{olds} +{news} @@").unwrap_or_default();
        for change in &changes {
            unified.push(match change.tag {
                Tag::Equal => ' ',
                Tag::Delete => '-',
                Tag::Insert => '+',
            });
            unified += change.text;
            if !change.text.ends_with('\n') {
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

/// A line of a diff and its meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DiffLine<'d> {
    /// A file begins.
    File(&'d str),
    /// Lines that do not follow the ones before. The first one is left out, because
    /// the number of the line says the same.
    Gap,
    /// A line that stays, by its number in the new file.
    Kept(usize, &'d str),
    /// A line that went, by its number in the old file.
    Removed(usize, &'d str),
    /// An added line, by its number in the new file.
    Added(usize, &'d str),
    /// What is about the diff, not in the files.
    Remark(&'d str),
}

/// Returns the parts of a unified diff. What is none is a remark.
fn parse(unified: &str) -> Vec<DiffLine<'_>> {
    let mut parts = Vec::new();
    let mut old = Counter::default();
    let mut new = Counter::default();
    let mut from = "";
    let mut hunks = 0;
    for line in unified.lines() {
        let line = line.strip_suffix('\r').unwrap_or(line);
        // Within a hunk `--- x` is a removed line that begins with `-- `.
        // Lines behind the last that the hunk has counted still belong to it: hand-written
        // diffs are counted wrong.
        let header = line.starts_with("--- ") || line.starts_with("+++ ");
        let uncounted = hunks > 0 && !header && line.starts_with(['+', '-', ' ']);
        if old.left > 0 || new.left > 0 || uncounted {
            let (mark, text) = split_mark(line);
            match mark {
                Some('-') => parts.push(DiffLine::Removed(old.next(), text)),
                Some('+') => parts.push(DiffLine::Added(new.next(), text)),
                Some('\\') => parts.push(DiffLine::Remark(text.trim())),
                // Some programs cut the space off a line with nothing else on it.
                Some(' ') | None => {
                    old.next();
                    parts.push(DiffLine::Kept(new.next(), text));
                }
                Some(_) => parts.push(DiffLine::Remark(line)),
            }
        } else if let Some((before, after)) = hunk(line) {
            (old, new) = (before, after);
            if hunks > 0 {
                parts.push(DiffLine::Gap);
            }
            hunks += 1;
        } else if let Some(name) = line.strip_prefix("--- ") {
            from = name;
        } else if let Some(name) = line.strip_prefix("+++ ") {
            hunks = 0;
            parts.push(DiffLine::File(path(from, name)));
        } else if let Some(text) = line.strip_prefix("\\ ") {
            parts.push(DiffLine::Remark(text));
        } else if !is_noise(line) {
            parts.push(DiffLine::Remark(line));
        }
    }
    parts
}

/// Counts the lines of a file through a hunk.
#[derive(Debug, Clone, Copy, Default)]
struct Counter {
    number: usize,
    left: usize,
}

impl Counter {
    fn next(&mut self) -> usize {
        let number = self.number;
        self.number = self.number.saturating_add(1);
        self.left = self.left.saturating_sub(1);
        number
    }
}

fn split_mark(line: &str) -> (Option<char>, &str) {
    let mut chars = line.chars();
    (chars.next(), chars.as_str())
}

/// Returns where a hunk begins in the old and in the new file, and how many lines of
/// each it has: `@@ -1,2 +3,4 @@`.
fn hunk(line: &str) -> Option<(Counter, Counter)> {
    let ranges = line.strip_prefix("@@ -")?;
    let (ranges, _) = ranges.split_once(" @@")?;
    let (old, new) = ranges.split_once(" +")?;
    Some((counter(old)?, counter(new)?))
}

fn counter(range: &str) -> Option<Counter> {
    let (number, left) = range.split_once(',').unwrap_or((range, "1"));
    Some(Counter { number: number.parse().ok()?, left: left.parse().ok()? })
}

/// Returns the path that two names of a file mean.
fn path<'d>(old: &'d str, new: &'d str) -> &'d str {
    let name = |name: &'d str, prefix: &str| {
        // Some programs put the time of the change behind a tab.
        let name = name.split('\t').next().unwrap_or_default();
        name.strip_prefix(prefix).unwrap_or(name)
    };
    match name(new, "b/") {
        "/dev/null" => name(old, "a/"),
        path => path,
    }
}

/// Whether a line repeats what the other lines contain.
fn is_noise(line: &str) -> bool {
    line.is_empty() || line.starts_with("diff --git ") || line.starts_with("index ")
}

/// Longer lines are not compared word by word.
const LONGEST: usize = 500;

/// Parts of the old line, and of the new one, that are not in the other.
type Changed = (Vec<Range<usize>>, Vec<Range<usize>>);

/// Returns what differs between two lines, or nothing if they have too little in common.
fn changed(old: &str, new: &str) -> Option<Changed> {
    if old.len() > LONGEST || new.len() > LONGEST {
        return None;
    }
    let (olds, news) = (split_words(old), split_words(new));
    let operations = vestal_diff::diff(&texts(old, &olds), &texts(new, &news), None);
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

fn texts<'l>(line: &'l str, words: &[Range<usize>]) -> Vec<&'l str> {
    words.iter().map(|word| &line[word.clone()]).collect()
}

/// Adds the range from the first to the last word.
fn extend(ranges: &mut Vec<Range<usize>>, words: &[Range<usize>]) {
    if let (Some(first), Some(last)) = (words.first(), words.last()) {
        ranges.push(first.start..last.end);
    }
}

/// Returns where the words are: letters and digits together, spaces together, and
/// everything else by itself.
fn split_words(line: &str) -> Vec<Range<usize>> {
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

/// Returns a unified diff as it is shown: for each file its path and how many lines
/// came and went, then the lines with their numbers, the words that differ marked.
/// At most `max_lines` lines are shown below a path; a last line says how many more
/// there are.
///
/// A line stays one line, however wide the terminal is.
pub fn render(unified: &str, max_lines: usize) -> Vec<Line> {
    let parts = parse(unified);
    let mut shown = Vec::new();
    for file in files(&parts) {
        let (head, body) = match file {
            [DiffLine::File(path), body @ ..] => (Some(header(path, body)), body),
            body => (None, body),
        };
        shown.extend(head);
        let digits = body.iter().filter_map(number).max().unwrap_or(0).to_string().len();
        let visible = &body[..body.len().min(max_lines)];
        shown.extend(lines(visible, digits));
        let hidden = body.len() - visible.len();
        if hidden > 0 {
            let lines = if hidden == 1 { "line" } else { "lines" };
            shown.push(Line::styled(format!("… {hidden} more {lines}"), style::DIM));
        }
    }
    shown
}

/// Returns the parts of each file; what comes before the first one is by itself.
fn files<'p, 'd>(parts: &'p [DiffLine<'d>]) -> impl Iterator<Item = &'p [DiffLine<'d>]> {
    parts.chunk_by(|_, next| !matches!(next, DiffLine::File(_)))
}

fn header(path: &str, body: &[DiffLine<'_>]) -> Line {
    let added = body.iter().filter(|part| matches!(part, DiffLine::Added(..))).count();
    let removed = body.iter().filter(|part| matches!(part, DiffLine::Removed(..))).count();
    let mut line = Line::styled(path, style::BOLD);
    line.push(Span::plain(" ("));
    line.push(Span::new(format!("+{added}"), style::GREEN));
    line.push(Span::plain(" "));
    line.push(Span::new(format!("-{removed}"), style::RED));
    line.push(Span::plain(")"));
    line
}

fn number(part: &DiffLine<'_>) -> Option<usize> {
    match part {
        DiffLine::Kept(number, _) | DiffLine::Removed(number, _) | DiffLine::Added(number, _) => {
            Some(*number)
        }
        DiffLine::File(_) | DiffLine::Gap | DiffLine::Remark(_) => None,
    }
}

fn lines(parts: &[DiffLine<'_>], digits: usize) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut rest = parts;
    while let Some(part) = rest.first() {
        let removed = count(rest, |part| matches!(part, DiffLine::Removed(..)));
        let added = count(&rest[removed..], |part| matches!(part, DiffLine::Added(..)));
        if removed + added == 0 {
            lines.push(line(part, &[], digits));
            rest = &rest[1..];
            continue;
        }
        // With equal numbers of added and removed lines, each replaced another.
        let (old, new) = rest[..removed + added].split_at(removed);
        let pairs: Vec<_> = if removed == added {
            old.iter().zip(new).map(|(old, new)| changed(text(old), text(new))).collect()
        } else {
            Vec::new()
        };
        for (at, part) in old.iter().enumerate() {
            let marked = pairs.get(at).and_then(Option::as_ref).map(|(old, _)| &old[..]);
            lines.push(line(part, marked.unwrap_or_default(), digits));
        }
        for (at, part) in new.iter().enumerate() {
            let marked = pairs.get(at).and_then(Option::as_ref).map(|(_, new)| &new[..]);
            lines.push(line(part, marked.unwrap_or_default(), digits));
        }
        rest = &rest[removed + added..];
    }
    lines
}

fn count(parts: &[DiffLine<'_>], of: impl Fn(&DiffLine<'_>) -> bool) -> usize {
    parts.iter().take_while(|part| of(part)).count()
}

fn text<'d>(part: &DiffLine<'d>) -> &'d str {
    match part {
        DiffLine::Kept(_, text)
        | DiffLine::Removed(_, text)
        | DiffLine::Added(_, text)
        | DiffLine::File(text)
        | DiffLine::Remark(text) => text,
        DiffLine::Gap => "",
    }
}

fn line(part: &DiffLine<'_>, marked: &[Range<usize>], digits: usize) -> Line {
    let (number, mark, style) = match part {
        DiffLine::Kept(number, _) => (number, ' ', style::PLAIN),
        DiffLine::Removed(number, _) => (number, '-', style::RED),
        DiffLine::Added(number, _) => (number, '+', style::GREEN),
        DiffLine::Gap => return Line::styled(format!("{:>digits$}", "⋮"), style::DIM),
        DiffLine::File(text) | DiffLine::Remark(text) => return Line::styled(text, style::DIM),
    };
    let mut line = Line::styled(format!("{number:>digits$} "), style::DIM);
    line.push(Span::new(format!("{mark} "), style));
    push_marked(&mut line, text(part), marked, style);
    line
}

/// Adds a text, with parts of it marked.
fn push_marked(line: &mut Line, text: &str, marked: &[Range<usize>], style: Style) {
    let mut from = 0;
    for part in marked {
        line.push(Span::new(&text[from..part.start], style));
        line.push(Span::new(&text[part.clone()], style.bold().underline()));
        from = part.end;
    }
    line.push(Span::new(&text[from..], style));
}

#[cfg(test)]
#[path = "diff_tests.rs"]
mod tests;
