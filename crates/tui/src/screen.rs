//! Lines that stay, and below them lines that change.
//!
//! Printed lines are written once and then belong to the terminal, which scrolls, selects
//! and searches them. Only the live area at the bottom is redrawn. Its position is not
//! tracked, only how far the cursor is below its top.

mod draw;

use std::io::{self, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::key::clipboard;
use crate::screen::draw::{Fold, Frame};
use crate::style::Colour;
use crate::text::{Line, Size};

/// What a terminal does with its lines when it becomes narrower or wider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reflow {
    /// It wraps them again, as nearly all do.
    Yes,
    /// It cuts them off, as xterm and the Linux console do.
    No,
}

/// Bytes that terminals take for the clipboard: 100,000 characters of base64 in xterm and others.
const MOST_COPIED: usize = 74_000;

/// The part of a terminal that is ours.
#[derive(Debug)]
pub struct Screen<W: Write> {
    out: W,
    size: Size,
    colour: Colour,
    reflow: Reflow,
    /// Lines printed since the last frame.
    printed: Vec<Line>,
    /// The live area as it was drawn.
    drawn: Drawn,
    /// Rows between the top of the live area and the cursor.
    above: usize,
    /// Whether what is on the terminal may differ from what was drawn.
    stale: bool,
    /// Whether the terminal has had another width since it was drawn.
    folded: bool,
    /// Kept for its memory.
    frame: Frame,
}

impl<W: Write> Screen<W> {
    /// Returns the screen of a terminal whose cursor is at the start of a line. Writes
    /// nothing yet.
    pub fn new(out: W, size: Size, colour: Colour) -> Self {
        Self {
            out,
            size,
            colour,
            reflow: Reflow::Yes,
            printed: Vec::new(),
            drawn: Drawn::default(),
            above: 0,
            stale: false,
            folded: false,
            frame: Frame::default(),
        }
    }

    /// Returns the screen with another idea of what the terminal does when its width
    /// changes.
    #[must_use]
    pub fn with_reflow(mut self, reflow: Reflow) -> Self {
        self.reflow = reflow;
        self
    }

    /// Returns how large the terminal is.
    pub fn size(&self) -> Size {
        self.size
    }

    /// Returns how many lines the live area may have.
    pub fn live_rows(&self) -> usize {
        usize::from(self.size.rows).saturating_sub(1).max(1)
    }

    /// Prints a line: the next frame writes it above the live area, where it stays.
    pub fn print(&mut self, line: Line) {
        self.printed.push(line);
    }

    /// Sets the size of the terminal; with the same size, everything is redrawn.
    pub fn resized(&mut self, size: Size) {
        let is_folded_anew = size.columns != self.size.columns && self.reflow == Reflow::Yes;
        self.size = size;
        self.stale = true;
        if is_folded_anew {
            let folded = if self.folded { Folded::Repeatedly } else { Folded::Once };
            self.above = self.drawn.rows_above(self.columns(), folded);
            self.folded = true;
        }
    }

    /// Writes printed lines and removes the live area; the cursor is then at the start of an
    /// empty line, for others to write.
    pub fn clear(&mut self) -> io::Result<()> {
        if self.drawn.lines.is_empty() && self.printed.is_empty() && self.drawn.is_visible() {
            return Ok(());
        }
        self.stale = true;
        self.draw(&LiveArea { lines: Vec::new(), cursor: Some((0, 0)) })
    }

    /// Moves everything visible into the scroll-back and continues at the top of an empty
    /// screen.
    pub fn clear_screen(&mut self) -> io::Result<()> {
        self.clear()?;
        self.frame.begin();
        // So many ends of lines move everything above the cursor out of sight, and
        // no empty line with it.
        for _ in 1..self.size.rows {
            self.frame.end_line();
        }
        self.frame.home();
        // Not from the first row: tmux treats erasing from there as clearing the screen and
        // keeps its content.
        self.frame.end_line();
        self.frame.end(&mut self.out)
    }

    /// Rings the bell.
    pub fn bell(&mut self) -> io::Result<()> {
        self.out.write_all(b"\x07")?;
        self.out.flush()
    }

