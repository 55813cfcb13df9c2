//! What one frame sends to the terminal, in one write.

use std::fmt::Write as _;
use std::io::{self, Write};

use crate::style::Colour;
use crate::text::Line;

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
