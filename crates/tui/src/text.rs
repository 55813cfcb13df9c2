//! Styled text, line by line.

mod sanitize;
mod wrap;

use std::fmt::Write as _;

use crate::style::Colour;

pub use anstyle::Style;
pub use sanitize::harmless;
pub use wrap::width;
pub(crate) use wrap::{Grapheme, char_width};

/// How many columns and rows a terminal has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Columns.
    pub columns: u16,
    /// Rows.
    pub rows: u16,
}

/// Words in one style. They command nothing: control characters are taken out
/// or made visible when a span is made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Span {
    // Private to this module and its children, so that no other way leads to a
    // span than through `harmless`.
    text: String,
    style: Style,
}

/// One line. If it is wider than the terminal, the terminal wraps it, and copying it still
/// gives one line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Line {
    spans: Vec<Span>,
}

impl Span {
    /// Returns words without a style.
    pub fn plain(text: impl AsRef<str>) -> Self {
        Self::new(text, Style::new())
    }

    /// Returns words in a style.
    pub fn new(text: impl AsRef<str>, style: Style) -> Self {
        Self { text: harmless(text.as_ref()), style }
    }

    /// Returns the words.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the style.
    pub fn style(&self) -> Style {
        self.style
    }

    /// Returns how many columns the words take.
    pub fn width(&self) -> usize {
        width(&self.text)
    }
}

impl Line {
    /// Returns a line with nothing on it.
    pub const fn empty() -> Self {
        Self { spans: Vec::new() }
    }

    /// Returns a line without a style.
    pub fn plain(text: impl AsRef<str>) -> Self {
        Self::from_spans(vec![Span::plain(text)])
    }

    /// Returns a line in one style.
    pub fn styled(text: impl AsRef<str>, style: Style) -> Self {
        Self::from_spans(vec![Span::new(text, style)])
    }

    /// Returns a line of several spans.
    pub fn from_spans(spans: Vec<Span>) -> Self {
        let mut line = Self::empty();
        for span in spans {
            line.push(span);
        }
        line
    }

    /// Returns the lines of a text in one style. An end of line at the end of the
    /// text does not begin another line.
    pub fn lines_of(text: &str, style: Style) -> Vec<Self> {
        text.lines().map(|line| Self::styled(line, style)).collect()
    }

    /// Adds a span at the end.
    pub fn push(&mut self, span: Span) {
        match self.spans.last_mut() {
            _ if span.text.is_empty() => {}
            Some(last) if last.style == span.style => last.text.push_str(&span.text),
            _ => self.spans.push(span),
        }
    }

    /// Adds another line's spans at the end.
    pub fn append(&mut self, other: Self) {
        for span in other.spans {
            self.push(span);
        }
    }

    /// Returns the line with a span before it.
    #[must_use]
    pub fn prefixed(self, span: Span) -> Self {
        let mut line = Self::from_spans(vec![span]);
        line.append(self);
        line
    }

    /// Returns the spans.
    pub fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// Returns whether nothing is on the line.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Returns how many columns the line takes.
    pub fn width(&self) -> usize {
        self.spans.iter().map(Span::width).sum()
    }

    /// Returns the words without their styles.
    pub fn text(&self) -> String {
        self.spans.iter().map(Span::text).collect()
    }

    /// Returns what is sent to a terminal for this line, without an end of line.
    pub fn to_ansi(&self, colour: Colour) -> String {
        let mut sent = String::new();
        self.write_ansi(&mut sent, colour);
        sent
    }

    /// Adds to `sent` what [`Line::to_ansi`] returns.
    pub(crate) fn write_ansi(&self, sent: &mut String, colour: Colour) {
        for Span { text, style } in &self.spans {
            match colour {
                // Writing to a string cannot fail.
                Colour::On => write!(sent, "{style}{text}{style:#}").unwrap_or_default(),
                Colour::Off => sent.push_str(text),
            }
        }
    }
}

impl From<Span> for Line {
    fn from(span: Span) -> Self {
        Self::from_spans(vec![span])
    }
}

#[cfg(test)]
#[path = "text_tests.rs"]
mod tests;
