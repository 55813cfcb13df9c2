//! Tables that fit the terminal.

use super::emit::trimmed;
use super::table::Alignment;
use crate::style;
use crate::text::{Line, Span, width};

const BAR: &str = " │ ";
const RULE: &str = "─";
const CROSS: &str = "─┼─";

/// Columns narrower than this cannot be read; then each cell gets its own line.
const NARROWEST: usize = 8;

/// What is in a cell.
#[derive(Debug, Clone)]
pub(super) struct Cell(Line);

impl Cell {
    pub(super) fn new(lines: Vec<Line>) -> Self {
        let mut cell = Line::empty();
        for line in lines {
            cell.append(line);
        }
        Self(cell)
    }
}

/// How the rows of a table are shown.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    header: Vec<Cell>,
    alignments: Vec<Alignment>,
    form: Form,
}

#[derive(Debug, Clone)]
enum Form {
    /// Side by side, in columns of these widths.
    Columns { widths: Vec<usize>, between: Between },
    /// Below each other, each with its column's name, in so many columns.
    Records { room: usize },
}

/// What stands between two rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Between {
    Nothing,
    /// Rows of several lines would run into each other.
    Rule,
}

impl Layout {
    /// Returns the layout that suits these rows best.
    pub(super) fn new(
        header: Vec<Cell>,
        alignments: Vec<Alignment>,
        rows: &[Vec<Cell>],
        room: usize,
    ) -> Self {
        let mut wanted: Vec<_> = header.iter().map(|cell| cell.0.width()).collect();
        for row in rows {
            for (wanted, cell) in wanted.iter_mut().zip(row) {
                *wanted = (*wanted).max(cell.0.width());
            }
        }
        let columns = wanted.len();
        let room_for_words = room.saturating_sub(width(BAR) * columns.saturating_sub(1));
        let form = if wanted.iter().sum::<usize>() <= room_for_words {
            Form::Columns { widths: wanted, between: Between::Nothing }
        } else {
            match fitted(&wanted, room_for_words) {
                Some(widths) => Form::Columns { widths, between: Between::Rule },
                None => Form::Records { room },
            }
        };
        Self { header, alignments, form }
    }

    /// Returns what stands above the rows.
    pub(super) fn head(&self) -> Vec<Line> {
        match &self.form {
            Form::Columns { widths, .. } => {
                let mut lines = self.side_by_side(&self.header, widths);
                lines.push(rule(widths));
                lines
            }
            Form::Records { .. } => Vec::new(),
        }
    }

    /// Returns a row.
    pub(super) fn row(&self, row: &[Cell], first: bool) -> Vec<Line> {
        match &self.form {
            Form::Columns { widths, between } => {
                let mut lines = Vec::new();
                if *between == Between::Rule && !first {
                    lines.push(rule(widths));
                }
                lines.extend(self.side_by_side(row, widths));
                lines
            }
            Form::Records { room } => {
                let mut lines = Vec::new();
                if !first {
                    lines.push(Line::styled(RULE.repeat((*room).min(20)), style::DIM));
                }
                for (name, cell) in self.header.iter().zip(row) {
                    let mut line = name.0.clone();
                    line.push(Span::new(": ", style::BOLD));
                    line.append(cell.0.clone());
                    lines.extend(line.wrap(*room, "  "));
                }
                lines
            }
        }
    }

    fn side_by_side(&self, row: &[Cell], widths: &[usize]) -> Vec<Line> {
        let wrapped: Vec<_> =
            row.iter().zip(widths).map(|(cell, width)| cell.0.wrap(*width, "")).collect();
        let height = wrapped.iter().map(Vec::len).max().unwrap_or(0);
        let mut lines = Vec::new();
        for at in 0..height {
            let mut line = Line::empty();
            for (column, width) in widths.iter().enumerate() {
                let cell = wrapped.get(column).and_then(|cell| cell.get(at)).cloned();
                let alignment = self.alignments.get(column).copied().unwrap_or(Alignment::Left);
                if column > 0 {
                    line.push(Span::new(BAR, style::DIM));
                }
                line.append(aligned(cell.unwrap_or_default(), *width, alignment));
            }
            lines.push(trimmed(&line));
        }
        lines
    }
}

/// Returns a cell's line with spaces around it.
fn aligned(cell: Line, width: usize, alignment: Alignment) -> Line {
    let spare = width.saturating_sub(cell.width());
    let before = match alignment {
        Alignment::Left => 0,
        Alignment::Centre => spare / 2,
        Alignment::Right => spare,
    };
    let mut line = cell.prefixed(Span::plain(" ".repeat(before)));
    line.push(Span::plain(" ".repeat(spare - before)));
    line
}

fn rule(widths: &[usize]) -> Line {
    let parts: Vec<_> = widths.iter().map(|width| RULE.repeat(*width)).collect();
    Line::styled(parts.join(CROSS), style::DIM)
}

/// Returns widths that fit into the room: narrow columns keep what they want, the
/// others share the rest.
fn fitted(wanted: &[usize], room: usize) -> Option<Vec<usize>> {
    let mut order: Vec<_> = (0..wanted.len()).collect();
    order.sort_by_key(|column| wanted[*column]);
    let mut widths = vec![0; wanted.len()];
    let mut left = room;
    for (done, column) in order.iter().enumerate() {
        let share = left / (wanted.len() - done);
        if share < wanted[*column] && share < NARROWEST {
            return None;
        }
        widths[*column] = wanted[*column].min(share);
        left -= widths[*column];
    }
    Some(widths)
}
