//! The parts of a unified diff.

/// A line of a diff, and what it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part<'d> {
    /// A file begins.
    File(&'d str),
    /// Lines that do not follow the ones before. The first one is left out, because
    /// the number of the line says the same.
    Gap,
    /// A line that stays, by its number in the new file.
    Kept(usize, &'d str),
    /// A line that went, by its number in the old file.
    Removed(usize, &'d str),
    /// A line that came, by its number in the new file.
    Added(usize, &'d str),
    /// What is about the diff, not in the files.
    Remark(&'d str),
}

/// Returns the parts of a unified diff. What is none is a remark.
pub(super) fn parse(unified: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut old = Counter::default();
    let mut new = Counter::default();
    let mut from = "";
    let mut hunks = 0;
    for line in unified.lines() {
        let line = line.strip_suffix('\r').unwrap_or(line);
        // Within a hunk `--- x` is a removed line that begins with `-- `.
        // Lines behind the last that the hunk has counted still belong to it: whoever
        // writes a diff by hand counts wrong.
        let header = line.starts_with("--- ") || line.starts_with("+++ ");
        let uncounted = hunks > 0 && !header && line.starts_with(['+', '-', ' ']);
        if old.left > 0 || new.left > 0 || uncounted {
            let (mark, text) = split_mark(line);
            match mark {
                Some('-') => parts.push(Part::Removed(old.next(), text)),
                Some('+') => parts.push(Part::Added(new.next(), text)),
                Some('\\') => parts.push(Part::Remark(text.trim())),
                // Some programs cut the space off a line with nothing else on it.
                Some(' ') | None => {
                    old.next();
                    parts.push(Part::Kept(new.next(), text));
                }
                Some(_) => parts.push(Part::Remark(line)),
            }
        } else if let Some((before, after)) = hunk(line) {
            (old, new) = (before, after);
            if hunks > 0 {
                parts.push(Part::Gap);
            }
            hunks += 1;
        } else if let Some(name) = line.strip_prefix("--- ") {
            from = name;
        } else if let Some(name) = line.strip_prefix("+++ ") {
            hunks = 0;
            parts.push(Part::File(path(from, name)));
        } else if let Some(text) = line.strip_prefix("\\ ") {
            parts.push(Part::Remark(text));
        } else if !is_noise(line) {
            parts.push(Part::Remark(line));
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

/// Whether a line says nothing that the others do not say as well.
fn is_noise(line: &str) -> bool {
    line.is_empty() || line.starts_with("diff --git ") || line.starts_with("index ")
}
