//! Tables, which are held back until they end.

use super::blocks::{Blocks, Leaf};
use super::inline;
use super::table_layout::{Cell, Layout};
use crate::style;

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

/// A table that may go on.
#[derive(Debug, Clone)]
pub(super) struct Table {
    header: Vec<String>,
    alignments: Vec<Alignment>,
    rows: Vec<Vec<String>>,
    bytes: usize,
    /// How the rows are shown, once that is settled.
    layout: Option<Layout>,
}

impl Table {
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

    pub(super) fn end_table(&mut self, mut table: Table) {
        if table.layout.is_none() {
            self.settle_table(&mut table);
        }
    }

    /// Decides how wide the columns are, and hands out what has come.
    fn settle_table(&mut self, table: &mut Table) {
        let header = self.rendered(&table.header, style::BOLD);
        let rows: Vec<_> =
            table.rows.drain(..).map(|row| self.rendered(&row, style::PLAIN)).collect();
        let room = self.room(usize::MAX);
        let layout = Layout::new(header, table.alignments.clone(), &rows, room);
        layout.head().into_iter().for_each(|line| self.emit(line));
        for (index, row) in rows.iter().enumerate() {
            layout.row(row, index == 0).into_iter().for_each(|line| self.emit(line));
        }
        table.layout = Some(layout);
    }

    fn emit_rows(&mut self, table: &mut Table) {
        for row in std::mem::take(&mut table.rows) {
            let row = self.rendered(&row, style::PLAIN);
            if let Some(layout) = &table.layout {
                layout.row(&row, false).into_iter().for_each(|line| self.emit(line));
            }
        }
    }

    fn rendered(&mut self, row: &[String], base: style::Style) -> Vec<Cell> {
        row.iter()
            .map(|cell| {
                self.work += cell.len() as u64;
                Cell::new(inline::render(&[cell], self.look, base).lines)
            })
            .collect()
    }
}
