//! Tables that fit their place.

use anstyle::Style;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::output::StreamColour;
use super::text::printable;

/// Blanks between columns.
const GAP: usize = 2;

/// What stands before a line below a row.
const INDENT: &str = "   ";

/// Narrowest that a column is made to fit.
const NARROWEST: usize = 8;

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

/// What stands below a row, on lines of its own.
#[derive(Debug)]
struct Note {
    text: String,
    style: Style,
    lines: usize,
}

/// Rows under a heading.
#[derive(Debug)]
pub(crate) struct Table {
    heading: Vec<&'static str>,
    rows: Vec<(Vec<Cell>, Option<Note>)>,
}

impl Table {
    pub(crate) fn new(heading: &[&'static str]) -> Self {
        Self { heading: heading.to_vec(), rows: Vec::new() }
    }

    /// Adds a row of as many cells as the heading has.
    pub(crate) fn row(&mut self, cells: Vec<Cell>) {
        debug_assert_eq!(cells.len(), self.heading.len(), "a cell for each column");
        self.rows.push((cells, None));
    }

    /// Puts words below the last row that are too long for a column. They are broken into lines
    /// where the place is narrow, and cut after so many of them.
    pub(crate) fn note(&mut self, text: &str, style: Style, lines: usize) {
        if let Some((_, note)) = self.rows.last_mut() {
            *note = Some(Note { text: printable(text), style, lines });
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the lines. Where they are wider than `width`, the widest columns
    /// are cut; without a width nothing is.
    pub(super) fn render(&self, width: Option<usize>, colour: StreamColour) -> String {
        let heading = self.heading.iter().map(|name| Cell::styled(name, super::DIM)).collect();
        let rows = self.rows.iter().map(|(cells, note)| (cells, note.as_ref()));
        let lines: Vec<(&Vec<Cell>, Option<&Note>)> =
            std::iter::once((&heading, None)).chain(rows).collect();
        let mut widths: Vec<usize> = (0..self.heading.len())
            .map(|column| {
                lines.iter().map(|(line, _)| line[column].text.width()).max().unwrap_or(0)
            })
            .collect();
        if let Some(width) = width {
            fit(&mut widths, width);
        }
        let mut out = String::new();
        for (line, note) in lines {
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
            for line in note.map(|note| wrapped(note, width)).unwrap_or_default() {
                out.push_str(INDENT);
                out.push_str(
                    &line.1.map_or_else(|| line.0.clone(), |style| colour.paint(style, &line.0)),
                );
                out.push('\n');
            }
        }
        out
    }
}

/// Returns the lines of a note that fit beside its indent.
fn wrapped(note: &Note, width: Option<usize>) -> Vec<(String, Option<Style>)> {
    let room = width.map_or(usize::MAX, |width| width.saturating_sub(INDENT.len()).max(NARROWEST));
    let mut lines: Vec<String> = vec![String::new()];
    for word in note.text.split_whitespace() {
        let line = lines.last_mut();
        match line {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.width() + 1 + word.width() <= room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    if lines.len() > note.lines {
        let rest = lines.split_off(note.lines.saturating_sub(1)).join(" ");
        lines.push(rest);
    }
    let style = (note.style != Style::new()).then_some(note.style);
    lines.into_iter().map(|line| (cut(&line, room), style)).collect()
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
            table().render(None, StreamColour::Off),
            "TASK     COMMAND\n\
             default  echo a very long command indeed\n\
             日本     x\\x1b[31m\n"
        );
    }

    #[test]
    fn words_below_a_row_are_broken_into_lines_and_not_cut_to_a_column() {
        let mut table = table();
        table.note("which of the two years is meant", Style::new(), usize::MAX);
        let rendered = table.render(Some(20), StreamColour::Off);
        let below: Vec<&str> = rendered.lines().skip(3).collect();
        assert_eq!(below, ["   which of the two", "   years is meant"]);
        table.note("which of the two years is meant", Style::new(), 1);
        assert!(table.render(Some(20), StreamColour::Off).ends_with("\n   which of the two…\n"));
        assert!(
            table
                .render(None, StreamColour::Off)
                .ends_with("\n   which of the two years is meant\n")
        );
    }

    #[test]
    fn the_widest_column_gives_way() {
        let rendered = table().render(Some(24), StreamColour::Off);
        assert!(rendered.lines().all(|line| line.width() <= 24), "{rendered}");
        assert!(rendered.contains("echo a very lo…"), "{rendered}");
    }
}
