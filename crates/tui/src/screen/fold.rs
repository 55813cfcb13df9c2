//! How a terminal folds a line that is wider than it.

use crate::text::Cell;

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
    pub(super) fn of<'a>(cells: impl Iterator<Item = Cell<'a>>, columns: usize) -> Self {
        let mut fold = Self::default();
        for cell in cells {
            fold.put(cell.narrowest(), columns);
        }
        fold
    }

    /// Folds so much of a line as is before the cursor.
    pub(super) fn up_to<'a>(
        cells: impl Iterator<Item = Cell<'a>>,
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
