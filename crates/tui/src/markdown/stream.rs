//! Pieces of text in, lines out.

use std::borrow::Cow;

use crate::markdown::block_starts::Container;
use crate::markdown::blocks::{Blocks, RenderOptions, SourceEnd};
use crate::style::{self, Colour};
use crate::text::{Line, Span};

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
        let options = RenderOptions { width, colour: Colour::On };
        Self { blocks: Blocks::new(options), line: String::new() }
    }

    /// Sets whether styles are shown. If not, emphasis and code keep their marks, and code
    /// is not highlighted.
    #[must_use]
    pub fn colour(mut self, colour: Colour) -> Self {
        self.blocks.options.colour = colour;
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
        if !is_undecided(&self.line) {
            read(&mut trial, end_of(&self.line));
        }
        trial.finish(SourceEnd::ForNow);
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
        self.blocks.finish(SourceEnd::Whole);
        let work = self.blocks.work;
        let next = Blocks { work, ..Blocks::new(self.blocks.options) };
        std::mem::replace(&mut self.blocks, next).ready
    }

    /// Sets another width. Lines that were handed out stay as they are.
    pub fn resized(&mut self, width: usize) {
        self.blocks.options.width = width;
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
fn is_undecided(line: &str) -> bool {
    line.chars().all(|c| c.is_ascii_digit() || " \t\r#>-=+*_`~|:.)[".contains(c))
}

fn end_of(line: &str) -> &str {
    let mut from = line.len().saturating_sub(MOST_LIVE);
    while !line.is_char_boundary(from) {
        from += 1;
    }
    &line[from..]
}

/// Prose is not wider than this, because long lines are hard to read.
const WIDEST_PROSE: usize = 100;

impl Blocks {
    /// Hands out a line within the open containers.
    pub(super) fn emit(&mut self, content: Line) {
        self.separate();
        let prefix = self.prefix();
        self.hand_out(prefix, content);
    }

    /// Hands out prose, broken between words. Addresses stay in one piece.
    pub(super) fn emit_prose(&mut self, content: &Line, hanging: &str) {
        let room = self.room(WIDEST_PROSE);
        content.wrap_prose(room, hanging).into_iter().for_each(|line| self.emit(line));
    }

    /// Hands out a line of code: nothing but quotes stands before it, so that code
    /// within a list can be copied as it is.
    pub(super) fn emit_code(&mut self, content: Line) {
        if self.open.iter().any(|c| matches!(c, Container::Item(item) if !item.shown)) {
            self.emit(Line::empty());
        }
        self.separate();
        let mut prefix = Line::empty();
        for container in &self.open {
            if matches!(container, Container::Quote) {
                prefix.push(quote());
            }
        }
        self.hand_out(prefix, content);
    }

    /// Returns how many columns are left for what is within the open containers.
    pub(super) fn room(&self, widest: usize) -> usize {
        let taken: usize = self.visible().map(Container::width).sum();
        self.options.width.min(widest).saturating_sub(taken).max(1)
    }

    /// Hands out the blank line that the source has here.
    fn separate(&mut self) {
        let Some(depth) = self.blank.take() else { return };
        if !self.begun {
            return;
        }
        let mut prefix = Line::empty();
        for container in self.visible().take(depth) {
            prefix.push(match container {
                Container::Quote => quote(),
                Container::Item(_) => Span::plain(" ".repeat(container.width())),
            });
        }
        self.hand_out(prefix, Line::empty());
    }

    /// The containers whose marks are shown: at most half of the columns are for them.
    fn visible(&self) -> impl Iterator<Item = &Container> {
        let mut taken = 0;
        let most = self.options.width / 2;
        self.open.iter().take_while(move |container| {
            taken += container.width();
            taken <= most
        })
    }

    fn prefix(&mut self) -> Line {
        let mut prefix = Line::empty();
        for container in self.visible() {
            let width = container.width();
            prefix.push(match container {
                Container::Quote => quote(),
                Container::Item(item) if item.shown => Span::plain(" ".repeat(width)),
                Container::Item(item) => Span::plain(&item.mark),
            });
        }
        for container in &mut self.open {
            if let Container::Item(item) = container {
                item.shown = true;
            }
        }
        prefix
    }

    fn hand_out(&mut self, prefix: Line, content: Line) {
        let mut line = if content.is_empty() { trimmed(&prefix) } else { prefix };
        line.append(content);
        self.begun = true;
        self.ready.push(line);
    }
}

fn quote() -> Span {
    Span::new("> ", style::DIM)
}

/// Returns a line without the spaces at its end.
pub(super) fn trimmed(line: &Line) -> Line {
    let mut left = line.text().trim_end().len();
    let mut kept = Line::empty();
    for span in line.spans() {
        let text = &span.text()[..left.min(span.text().len())];
        kept.push(Span::new(text, span.style()));
        left -= text.len();
    }
    kept
}
