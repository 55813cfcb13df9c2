//! What is seen of the input.

use std::ops::Range;

use super::Editor;
use super::buffer::Buffer;
use super::layout::{Room, RowPosition};
use super::menu::Menu;
use crate::LiveArea;
use crate::picker::list_lines;
use crate::style::{CYAN, DIM, PLAIN, REVERSED, Style};
use crate::text::{Line, Span, width};

/// The menu is never higher.
const MENU_ROWS: usize = 8;

/// Which row of the text is seen first.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Scroll {
    line: usize,
    row: usize,
}

impl Editor {
    /// Returns the input as it is shown: at most `max_rows` rows of at most `columns`
    /// columns, `prompt` before the first. The row of the cursor is always seen.
    pub fn view(&mut self, columns: u16, max_rows: usize, prompt: &Span) -> LiveArea {
        let columns = usize::from(columns).max(1);
        if max_rows == 0 {
            return LiveArea { lines: Vec::new(), cursor: None };
        }
        // A prompt that leaves hardly any room for words is none.
        let prompt = if prompt.width() + 4 > columns { Span::default() } else { prompt.clone() };
        let spare = usize::from(columns > 1);
        let room = Room { columns: columns - prompt.width() - spare, spare };
        self.buffer.layout.resize(room);
        if let Some(search) = &mut self.search {
            search.resize(room);
        }
        if self.search.is_some() {
            return self.search_view(columns, max_rows, &prompt);
        }
        let menu_rows =
            self.menu.as_ref().map_or(0, |menu| menu.rows().min(max_rows.saturating_sub(1)));
        let shown = rows(&mut self.buffer, &mut self.scroll, max_rows - menu_rows, &(0..0));
        let mut view = with_prompt(shown, &prompt);
        if self.is_empty()
            && let Some(first) = view.lines.first_mut()
        {
            first.push(Span::new(&self.placeholder, DIM));
            *first = first.cut(columns);
        }
        if let Some(menu) = &self.menu {
            view.lines.extend(menu.lines(columns, menu_rows));
        }
        view
    }

    /// Shows the message that was found, and below it what is searched for.
    fn search_view(&mut self, columns: usize, max_rows: usize, prompt: &Span) -> LiveArea {
        let Some(search) = &mut self.search else {
            return LiveArea { lines: Vec::new(), cursor: None };
        };
        let mut scroll = Scroll::default();
        let shown = match &mut search.found {
            Some(found) => rows(&mut found.buffer, &mut scroll, max_rows - 1, &found.matched),
            None => rows(&mut self.buffer, &mut self.scroll, max_rows - 1, &(0..0)),
        };
        let mut view = with_prompt(shown, prompt);
        view.lines.truncate(max_rows - 1);
        let label = if search.failed { "no such message: " } else { "search: " };
        // The end of the query is where the user types.
        let query = last_columns(&search.query, (columns - 1).saturating_sub(width(label)));
        let mut line = Line::styled(label, DIM);
        line.push(Span::plain(query));
        let line = line.cut(columns);
        view.cursor = Some((view.lines.len(), line.width().min(columns - 1)));
        view.lines.push(line);
        view
    }
}

impl Menu {
    /// Returns how many rows it would like.
    fn rows(&self) -> usize {
        let count = self.completions.len();
        // One more row shows the count.
        if count > MENU_ROWS { MENU_ROWS + 1 } else { count }
    }

    fn lines(&self, columns: usize, rows: usize) -> Vec<Line> {
        let item = |index: usize| {
            let completion = self.completions.get(index);
            completion.map(|it| (it.label.as_str(), it.about.as_str())).unwrap_or_default()
        };
        list_lines(self.completions.len(), self.chosen, columns, rows, item)
    }
}

/// Puts the prompt before the first row and an indent before the others.
fn with_prompt(view: LiveArea, prompt: &Span) -> LiveArea {
    let indent = prompt.width();
    let lines = view.lines.into_iter().enumerate().map(|(number, line)| {
        let before = if number == 0 { prompt.clone() } else { Span::plain(" ".repeat(indent)) };
        line.prefixed(before)
    });
    let cursor = view.cursor.map(|(row, column)| (row, column + indent));
    LiveArea { lines: lines.collect(), cursor }
}

/// Returns the rows around the cursor.
fn rows(buffer: &mut Buffer, scroll: &mut Scroll, max: usize, marked: &Range<usize>) -> LiveArea {
    let (place, column) = buffer.place();
    let seen = visible(buffer, *scroll, place, max.max(1));
    if let Some(first) = seen.first() {
        *scroll = Scroll { line: first.line, row: first.row };
    }
    let row = seen.iter().position(|seen| *seen == place).unwrap_or(0);
    let lines = seen.into_iter().map(|place| line(buffer, place, marked)).collect();
    LiveArea { lines, cursor: Some((row, column)) }
}

/// Returns which rows are seen: as before where possible, so that the text stands
/// still while the cursor moves in it.
fn visible(
    buffer: &mut Buffer,
    scroll: Scroll,
    cursor: RowPosition,
    max: usize,
) -> Vec<RowPosition> {
    let wanted = RowPosition { line: scroll.line, row: scroll.row, start: 0 };
    let mut top = buffer.nearest(wanted).min(cursor);
    let mut seen = vec![top];
    loop {
        while seen.len() < max
            && let Some(next) = seen.last().and_then(|last| buffer.below(*last))
        {
            seen.push(next);
        }
        if seen.contains(&cursor) {
            break;
        }
        // The cursor is below: its row is the last one then.
        top = cursor;
        for _ in 1..max {
            top = buffer.above(top).unwrap_or(top);
        }
        seen = vec![top];
    }
    // No room stays empty below while there is text above.
    while seen.len() < max
        && let Some(above) = buffer.above(top)
    {
        top = above;
        seen.insert(0, above);
    }
    seen
}

fn line(buffer: &mut Buffer, place: RowPosition, marked: &Range<usize>) -> Line {
    let mut line = Line::empty();
    for cell in buffer.cells(place) {
        let style: Style = match cell.is_paste {
            true => CYAN,
            false if marked.contains(&cell.range.start) => REVERSED,
            false => PLAIN,
        };
        line.push(Span::new(&cell.shown, style));
    }
    line
}

/// Returns the end of a text that fits into so many columns.
fn last_columns(text: &str, columns: usize) -> &str {
    let mut rest = text;
    while width(rest) > columns {
        let mut chars = rest.chars();
        chars.next();
        rest = chars.as_str();
    }
    rest
}
