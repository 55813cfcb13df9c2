//! Drawing a frame.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::mem;

use crate::screen::{CursorPosition, Drawn, LiveArea, Screen};
use crate::style::Colour;
use crate::text::{Grapheme, Line};

impl<W: Write> Screen<W> {
    /// Writes lines printed since the last frame, and the live area below them. Writes
    /// nothing if nothing has changed.
    pub fn draw(&mut self, view: &LiveArea) -> io::Result<()> {
        let next = view.fitted(self.columns(), self.live_rows());
        let anew = self.stale || !self.printed.is_empty();
        if !anew && next == self.drawn {
            return Ok(());
        }
        let anew = anew || self.drawn.lines.is_empty();
        self.frame.begin();
        let row = if anew { self.write_all(&next) } else { self.write_changes(&next) };
        self.put_cursor(&next, row);
        self.above = next.place.row;
        self.folded = false;
        self.drawn = next;
        // After a failed write, the content of the terminal is unknown.
        self.stale = true;
        if self.drawn.is_visible() {
            self.frame.end(&mut self.out)?;
        } else {
            self.frame.end_hidden(&mut self.out)?;
        }
        self.stale = false;
        Ok(())
    }

    /// Writes everything; returns the row of the live area that it ends in.
    fn write_all(&mut self, next: &Drawn) -> usize {
        self.frame.go_to(self.above, 0);
        self.frame.erase_below();
        for line in mem::take(&mut self.printed) {
            self.frame.line(&line, self.colour);
            self.frame.end_line();
        }
        for (row, line) in next.lines.iter().enumerate() {
            if row > 0 {
                self.frame.end_line();
            }
            self.frame.line(line, self.colour);
        }
        next.lines.len().saturating_sub(1)
    }

    /// Writes the rows that are not as they were; returns the one that it ends in.
    fn write_changes(&mut self, next: &Drawn) -> usize {
        let mut at = self.above;
        let before = &self.drawn.lines;
        for (row, (new, old)) in next.lines.iter().zip(before).enumerate() {
            if new != old {
                self.frame.go_to(at, row);
                self.frame.erase_row();
                self.frame.line(new, self.colour);
                at = row;
            }
        }
        if next.lines.len() < before.len() {
            self.frame.go_to(at, next.lines.len());
            self.frame.erase_below();
            at = next.lines.len();
        }
        for (row, line) in next.lines.iter().enumerate().skip(before.len()) {
            self.frame.go_to(at, row - 1);
            self.frame.end_line();
            self.frame.line(line, self.colour);
            at = row;
        }
        at
    }

    /// Puts the cursor to its place. Terminals do not agree how wide some characters
    /// are: so what is before the cursor is written once more, and it stands behind
    /// that wherever that may end.
    fn put_cursor(&mut self, next: &Drawn, at: usize) {
        let CursorPosition { row, column, .. } = next.place;
        self.frame.go_to(at, row);
        let mut left = column;
        if let Some(line) = next.lines.get(row).filter(|line| !line.is_ascii()) {
            let before: Vec<_> = line
                .cells()
                .take_while(|cell| {
                    let fits = cell.width <= left;
                    left -= if fits { cell.width } else { 0 };
                    fits
                })
                .collect();
            self.frame.line(&Line::of_cells(&before), self.colour);
        }
        self.frame.forward(left);
    }
}

/// How much memory is kept from one frame to the next.
const KEPT: usize = 64 << 10;

/// The bytes of one frame.
#[derive(Debug, Default)]
pub(super) struct Frame {
    bytes: String,
}

impl Frame {
    /// Begins a frame that the terminal shows at once, and without its cursor
    /// running about.
    pub(super) fn begin(&mut self) {
        self.bytes.push_str("\x1b[?2026h\x1b[?25l");
    }

    /// Ends the frame, and writes it.
    pub(super) fn end(&mut self, out: &mut impl Write) -> io::Result<()> {
        self.bytes.push_str("\x1b[?25h");
        self.end_hidden(out)
    }

    /// As [`Frame::end`], and the cursor stays hidden.
    pub(super) fn end_hidden(&mut self, out: &mut impl Write) -> io::Result<()> {
        self.bytes.push_str("\x1b[?2026l");
        let written = out.write_all(self.bytes.as_bytes()).and_then(|()| out.flush());
        // One long answer should not be kept for as long as the program runs.
        self.bytes.clear();
        self.bytes.shrink_to(KEPT);
        written
    }

    #[cfg(test)]
    pub(super) fn memory(&self) -> usize {
        self.bytes.capacity()
    }

    pub(super) fn line(&mut self, line: &Line, colour: Colour) {
        line.write_ansi(&mut self.bytes, colour);
    }

    /// Goes to the beginning of the next row, which may have to be made.
    pub(super) fn end_line(&mut self) {
        self.bytes.push_str("\r\n");
    }

    /// Goes to the beginning of a row, seen from the one it is in.
    pub(super) fn go_to(&mut self, from: usize, to: usize) {
        self.bytes.push('\r');
        if to > from {
            self.command(to - from, 'B');
        } else {
            self.command(from - to, 'A');
        }
    }

    /// Goes to the right.
    pub(super) fn forward(&mut self, columns: usize) {
        self.command(columns, 'C');
    }

    pub(super) fn home(&mut self) {
        self.bytes.push_str("\x1b[H");
    }

    pub(super) fn erase_row(&mut self) {
        self.bytes.push_str("\x1b[2K");
    }

    pub(super) fn erase_below(&mut self) {
        self.bytes.push_str("\x1b[J");
    }

    fn command(&mut self, count: usize, command: char) {
        if count > 0 {
            // Writing to a string cannot fail.
            write!(self.bytes, "\x1b[{count}{command}").unwrap_or_default();
        }
    }
}

/// Where a terminal is after some characters.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Fold {
    /// How many rows it went down.
    pub(super) row: usize,
    /// The column it is in; as many as there are when the row is full.
    column: usize,
}

impl Fold {
    /// Folds all of a line.
    pub(super) fn of<'a>(cells: impl Iterator<Item = Grapheme<'a>>, columns: usize) -> Self {
        let mut fold = Self::default();
        for cell in cells {
            fold.put(cell.narrowest(), columns);
        }
        fold
    }

    /// Folds so much of a line as is before the cursor.
    pub(super) fn up_to<'a>(
        cells: impl Iterator<Item = Grapheme<'a>>,
        width: usize,
        columns: usize,
    ) -> Self {
        let mut fold = Self::default();
        let mut left = width;
        let (mut more, mut blank) = (false, false);
        for cell in cells {
            if cell.width > left {
                more = true;
                break;
            }
            left -= cell.width;
            blank = cell.is_space();
            fold.put(cell.narrowest(), columns);
        }
        // At the end of a full row, the cursor stays there; before what follows it
        // goes along with that.
        if more {
            fold.put(1, columns);
        }
        // Some terminals forget, where the cursor is concerned, that a wide character
        // may not have fitted at the end of a row, and do not fold blanks. To go up too
        // little leaves something over; to go up too much would take away what was said.
        let moves_on = more || !blank;
        let simple = if moves_on { width } else { width.saturating_sub(1) } / columns;
        fold.row = fold.row.min(simple);
        fold
    }

    /// Returns how many rows the line takes.
    pub(super) fn rows(self) -> usize {
        self.row + 1
    }

    fn put(&mut self, width: usize, columns: usize) {
        if self.column + width > columns && self.column > 0 {
            self.row += 1;
            self.column = 0;
        }
        self.column += width;
    }
}
