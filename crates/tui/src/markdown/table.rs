//! Tables: reading their rows and laying out their columns.

use crate::markdown::blocks::{Blocks, Leaf};
use crate::markdown::inline;
use crate::markdown::stream::trimmed;
use crate::style;
use crate::text::{Line, Span, width};

/// When so many rows, or so many bytes, have come, the widths of the columns are
/// settled, and later rows have to fit.
const MOST_ROWS: usize = 100;
const MOST_BYTES: usize = 16 * 1024;

/// More columns are not shown.
const MOST_COLUMNS: usize = 64;

/// To which side of its column a cell is put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Alignment {
    Left,
    Centre,
    Right,
}

/// A table that may continue.
#[derive(Debug, Clone)]
pub(super) struct MarkdownTable {
    header: Vec<String>,
    alignments: Vec<Alignment>,
    rows: Vec<Vec<String>>,
    bytes: usize,
    /// How the rows are shown, once that is settled.
    layout: Option<TableLayout>,
}

impl MarkdownTable {
    pub(super) fn new(mut header: Vec<String>, mut alignments: Vec<Alignment>) -> Self {
        header.truncate(MOST_COLUMNS);
        alignments.truncate(MOST_COLUMNS);
        Self { header, alignments, rows: Vec::new(), bytes: 0, layout: None }
    }
}

/// Returns the cells of a row; nothing if there is no bar in it.
pub(super) fn cells(row: &str) -> Option<Vec<String>> {
    let row = row.trim();
    let mut cells = vec![String::new()];
    let mut bars = false;
    let mut chars = row.strip_prefix('|').unwrap_or(row).chars().peekable();
    bars |= row.starts_with('|');
    let mut ended = false;
    while let Some(c) = chars.next() {
        ended = c == '|';
        match (c, cells.last_mut()) {
            ('|', _) => {
                bars = true;
                cells.push(String::new());
            }
            ('\\', Some(cell)) => match chars.next_if(|c| matches!(c, '|' | '\\')) {
                Some('|') => cell.push('|'),
                // Left for the parser of what is within the cell.
                Some(other) => cell.extend(['\\', other]),
                None => cell.push('\\'),
            },
            (c, Some(cell)) => cell.push(c),
            (_, None) => {}
        }
    }
    if ended {
        cells.pop();
    }
    for cell in &mut cells {
        *cell = cell.trim().to_owned();
    }
    bars.then_some(cells)
}

/// Returns how the columns are aligned, if this is the line below a table's head.
pub(super) fn delimiters(row: &str) -> Option<Vec<Alignment>> {
    if row.contains(|c| !matches!(c, '|' | ':' | '-' | ' ')) {
        return None;
    }
    cells(row)?
        .iter()
        .map(|cell| {
            let dashes = cell.strip_prefix(':').unwrap_or(cell);
            let dashes = dashes.strip_suffix(':').unwrap_or(dashes);
            if dashes.is_empty() || dashes.contains(|c| c != '-') {
                return None;
            }
            Some(match (cell.starts_with(':'), cell.ends_with(':')) {
                (true, true) => Alignment::Centre,
                (false, true) => Alignment::Right,
                (_, false) => Alignment::Left,
            })
        })
        .collect()
}

impl Blocks {
    /// Adds a row to the table that is open.
    pub(super) fn add_row(&mut self, text: &str) {
        let Leaf::Table(mut table) = std::mem::replace(&mut self.leaf, Leaf::Nothing) else {
            return;
        };
        let mut row = cells(text).unwrap_or_else(|| vec![text.trim().to_owned()]);
        row.resize(table.header.len(), String::new());
        table.bytes += text.len();
        table.rows.push(row);
        if table.layout.is_some() {
            self.emit_rows(&mut table);
        } else if table.rows.len() > MOST_ROWS || table.bytes > MOST_BYTES {
            self.settle_table(&mut table);
        }
        self.leaf = Leaf::Table(table);
    }

    pub(super) fn end_table(&mut self, mut table: MarkdownTable) {
        if table.layout.is_none() {
            self.settle_table(&mut table);
        }
    }

    /// Decides how wide the columns are, and hands out what has come.
    fn settle_table(&mut self, table: &mut MarkdownTable) {
        let header = self.rendered(&table.header, style::BOLD);
        let rows: Vec<_> =
            table.rows.drain(..).map(|row| self.rendered(&row, style::PLAIN)).collect();
        let room = self.room(usize::MAX);
        let layout = TableLayout::new(header, table.alignments.clone(), &rows, room);
        layout.head().into_iter().for_each(|line| self.emit(line));
        for (index, row) in rows.iter().enumerate() {
            layout.row(row, index == 0).into_iter().for_each(|line| self.emit(line));
        }
        table.layout = Some(layout);
    }

    fn emit_rows(&mut self, table: &mut MarkdownTable) {
        for row in std::mem::take(&mut table.rows) {
            let row = self.rendered(&row, style::PLAIN);
            if let Some(layout) = &table.layout {
                layout.row(&row, false).into_iter().for_each(|line| self.emit(line));
            }
        }
    }

    fn rendered(&mut self, row: &[String], base: style::Style) -> Vec<TableCell> {
        row.iter()
            .map(|cell| {
                self.work += cell.len() as u64;
                TableCell::new(inline::render(&[cell], self.options, base).lines)
            })
            .collect()
    }
}

const BAR: &str = " │ ";
const RULE: &str = "─";
const CROSS: &str = "─┼─";

/// Columns narrower than this cannot be read; then each cell gets its own line.
const NARROWEST: usize = 8;

#[derive(Debug, Clone)]
pub(super) struct TableCell(Line);

impl TableCell {
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
pub(super) struct TableLayout {
    header: Vec<TableCell>,
    alignments: Vec<Alignment>,
    form: Form,
}

#[derive(Debug, Clone)]
enum Form {
    /// Side by side, in columns of these widths.
    Columns { widths: Vec<usize>, between: RowSeparator },
    /// Below each other, each with its column's name, in so many columns.
    Records { room: usize },
}

/// The separator of two rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RowSeparator {
    Nothing,
    /// Rows of several lines would run into each other.
    Rule,
}

impl TableLayout {
    /// Returns the layout that suits these rows best.
    pub(super) fn new(
        header: Vec<TableCell>,
        alignments: Vec<Alignment>,
        rows: &[Vec<TableCell>],
        room: usize,
    ) -> Self {
        let mut wanted: Vec<_> = header.iter().map(|cell| cell.0.width()).collect();
        for row in rows {
            for (wanted, cell) in wanted.iter_mut().zip(row) {
                *wanted = (*wanted).max(cell.0.width());
            }
        }
        let columns = wanted.len();
        let text_width = room.saturating_sub(width(BAR) * columns.saturating_sub(1));
        let form = if wanted.iter().sum::<usize>() <= text_width {
            Form::Columns { widths: wanted, between: RowSeparator::Nothing }
        } else {
            match fitted(&wanted, text_width) {
                Some(widths) => Form::Columns { widths, between: RowSeparator::Rule },
                None => Form::Records { room },
            }
        };
        Self { header, alignments, form }
    }

    /// Returns the header lines.
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

    pub(super) fn row(&self, row: &[TableCell], first: bool) -> Vec<Line> {
        match &self.form {
            Form::Columns { widths, between } => {
                let mut lines = Vec::new();
                if *between == RowSeparator::Rule && !first {
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

    fn side_by_side(&self, row: &[TableCell], widths: &[usize]) -> Vec<Line> {
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
