//! Where the characters of a text are on the screen.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr as _;

use crate::editor::fragment::{ATOM, Fragment, Paste};
use crate::text::{Line, char_width, harmless};

/// What is shown for a character that is wider than the screen.
const TOO_WIDE: &str = "\u{fffd}";

/// How much room a row has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Room {
    /// Columns for words, at least one.
    pub(super) columns: usize,
    /// A further column, in which a blank may stand at the end of a row, and the
    /// cursor behind the last word.
    pub(super) spare: usize,
}

/// What a reader sees as one character, or a paste.
#[derive(Debug)]
pub(super) struct EditorCell<'a> {
    /// Where it is in its line.
    pub(super) range: Range<usize>,
    pub(super) shown: Cow<'a, str>,
    /// The columns that it takes.
    pub(super) width: usize,
    /// The columns that it may take on terminals which give every character of an
    /// emoji its own place.
    widest: usize,
    /// Whether it is a paste.
    pub(super) is_paste: bool,
    is_blank: bool,
}

/// A row: the part of a line that is beside each other on the screen.
pub(super) type ScreenRow = Range<usize>;

/// A line of the text.
#[derive(Debug, Clone, Default)]
struct LogicalLine {
    /// Bytes, without the end of line.
    len: usize,
    /// Its rows, once they were needed.
    rows: Option<Vec<ScreenRow>>,
}

/// A row, by where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RowPosition {
    pub(super) line: usize,
    /// Which row of that line.
    pub(super) row: usize,
    /// Where the line begins in the text.
    pub(super) start: usize,
}

/// The lines of a text and their rows. Changes are applied line by line, and only visible
/// lines are wrapped, so a key costs the same in a long text as in a short one.
#[derive(Debug, Clone)]
pub(super) struct TextLayout {
    lines: Vec<LogicalLine>,
    room: Room,
    /// How many cells were laid out so far.
    pub(super) work: u64,
}

impl TextLayout {
    /// Returns the layout of a text.
    pub(super) fn new(text: &str, room: Room) -> Self {
        Self { lines: lines_of(text), room, work: 0 }
    }

    /// Returns how much room a row has.
    pub(super) fn room(&self) -> Room {
        self.room
    }

    /// Sets the width of a row.
    pub(super) fn resize(&mut self, room: Room) {
        if self.room != room {
            self.room = room;
            self.lines.iter_mut().for_each(|line| line.rows = None);
        }
    }

    /// Records that `removed` bytes at `at` were replaced.
    pub(super) fn replaced(&mut self, at: usize, removed: usize, inserted: &str) {
        let first = self.place_of_line(at);
        let last = self.place_of_line(at + removed);
        let before = at - first.start;
        let after = (last.start + self.len_of(last.line)).saturating_sub(at + removed);
        let mut lines = lines_of(inserted);
        if let Some(line) = lines.first_mut() {
            line.len += before;
        }
        if let Some(line) = lines.last_mut() {
            line.len += after;
        }
        self.lines.splice(first.line..=last.line, lines);
    }

    /// Returns where an offset is.
    pub(super) fn place(&mut self, text: &Fragment, offset: usize) -> RowPosition {
        let line = self.place_of_line(offset);
        let rows = self.rows(text, line);
        let row = rows.iter().rposition(|row| row.start <= offset - line.start).unwrap_or(0);
        RowPosition { row, ..line }
    }

    /// Returns the nearest place that there is.
    pub(super) fn nearest(&mut self, text: &Fragment, wanted: RowPosition) -> RowPosition {
        let line = wanted.line.min(self.lines.len() - 1);
        let start = self.lines.iter().take(line).map(|line| line.len + 1).sum();
        let place = RowPosition { line, row: 0, start };
        let last = self.rows(text, place).len() - 1;
        RowPosition { row: wanted.row.min(last), ..place }
    }

    /// Returns the row above.
    pub(super) fn above(&mut self, text: &Fragment, place: RowPosition) -> Option<RowPosition> {
        if place.row > 0 {
            return Some(RowPosition { row: place.row - 1, ..place });
        }
        let line = place.line.checked_sub(1)?;
        let above = RowPosition { line, row: 0, start: place.start - self.len_of(line) - 1 };
        let row = self.rows(text, above).len() - 1;
        Some(RowPosition { row, ..above })
    }

