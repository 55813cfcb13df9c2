//! Marks that a later line may still close.

use std::ops::Range;

/// Looks for marks among what the parser took for mere text.
pub(super) struct Marks<'t> {
    source: &'t str,
    /// Up to where the source is a backslash and what it escapes.
    escaped: usize,
    /// How many `[` wait for their `]`.
    brackets: usize,
    open: bool,
}

impl<'t> Marks<'t> {
    pub(super) fn new(source: &'t str) -> Self {
        // At the end of a line that is not the last one, a backslash is left out.
        Self { source, escaped: 0, brackets: 0, open: source.ends_with('\\') }
    }

    pub(super) fn are_open(&self) -> bool {
        self.open || self.brackets > 0
    }

    /// Looks at text that is not part of anything, where it stands in the source.
    ///
    /// To take something for open that is not only delays lines, so this is less
    /// exact than the specification.
    pub(super) fn look_at(&mut self, range: Range<usize>) {
        let source = self.source;
        let mut before = source[..range.start].chars().next_back();
        // The parser begins another text behind the backslash of an escape, which
        // may itself be what another one escapes.
        let mut escape = before == Some('\\') && range.start > self.escaped;
        if range.start == self.escaped {
            before = Some('\\');
        }
        for (at, c) in source[range.clone()].char_indices() {
            let end = range.start + at + c.len_utf8();
            let after = &source[end..];
            if std::mem::take(&mut escape) {
                self.escaped = end;
                // A mark that follows is the first of its row.
                before = Some('\\');
                continue;
            }
            match c {
                '`' => self.open = true,
                // Of several in a row the first tells.
                '*' | '_' | '~' if before != Some(c) => {
                    let next = after.trim_start_matches(c).chars().next();
                    let within = c == '_' && before.is_some_and(char::is_alphanumeric);
                    self.open |= !within && next.is_some_and(|next| !next.is_whitespace());
                }
                '<' => {
                    let tag = |next: char| next.is_ascii_alphabetic() || "/!?".contains(next);
                    self.open |= after.starts_with(tag);
                }
                '[' => self.brackets += 1,
                ']' => {
                    self.brackets = self.brackets.saturating_sub(1);
                    self.open |= after.starts_with('(');
                }
                _ => {}
            }
            before = Some(c);
        }
    }
}
