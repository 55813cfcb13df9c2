//! Pieces of text in, lines out.

use std::borrow::Cow;

use super::blocks::{Blocks, End, Look};
use crate::style::Colour;
use crate::text::Line;

/// How far apart tab stops are in Markdown.
const TAB: usize = 4;

/// Of a line that has not ended yet, so much is looked at to show it.
const MOST_LIVE: usize = 8 * 1024;

/// Markdown that arrives in pieces of any size.
///
/// However it is cut into pieces, and whenever the lines are fetched, all lines that
/// [`Markdown::take_lines`] and [`Markdown::finish`] return are the same.
#[derive(Debug)]
pub struct Markdown {
    blocks: Blocks,
    /// The line that has not ended yet.
    line: String,
}

impl Markdown {
    /// Returns an empty text for a terminal with `width` columns.
    pub fn new(width: usize) -> Self {
        let look = Look { width, colour: Colour::On };
        Self { blocks: Blocks::new(look), line: String::new() }
    }

    /// Says whether styles will be seen. Where they will not, emphasis and code keep
    /// the marks of the source, and code is not highlighted.
    #[must_use]
    pub fn colour(mut self, colour: Colour) -> Self {
        self.blocks.look.colour = colour;
        self
    }

    /// Takes the next piece.
    pub fn push(&mut self, piece: &str) {
        let mut rest = piece;
        while let Some((end, after)) = rest.split_once('\n') {
            self.line.push_str(end);
            let line = std::mem::take(&mut self.line);
            read(&mut self.blocks, &line);
            rest = after;
        }
        self.line.push_str(rest);
    }

    /// Returns the lines that have become final since the last call.
    pub fn take_lines(&mut self) -> Vec<Line> {
        std::mem::take(&mut self.blocks.ready)
    }

    /// Returns how the rest would look if nothing more came: the last `max_rows` of
    /// its lines. They may be wider than the terminal, as lines of code are.
    pub fn live(&self, max_rows: usize) -> Vec<Line> {
        let mut trial = self.blocks.trial();
        if !says_nothing_yet(&self.line) {
            read(&mut trial, end_of(&self.line));
        }
        trial.finish(End::ForNow);
        let hidden = trial.ready.len().saturating_sub(max_rows);
        trial.ready.split_off(hidden)
    }

    /// Ends the text and returns the lines that have not been fetched. Whatever is
    /// pushed afterwards begins a new text.
    pub fn finish(&mut self) -> Vec<Line> {
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            read(&mut self.blocks, &line);
        }
        self.blocks.finish(End::Whole);
        let work = self.blocks.work;
        let next = Blocks { work, ..Blocks::new(self.blocks.look) };
        std::mem::replace(&mut self.blocks, next).ready
    }

    /// Says that the terminal has another width. Lines that have been handed out stay
    /// as they are.
    pub fn resized(&mut self, width: usize) {
        self.blocks.look.width = width;
    }

    /// Returns how many bytes have been looked at so far.
    #[cfg(test)]
    pub(super) fn work(&self) -> u64 {
        self.blocks.work
    }
}

/// Reads a line of the source. A carriage return ends a line, too.
fn read(blocks: &mut Blocks, line: &str) {
    let line = line.strip_suffix('\r').unwrap_or(line);
    line.split('\r').for_each(|line| blocks.line(&without_tabs(line)));
}

/// Returns a line with spaces up to the next tab stop for each tab.
fn without_tabs(line: &str) -> Cow<'_, str> {
    if !line.contains('\t') {
        return line.into();
    }
    let mut spaced = String::with_capacity(line.len() + TAB * 4);
    let mut column = 0;
    for c in line.chars() {
        if c == '\t' {
            let spaces = TAB - column % TAB;
            spaced.extend(std::iter::repeat_n(' ', spaces));
            column += spaces;
        } else {
            spaced.push(c);
            column += 1;
        }
    }
    spaced.into()
}

/// Returns whether a line that has not ended consists of marks only: with the next
/// letter they may mean something else, and the screen would flicker.
fn says_nothing_yet(line: &str) -> bool {
    line.chars().all(|c| c.is_ascii_digit() || " \t\r#>-=+*_`~|:.)[".contains(c))
}

fn end_of(line: &str) -> &str {
    let mut from = line.len().saturating_sub(MOST_LIVE);
    while !line.is_char_boundary(from) {
        from += 1;
    }
    &line[from..]
}
