//! What the live area shows.

use super::fold::Fold;
use crate::text::Line;

/// The live area: its lines, and where the cursor stands in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct View {
    /// The lines. Those that are wider than the terminal are cut; where there are
    /// more than fit, those around the cursor are shown.
    pub lines: Vec<Line>,
    /// The row and the column of the cursor; it is hidden when there is none.
    pub cursor: Option<(usize, usize)>,
}

impl View {
    /// Returns the view with the lines of another one below it, and its cursor.
    #[must_use]
    pub fn above(mut self, other: Self) -> Self {
        let rows = self.lines.len();
        self.lines.extend(other.lines);
        self.cursor = other.cursor.map(|(row, column)| (rows + row, column)).or(self.cursor);
        self
    }

    /// Returns what of the view is drawn on so many columns and at most so many rows.
    pub(super) fn fitted(&self, columns: usize, rows: usize) -> Drawn {
        let last_row = self.lines.len().saturating_sub(1);
        let typed_in = self.cursor.map(|(row, _)| row.min(last_row));
        // The end is what matters most, but not more than what is being typed.
        let last = self.lines.len().saturating_sub(rows);
        let first = typed_in.map_or(last, |row| row.min(last));
        let mut lines: Vec<_> = self.lines.iter().skip(first).take(rows).collect();
        let mut place = Place { row: lines.len().saturating_sub(1), column: 0, hidden: true };
        if let Some((row, (_, column))) = typed_in.zip(self.cursor) {
            let column = column.min(columns - 1);
            let column = self.lines.get(row).map_or(0, |line| line.boundary_before(column));
            place = Place { row: row - first, column, hidden: false };
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
pub(super) struct Drawn {
    pub(super) lines: Vec<Line>,
    pub(super) place: Place,
}

/// Where the cursor is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) row: usize,
    pub(super) column: usize,
    pub(super) hidden: bool,
}

impl Drawn {
    pub(super) fn is_visible(&self) -> bool {
        !self.place.hidden
    }

    /// Returns how many rows are between the top and the cursor, once a terminal of
    /// so many columns has folded the lines anew.
    pub(super) fn rows_above(&self, columns: usize, folded: Folded) -> usize {
        let whole = self.lines.iter().take(self.place.row);
        let whole: usize = whole.map(|line| Fold::of(line.cells(), columns).rows()).sum();
        let line = self.lines.get(self.place.row).filter(|_| folded == Folded::Once);
        let part = line.map_or(0, |line| Fold::up_to(line.cells(), self.place.column, columns).row);
        whole + part
    }
}

/// How often a terminal has folded the lines anew since they were drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Folded {
    Once,
    /// Some terminals lose their cursor then: it is in its line, and nobody can tell
    /// how far down in it.
    Repeatedly,
}