    /// Asks the terminal to put a text into the clipboard (OSC 52). It does not say whether it does.
    /// Returns whether the text was short enough to be asked for.
    pub fn copy(&mut self, text: &str) -> io::Result<bool> {
        if text.len() > MOST_COPIED {
            return Ok(false);
        }
        let encoded = STANDARD.encode(text);
        self.out.write_all(format!("\x1b]52;c;{encoded}\x07").as_bytes())?;
        self.out.flush()?;
        Ok(true)
    }

    /// Asks whether the terminal can be asked for its clipboard; it answers with
    /// [`ClipboardReply::Support`], or not at all.
    ///
    /// [`ClipboardReply::Support`]: crate::ClipboardReply::Support
    pub fn ask_clipboard_support(&mut self) -> io::Result<()> {
        self.out.write_all(clipboard::ASK_SUPPORT.as_bytes())?;
        self.out.flush()
    }

    /// Asks the terminal for what its clipboard has of these kinds. It may ask the user first.
    pub fn ask_clipboard(&mut self, kinds: &[&str]) -> io::Result<()> {
        self.out.write_all(clipboard::ask_for(kinds).as_bytes())?;
        self.out.flush()
    }

    /// Returns where it writes to.
    pub fn out(&self) -> &W {
        &self.out
    }

    fn columns(&self) -> usize {
        usize::from(self.size.columns).max(1)
    }
}

/// The live area: its lines and the position of the cursor.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LiveArea {
    /// The lines. Those that are wider than the terminal are cut; where there are
    /// more than fit, those around the cursor are shown.
    pub lines: Vec<Line>,
    /// The row and the column of the cursor; it is hidden when there is none.
    pub cursor: Option<(usize, usize)>,
}

impl LiveArea {
    /// Returns the view with the lines of another one below it, and its cursor.
    #[must_use]
    pub fn above(mut self, other: Self) -> Self {
        let rows = self.lines.len();
        self.lines.extend(other.lines);
        self.cursor = other.cursor.map(|(row, column)| (rows + row, column)).or(self.cursor);
        self
    }

    /// Returns what of the view is drawn on so many columns and at most so many rows.
    fn fitted(&self, columns: usize, rows: usize) -> Drawn {
        let last_row = self.lines.len().saturating_sub(1);
        let typed_in = self.cursor.map(|(row, _)| row.min(last_row));
        // The end is what matters most, but not more than what is being typed.
        let last = self.lines.len().saturating_sub(rows);
        let first = typed_in.map_or(last, |row| row.min(last));
        let mut lines: Vec<_> = self.lines.iter().skip(first).take(rows).collect();
        let mut place =
            CursorPosition { row: lines.len().saturating_sub(1), column: 0, hidden: true };
        if let Some((row, (_, column))) = typed_in.zip(self.cursor) {
            let column = column.min(columns - 1);
            let column = self.lines.get(row).map_or(0, |line| line.boundary_before(column));
            place = CursorPosition { row: row - first, column, hidden: false };
        }
        // Blanks at the end of a line are not seen, but some terminals keep them when
        // they fold it and some do not.
        let lines = lines.drain(..).enumerate().map(|(row, line)| {
            let seen = if row == place.row { place.column } else { 0 };
            line.cut_to_be_safe(columns).without_blanks_after(seen)
        });
        Drawn { lines: lines.collect(), place }
    }
}

/// The live area as it is on the terminal.
#[derive(Debug, Default, PartialEq, Eq)]
struct Drawn {
    lines: Vec<Line>,
    place: CursorPosition,
}

/// Where the cursor is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct CursorPosition {
    row: usize,
    column: usize,
    hidden: bool,
}

impl Drawn {
    fn is_visible(&self) -> bool {
        !self.place.hidden
    }

    /// Returns the rows between the top and the cursor after a terminal of this width has
    /// wrapped the lines again.
    fn rows_above(&self, columns: usize, folded: Folded) -> usize {
        let whole = self.lines.iter().take(self.place.row);
        let whole: usize = whole.map(|line| Fold::of(line.cells(), columns).rows()).sum();
        let line = self.lines.get(self.place.row).filter(|_| folded == Folded::Once);
        let part = line.map_or(0, |line| Fold::up_to(line.cells(), self.place.column, columns).row);
        whole + part
    }
}

/// How often a terminal has wrapped the lines again since they were drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Folded {
    Once,
    /// Some terminals then lose the cursor: it is in its line, but the row within it is
    /// unknown.
    Repeatedly,
}

#[cfg(test)]
#[path = "screen_tests.rs"]
mod tests;