    /// Returns the row below.
    pub(super) fn below(&mut self, text: &Fragment, place: RowPosition) -> Option<RowPosition> {
        if place.row + 1 < self.rows(text, place).len() {
            return Some(RowPosition { row: place.row + 1, ..place });
        }
        let line = place.line + 1;
        let start = place.start + self.len_of(place.line) + 1;
        (line < self.lines.len()).then_some(RowPosition { line, row: 0, start })
    }

    /// Returns the bytes of the text that are in a row.
    pub(super) fn bytes(&mut self, text: &Fragment, place: RowPosition) -> Range<usize> {
        let row = self.rows(text, place).get(place.row).cloned().unwrap_or_default();
        place.start + row.start..place.start + row.end
    }

    /// Returns the cells of a row; their ranges are offsets in the text.
    pub(super) fn cells<'t>(
        &mut self,
        text: &'t Fragment,
        place: RowPosition,
    ) -> Vec<EditorCell<'t>> {
        let bytes = self.bytes(text, place);
        let row = text.text().get(bytes.clone()).unwrap_or_default();
        let mut found: Vec<_> = cells(row, text.pastes_from(bytes.start), self.room).collect();
        for cell in &mut found {
            cell.range = cell.range.start + bytes.start..cell.range.end + bytes.start;
        }
        self.work += found.len() as u64;
        found
    }

    fn len_of(&self, line: usize) -> usize {
        self.lines.get(line).map_or(0, |line| line.len)
    }

    fn place_of_line(&self, offset: usize) -> RowPosition {
        let mut start = 0;
        for (number, line) in self.lines.iter().enumerate() {
            if offset <= start + line.len {
                return RowPosition { line: number, row: 0, start };
            }
            start += line.len + 1;
        }
        let line = self.lines.len() - 1;
        RowPosition { line, row: 0, start: start - self.len_of(line) - 1 }
    }

    fn rows(&mut self, text: &Fragment, place: RowPosition) -> &[ScreenRow] {
        let room = self.room;
        // There is always a line: a text without any is one empty line.
        let Some(line) = self.lines.get_mut(place.line) else { return &[] };
        if line.rows.is_none() {
            let words = text.text().get(place.start..place.start + line.len).unwrap_or_default();
            let (rows, work) = fold(words, text.pastes_from(place.start), room);
            self.work += work;
            line.rows = Some(rows);
        }
        line.rows.as_deref().unwrap_or_default()
    }
}

fn lines_of(text: &str) -> Vec<LogicalLine> {
    text.split('\n').map(|line| LogicalLine { len: line.len(), rows: None }).collect()
}

/// Folds a line: after the last blank that fits, else between any two characters.
/// Nothing is left out. Returns the rows and how many cells were looked at.
fn fold(line: &str, pastes: &[Arc<Paste>], room: Room) -> (Vec<ScreenRow>, u64) {
    let mut rows = Vec::new();
    let mut work = 0;
    let mut start = 0;
    let mut used = 0;
    // Where this row may end, and how much of it is used up to there.
    let mut may_end: Option<(usize, usize)> = None;
    for cell in cells(line, pastes, room) {
        work += 1;
        let at = cell.range.start;
        let limit = room.columns + if cell.is_blank { room.spare } else { 0 };
        // Scripts with wide characters put no blanks between words.
        if cell.width > 1 && at > start {
            may_end = Some((at, used));
        }
        while used + cell.widest > limit && at > start {
            let (end, used_before) = may_end.take().unwrap_or((at, used));
            rows.push(start..end);
            start = end;
            used -= used_before;
        }
        used += cell.widest;
        if cell.is_blank || cell.width > 1 {
            may_end = Some((cell.range.end, used));
        }
    }
    rows.push(start..line.len());
    // The cursor behind the last character must be somewhere.
    if used >= room.columns + room.spare {
        rows.push(line.len()..line.len());
    }
    (rows, work)
}

