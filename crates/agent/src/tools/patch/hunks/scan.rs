//! The lines of a patch, taken one by one.

use super::{HunkLine, ParseError};

/// The lines that are still to be read.
pub(super) struct Scan<'a> {
    lines: Vec<&'a str>,
    at: usize,
}

impl<'a> Scan<'a> {
    /// Reads a patch, whichever way its lines end.
    pub(super) fn new(patch: &'a str) -> Self {
        let mut lines: Vec<&str> = patch.split('\n').collect();
        if lines.last() == Some(&"") {
            lines.pop();
        }
        // A carriage return belongs to a line only if not all of them have one.
        if !lines.is_empty() && lines.iter().all(|line| line.ends_with('\r')) {
            lines = lines.into_iter().filter_map(|line| line.strip_suffix('\r')).collect();
        }
        Self { lines, at: 0 }
    }

    /// Returns the next line without taking it.
    pub(super) fn peek(&self) -> Option<&'a str> {
        self.peek_at(0)
    }

    /// Returns a line further on.
    pub(super) fn peek_at(&self, ahead: usize) -> Option<&'a str> {
        self.lines.get(self.at + ahead).copied()
    }

    /// Takes the next line.
    pub(super) fn next(&mut self) -> Option<&'a str> {
        let line = self.peek()?;
        self.at += 1;
        Some(line)
    }

    /// Takes the next line if it starts like this, and returns the rest of it.
    pub(super) fn next_after(&mut self, start: &str) -> Option<&'a str> {
        let rest = self.peek()?.strip_prefix(start)?;
        self.at += 1;
        Some(rest)
    }

    /// Returns an error about the line taken last.
    pub(super) fn error(&self, problem: impl Into<String>) -> ParseError {
        ParseError { line: self.at.max(1), problem: problem.into() }
    }
}

/// Returns a line of a hunk; `None` if it is none. Editors and models take the
/// blank off an empty line that is kept.
pub(super) fn hunk_line(line: &str) -> Option<HunkLine> {
    let mut rest = line.chars();
    Some(match rest.next() {
        None => HunkLine::Kept(String::new()),
        Some(' ') => HunkLine::Kept(rest.as_str().to_owned()),
        Some('-') => HunkLine::Removed(rest.as_str().to_owned()),
        Some('+') => HunkLine::Added(rest.as_str().to_owned()),
        Some(_) => return None,
    })
}
