//! Lines that stay, and below them lines that change.
//!
//! What is said is written once and is then the terminal's: it scrolls, it is
//! selected and searched as all else there. Only the live area at the bottom is
//! written again. Nothing is remembered of where on the terminal it is: only how
//! far the cursor stands below its top.

mod draw;
mod fold;
mod frame;
mod view;

use std::io::{self, Write};

use self::frame::Frame;
pub use self::view::View;
use self::view::{Drawn, Folded};
use crate::style::Colour;
use crate::text::{Line, Size};

/// What a terminal does with its lines when it becomes narrower or wider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reflow {
    /// It folds them anew, as nearly all do.
    Yes,
    /// It cuts them off, as xterm and the Linux console do.
    No,
}

/// The part of a terminal that is ours.
#[derive(Debug)]
pub struct Screen<W: Write> {
    out: W,
    size: Size,
    colour: Colour,
    reflow: Reflow,
    /// What has been said since the last frame.
    said: Vec<Line>,
    /// The live area as it was drawn.
    drawn: Drawn,
    /// How many rows the cursor stands below the top of the live area.
    above: usize,
    /// Whether what is on the terminal may differ from what was drawn.
    stale: bool,
    /// Whether the terminal has had another width since it was drawn.
    folded: bool,
    /// Kept for its memory.
    frame: Frame,
}

impl<W: Write> Screen<W> {
    /// Returns the screen of a terminal whose cursor stands at the beginning of a
    /// line. Nothing is written yet.
    pub fn new(out: W, size: Size, colour: Colour) -> Self {
        Self {
            out,
            size,
            colour,
            reflow: Reflow::Yes,
            said: Vec::new(),
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

    /// Says a line: the next frame writes it above the live area, where it stays.
    pub fn print(&mut self, line: Line) {
        self.said.push(line);
    }

    /// Says that the terminal has another size; with the same size, that all is to be
    /// drawn again.
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

    /// Writes what was said since, and takes the live area away: the cursor stands at
    /// the beginning of an empty line, for others to write.
    pub fn clear(&mut self) -> io::Result<()> {
        if self.drawn.lines.is_empty() && self.said.is_empty() && self.drawn.is_visible() {
            return Ok(());
        }
        self.stale = true;
        self.draw(&View { lines: Vec::new(), cursor: Some((0, 0)) })
    }

    /// Moves all that is seen into the scroll-back, and begins at the top of an empty
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
        // Not in the very first row: tmux takes whoever erases from there on for
        // somebody who clears the screen, and keeps what was there.
        self.frame.end_line();
        self.frame.end(&mut self.out)
    }

    /// Rings the bell.
    pub fn bell(&mut self) -> io::Result<()> {
        self.out.write_all(b"\x07")?;
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

#[cfg(test)]
#[path = "screen/tests.rs"]
mod tests;
