//! Lines that must not be wider than so and so much.

use super::cells::Cell;
use super::{Line, Style};

const MORE: &str = "…";

impl Line {
    /// Returns the line as it fits into `width` columns; one that does not fit ends
    /// in `…`.
    #[must_use]
    pub fn cut(&self, width: usize) -> Self {
        self.cut_by(width, |cell| cell.width)
    }

    /// As [`Line::cut`], with room for terminals that give every character of an
    /// emoji its own place.
    pub(crate) fn cut_to_be_safe(&self, width: usize) -> Self {
        self.cut_by(width, |cell| cell.width.max(cell.width_apart()))
    }

    /// Returns the line without the blanks at its end that are after so many columns.
    pub(crate) fn without_blanks_after(mut self, column: usize) -> Self {
        let mut width = self.width();
        while let Some(last) = self.spans.last_mut().filter(|_| width > column) {
            if last.style != Style::new() || !last.text.ends_with(' ') {
                break;
            }
            last.text.pop();
            width -= 1;
            if last.text.is_empty() {
                self.spans.pop();
            }
        }
        self
    }

    fn cut_by(&self, width: usize, measure: impl Fn(&Cell<'_>) -> usize) -> Self {
        let mut kept = Vec::new();
        // How many of the cells leave room for the mark.
        let mut before_mark = 0;
        let mut used = 0;
        for cell in self.cells() {
            used += measure(&cell);
            if used > width {
                kept.truncate(before_mark);
                // The mark is dropped where not even it fits.
                kept.extend((width > 0).then_some(Cell { text: MORE, width: 1, ..cell }));
                return Self::of_cells(&kept);
            }
            kept.push(cell);
            if used < width {
                before_mark = kept.len();
            }
        }
        self.clone()
    }
}
