//! Tables that fit their place.

use anstyle::Style;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::style::Colour;
use super::text::printable;

/// Blanks between columns.
const GAP: usize = 2;

/// Narrowest that a column is made to fit.
const NARROWEST: usize = 8;

/// One cell.
#[derive(Debug, Clone)]
pub(crate) struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    /// Returns a cell in a style.
    pub(crate) fn styled(text: impl AsRef<str>, style: Style) -> Self {
        Self { text: printable(text.as_ref()), style }
    }
}

impl<T: AsRef<str>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::styled(text, Style::new())
    }
}

/// Rows under a heading.
#[derive(Debug)]
pub(crate) struct Table {
    heading: Vec<&'static str>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    pub(crate) fn new(heading: &[&'static str]) -> Self {
        Self { heading: heading.to_vec(), rows: Vec::new() }
    }

    /// Adds a row of as many cells as the heading has.
    pub(crate) fn row(&mut self, cells: Vec<Cell>) {
        debug_assert_eq!(cells.len(), self.heading.len(), "a cell for each column");
        self.rows.push(cells);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the lines. Where they are wider than `width`, the widest columns
    /// are cut; without a width nothing is.
    pub(super) fn render(&self, width: Option<usize>, colour: Colour) -> String {
        let heading = self.heading.iter().map(|name| Cell::styled(name, super::DIM)).collect();
        let lines: Vec<&Vec<Cell>> = std::iter::once(&heading).chain(&self.rows).collect();
        let mut widths: Vec<usize> = (0..self.heading.len())
            .map(|column| lines.iter().map(|line| line[column].text.width()).max().unwrap_or(0))
            .collect();
        if let Some(width) = width {
            fit(&mut widths, width);
        }
        let mut out = String::new();
        for line in lines {
            let last = line.len() - 1;
            for (column, cell) in line.iter().enumerate() {
                let text = cut(&cell.text, widths[column]);
                let pad = if column == last {
                    0
                } else {
                    (widths[column] + GAP).saturating_sub(text.width())
                };
                if cell.style == Style::new() {
                    out.push_str(&text);
                } else {
                    out.push_str(&colour.paint(cell.style, &text));
                }
                out.extend(std::iter::repeat_n(' ', pad));
            }
            out.truncate(out.trim_end_matches(' ').len());
            out.push('\n');
        }
        out
    }
}

/// Makes the widest columns narrower until the line fits.
fn fit(widths: &mut [usize], width: usize) {
    let gaps = GAP * widths.len().saturating_sub(1);
    loop {
        let total = widths.iter().sum::<usize>() + gaps;
        let Some(widest) = widths.iter_mut().max() else {
            return;
        };
        if total <= width || *widest <= NARROWEST {
            return;
        }
        *widest -= (total - width).min(*widest - NARROWEST).clamp(1, 4);
    }
}

/// Returns the beginning of a text that is too wide, and a sign that it is.
pub(super) fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut taken = 0;
    let mut kept: String = text
        .chars()
        .take_while(|c| {
            taken += c.width().unwrap_or(0);
            taken < width
        })
        .collect();
    kept.push('…');
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(&["TASK", "COMMAND"]);
        table.row(vec!["default".into(), "echo a very long command indeed".into()]);
        table.row(vec!["日本".into(), "x\x1b[31m".into()]);
        table
    }

    #[test]
    fn columns_are_aligned_and_nothing_is_cut_without_a_width() {
        assert_eq!(
            table().render(None, Colour::Off),
            "TASK     COMMAND\n\
             default  echo a very long command indeed\n\
             日本     x\\x1b[31m\n"
        );
    }

    #[test]
    fn the_widest_column_gives_way() {
        let rendered = table().render(Some(24), Colour::Off);
        assert!(rendered.lines().all(|line| line.width() <= 24), "{rendered}");
        assert!(rendered.contains("echo a very lo…"), "{rendered}");
    }
}
