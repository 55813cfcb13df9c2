//! Long lines as several short ones.
//!
//! An address is a word that people open with a click, which finds it only where it
//! is in one piece. So prose can keep one that is wider than a line as it is: the
//! terminal folds it, and knows that it is one.

use super::cells::Cell;
use super::{Line, Span};

/// So far from the beginning of a word an address begins at most, what stands
/// before it and the name of its scheme included.
const LONGEST_SCHEME: usize = 32;

impl Line {
    /// Returns the line as lines of at most `width` columns. They are broken between
    /// words where that is possible, and never within what a reader sees as one
    /// character; all but the first begin with `hanging`.
    pub fn wrap(&self, width: usize, hanging: &str) -> Vec<Self> {
        self.broken(width, hanging, Addresses::Broken)
    }

    /// As [`Line::wrap`], but an address that does not fit into a line is a line of its
    /// own, wider than the others. It is for lines that are said: the live area cuts
    /// what is too wide.
    pub fn wrap_prose(&self, width: usize, hanging: &str) -> Vec<Self> {
        self.broken(width, hanging, Addresses::Whole)
    }

    fn broken(&self, width: usize, hanging: &str, addresses: Addresses) -> Vec<Self> {
        let width = width.max(1);
        let hanging = Self::from(Span::plain(hanging));
        // An indent that leaves no room for words is none.
        let hanging = if hanging.width() * 2 > width { Self::empty() } else { hanging };
        let cells: Vec<_> = self.cells().collect();
        let mut lines = Vec::new();
        let mut rest = &cells[..];
        let mut room = width;
        loop {
            let (taken, left) = take(rest, room, addresses);
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

/// What becomes of an address that is wider than a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Addresses {
    /// It is broken as any other word.
    Broken,
    /// It stays in one piece.
    Whole,
}

/// Takes what fits into a line; what is left does not begin with spaces.
fn take<'c, 't>(
    cells: &'c [Cell<'t>],
    room: usize,
    addresses: Addresses,
) -> (&'c [Cell<'t>], &'c [Cell<'t>]) {
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
        if addresses == Addresses::Whole {
            end = address(cells).map_or(end, |address| end.max(address));
        }
    }
    let left = &cells[end..];
    let spaces = left.iter().take_while(|cell| cell.is_space()).count();
    (trimmed(&cells[..end]), &left[spaces..])
}

/// Returns where the first word ends, if it is an address: if there is `scheme://`
/// near its beginning. The rest of other words is not looked at.
fn address(cells: &[Cell<'_>]) -> Option<usize> {
    let start = cells.iter().position(|cell| !cell.is_space())?;
    let head: String = cells[start..].iter().take(LONGEST_SCHEME).map(|cell| cell.text).collect();
    let scheme = head.split_once("://")?.0;
    if !scheme.ends_with(|c: char| c.is_ascii_alphanumeric()) || scheme.contains(' ') {
        return None;
    }
    let end = (start + 1..cells.len()).find(|at| may_break(cells, *at));
    Some(end.unwrap_or(cells.len()))
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
