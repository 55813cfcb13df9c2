//! How wide text is.

use anstyle::Style;
use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::{Line, Span};

/// Returns how many columns a text takes.
pub fn width(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.graphemes(true).map(str::width).sum() }
}

/// Returns how many columns a character takes by itself.
pub(crate) fn char_width(c: char) -> usize {
    match c {
        // The marks of narrow katakana belong to the letter before them, and yet
        // terminals give them a column.
        '\u{ff9e}' | '\u{ff9f}' => 1,
        c => c.width().unwrap_or(0),
    }
}

/// What a reader sees as one character.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cell<'a> {
    pub(crate) text: &'a str,
    pub(crate) style: Style,
    pub(crate) width: usize,
}

impl Cell<'_> {
    /// Returns whether a line may be broken here, and this left out.
    pub(crate) fn is_space(&self) -> bool {
        let mut chars = self.text.chars();
        // The spaces that join words (U+00A0, U+2007, U+202F) are none here.
        let first = matches!(
            chars.next(),
            Some(
                ' '
                | '\u{1680}'
                | '\u{2000}'..='\u{2006}'
                | '\u{2008}'..='\u{200b}'
                | '\u{205f}'
                | '\u{3000}',
            )
        );
        first && chars.next().is_none()
    }

    /// Returns how many columns a terminal uses that gives every character of what
    /// belongs together its own place.
    pub(crate) fn width_apart(&self) -> usize {
        self.text.chars().map(char_width).sum()
    }

    /// Returns how many columns a terminal uses at least, whichever way it takes.
    pub(crate) fn narrowest(&self) -> usize {
        self.width.min(self.width_apart())
    }
}

impl Line {
    /// Returns whether every terminal agrees how wide the line is.
    pub(crate) fn is_ascii(&self) -> bool {
        self.spans.iter().all(|span| span.text.is_ascii())
    }

    /// Returns the line character by character.
    pub(crate) fn cells(&self) -> impl Iterator<Item = Cell<'_>> {
        self.spans.iter().flat_map(|Span { text, style }| {
            text.graphemes(true).map(|text| Cell { text, style: *style, width: text.width() })
        })
    }

    /// Returns the last column up to this one in which a character begins, or the line
    /// ends.
    pub(crate) fn boundary_before(&self, column: usize) -> usize {
        let mut at = 0;
        for cell in self.cells() {
            if at + cell.width > column {
                break;
            }
            at += cell.width;
        }
        at
    }

    /// Returns the line of some cells.
    pub(crate) fn of_cells(cells: &[Cell<'_>]) -> Self {
        let mut line = Self::empty();
        line.extend_cells(cells);
        line
    }

    /// Adds cells at the end.
    pub(super) fn extend_cells(&mut self, cells: &[Cell<'_>]) {
        for cell in cells {
            match self.spans.last_mut() {
                Some(last) if last.style == cell.style => last.text.push_str(cell.text),
                _ => self.spans.push(Span { text: cell.text.to_owned(), style: cell.style }),
            }
        }
    }
}