fn cells<'a>(
    line: &'a str,
    pastes: &'a [Arc<Paste>],
    room: Room,
) -> impl Iterator<Item = EditorCell<'a>> {
    let mut pastes = pastes.iter();
    line.grapheme_indices(true).map(move |(start, text)| {
        let paste = if text.starts_with(ATOM) { pastes.next() } else { None };
        let mut shown = match paste {
            Some(paste) => Cow::Borrowed(paste.label()),
            None if text.bytes().all(|byte| (b' '..0x7f).contains(&byte)) => Cow::Borrowed(text),
            None => Cow::Owned(harmless(text)),
        };
        let mut width = shown.width();
        let mut widest = width.max(shown.chars().map(char_width).sum());
        if widest > room.columns {
            shown = match paste {
                Some(_) => Cow::Owned(Line::plain(&shown).cut(room.columns).text()),
                // A tab is as good when it is narrower.
                None if text == "\t" => Cow::Owned(" ".repeat(room.columns)),
                None => Cow::Borrowed(TOO_WIDE),
            };
            width = shown.width();
            widest = width;
        }
        let is_blank = matches!(text, " " | "\t" | "\u{3000}");
        let range = start..start + text.len();
        EditorCell { range, shown, width, widest, is_paste: paste.is_some(), is_blank }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folded(text: &str, columns: usize) -> Vec<String> {
        let room = Room { columns, spare: 1 };
        let fragment = Fragment::plain(text);
        let mut layout = TextLayout::new(fragment.text(), room);
        let mut place = Some(RowPosition { line: 0, row: 0, start: 0 });
        let mut rows = Vec::new();
        while let Some(here) = place {
            let cells = layout.cells(&fragment, here);
            rows.push(cells.iter().map(|cell| cell.shown.as_ref()).collect());
            place = layout.below(&fragment, here);
        }
        rows
    }

    #[test]
    fn lines_are_folded_between_words() {
        assert_eq!(folded("one two three", 8), ["one two ", "three"]);
        assert_eq!(folded("one two three", 7), ["one two ", "three"], "a blank has room behind");
        assert_eq!(folded("one two  three", 7), ["one two ", " three"], "a second one has not");
        assert_eq!(folded("", 7), [""]);
        assert_eq!(folded("a\n\nb", 7), ["a", "", "b"]);
    }

    #[test]
    fn words_that_are_too_long_are_folded_anywhere_but_not_in_a_grapheme() {
        assert_eq!(folded("abcdefgh", 3), ["abc", "def", "gh"]);
        assert_eq!(folded("宽字宽字", 3), ["宽", "字", "宽", "字"]);
        assert_eq!(folded("ae\u{301}ie\u{301}", 2), ["ae\u{301}", "ie\u{301}"]);
    }

    #[test]
    fn wide_characters_need_no_blanks_between_words() {
        assert_eq!(folded("ab 宽字宽字", 7), ["ab 宽字", "宽字"]);
    }

    #[test]
    fn the_cursor_has_a_place_behind_a_full_row() {
        assert_eq!(folded("abc", 3), ["abc"], "in the spare column");
        assert_eq!(folded("abc ", 3), ["abc ", ""]);
        assert_eq!(folded("abc def ", 7), ["abc def ", ""]);
    }

    #[test]
    fn what_is_wider_than_the_screen_is_replaced() {
        assert_eq!(folded("宽", 1), [TOO_WIDE]);
        assert_eq!(folded("\t", 2), ["  "]);
        let fragment = Fragment::pasted(&"x\n".repeat(100));
        let mut layout = TextLayout::new(fragment.text(), Room { columns: 10, spare: 1 });
        let cells = layout.cells(&fragment, RowPosition { line: 0, row: 0, start: 0 });
        assert_eq!(cells[0].shown, "[pasted 1…");
    }

    #[test]
    fn a_change_lays_out_its_own_line_alone() {
        let text = "words of a line\n".repeat(1_000);
        let mut fragment = Fragment::plain(&text);
        let mut layout = TextLayout::new(fragment.text(), Room { columns: 20, spare: 1 });
        let mut place = Some(RowPosition { line: 0, row: 0, start: 0 });
        while let Some(here) = place {
            place = layout.below(&fragment, here);
        }
        let before = layout.work;
        fragment.replace(500 * 16..500 * 16, &Fragment::plain("x\ny"));
        layout.replaced(500 * 16, 0, "x\ny");
        let place = layout.place(&fragment, 500 * 16 + 2);
        assert_eq!((place.line, place.row, place.start), (501, 0, 500 * 16 + 2));
        assert_eq!(layout.bytes(&fragment, place), 500 * 16 + 2..500 * 16 + 18);
        assert_eq!(layout.work - before, 16, "the line `ywords of a line`");
    }
}
