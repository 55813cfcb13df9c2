//! Long lines as several short ones.

use super::cells::Cell;
use super::{Line, Span};

impl Line {
    /// Returns the line as lines of at most `width` columns. They are broken between
    /// words where that is possible, and never within what a reader sees as one
    /// character; all but the first begin with `hanging`.
    pub fn wrap(&self, width: usize, hanging: &str) -> Vec<Self> {
        let width = width.max(1);
        let hanging = Self::from(Span::plain(hanging));
        // An indent that leaves no room for words is none.
        let hanging = if hanging.width() * 2 > width { Self::empty() } else { hanging };
        let cells: Vec<_> = self.cells().collect();
        let mut lines = Vec::new();
        let mut rest = &cells[..];
        let mut room = width;
        loop {
            let (taken, left) = take(rest, room);
            let mut line = if lines.is_empty() { Self::empty() } else { hanging.clone() };
            line.extend_cells(taken);
            lines.push(line);
            if left.is_empty() {
                return lines;
            }
            rest = left;
            room = width - hanging.width();
        }
    }
}

/// Takes what fits into a line; what is left does not begin with spaces.
fn take<'c, 't>(cells: &'c [Cell<'t>], room: usize) -> (&'c [Cell<'t>], &'c [Cell<'t>]) {
    let mut used = 0;
    let fits = cells.iter().take_while(|cell| {
        used += cell.width;
        used <= room
    });
    // What is wider than the whole line must go somewhere.
    let fits = fits.count().max(1);
    if fits >= cells.len() {
        return (cells, &[]);
    }
    let mut end = fits;
    while end > 0 && !may_break(cells, end) {
        end -= 1;
    }
    if trimmed(&cells[..end]).is_empty() {
        // One word: between any two characters then, but not before what has no
        // width of its own.
        end = fits;
        while end < cells.len() && cells[end].width == 0 {
            end += 1;
        }
    }
    let left = &cells[end..];
    let spaces = left.iter().take_while(|cell| cell.is_space()).count();
    (trimmed(&cells[..end]), &left[spaces..])
}

/// Returns whether a line may end before the cell at `at`.
fn may_break(cells: &[Cell<'_>], at: usize) -> bool {
    let (before, after) = (&cells[at - 1], &cells[at]);
    // Scripts with wide characters put no spaces between words.
    after.is_space()
        || (after.width > 0 && (before.width > 1 || after.width > 1) && !closes(after.text))
}

/// Whether a line should not begin with this.
fn closes(text: &str) -> bool {
    matches!(
        text,
        "、" | "。" | "，" | "．" | "！" | "？" | "：" | "；" | "）" | "」" | "』" | "】" | "》"
    ) || matches!(text, "." | "," | "!" | "?" | ":" | ";" | ")" | "]" | "}" | "\"" | "'" | "…")
}

fn trimmed<'c, 't>(cells: &'c [Cell<'t>]) -> &'c [Cell<'t>] {
    let kept = cells.iter().rposition(|cell| !cell.is_space()).map_or(0, |last| last + 1);
    &cells[..kept]
}
