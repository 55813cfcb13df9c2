//! Drawing a frame.

use std::io::{self, Write};
use std::mem;

use super::view::{Drawn, Place};
use super::{Screen, View};
use crate::text::Line;

impl<W: Write> Screen<W> {
    /// Writes what was said since the last frame, and the live area below it. Writes
    /// nothing when nothing has changed.
    pub fn draw(&mut self, view: &View) -> io::Result<()> {
        let next = view.fitted(self.columns(), self.live_rows());
        let anew = self.stale || !self.said.is_empty();
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
        // Should the write fail, nobody knows what the terminal shows.
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
        for line in mem::take(&mut self.said) {
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
        let Place { row, column, .. } = next.place;
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
