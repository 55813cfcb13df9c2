//! A text with a cursor in it.

use std::ops::Range;

use unicode_segmentation::{GraphemeCursor, UnicodeSegmentation as _};

use super::fragment::{ATOM, Fragment};
use super::layout::{EditorCell, Room, RowPosition, TextLayout};

/// A text with a cursor, which is always between two graphemes.
#[derive(Debug, Clone)]
pub(super) struct Buffer {
    text: Fragment,
    cursor: usize,
    pub(super) layout: TextLayout,
    /// The column that moves up and down keep to.
    goal: Option<usize>,
}

/// A direction in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    /// Towards the beginning.
    Back,
    /// Towards the end.
    Forth,
}

impl Buffer {
    /// Returns an empty one.
    pub(super) fn new() -> Self {
        Self::of(Fragment::default(), Room { columns: 79, spare: 1 })
    }

    /// Returns one with a text, the cursor at its end.
    pub(super) fn of(text: Fragment, room: Room) -> Self {
        let layout = TextLayout::new(text.text(), room);
        Self { cursor: text.len(), text, layout, goal: None }
    }

    /// Returns the text.
    pub(super) fn fragment(&self) -> &Fragment {
        &self.text
    }

    /// Returns the text with pastes as single characters.
    pub(super) fn text(&self) -> &str {
        self.text.text()
    }

    /// Returns where the cursor is.
    pub(super) fn cursor(&self) -> usize {
        self.cursor
    }

    /// Moves the cursor, to the nearest place before `to` where it can be. Returns
    /// whether it moved.
    pub(super) fn go(&mut self, to: usize) -> bool {
        let to = self.floor(to);
        self.goal = None;
        std::mem::replace(&mut self.cursor, to) != to
    }

    /// Puts something in the place of a range, the cursor behind it, and returns
    /// what was there.
    pub(super) fn replace(&mut self, range: Range<usize>, with: &Fragment) -> Fragment {
        let range = self.char_floor(range.start)..self.char_floor(range.end.max(range.start));
        self.layout.replaced(range.start, range.len(), with.text());
        let end = range.start + with.len();
        let removed = self.text.replace(range, with);
        // What was inserted may have joined what follows it.
        self.cursor = self.ceil(end);
        self.goal = None;
        removed
    }

    /// Returns the boundary after an offset, or the end.
    pub(super) fn next(&self, offset: usize) -> usize {
        let text = self.text();
        let offset = self.char_floor(offset);
        GraphemeCursor::new(offset, text.len(), true)
            .next_boundary(text, 0)
            .ok()
            .flatten()
            .unwrap_or(text.len())
    }

    /// Returns the boundary before an offset, or the beginning.
    pub(super) fn previous(&self, offset: usize) -> usize {
        let offset = self.char_floor(offset);
        GraphemeCursor::new(offset, self.text().len(), true)
            .prev_boundary(self.text(), 0)
            .ok()
            .flatten()
            .unwrap_or(0)
    }

    /// Returns whether an offset is between two graphemes.
    pub(super) fn is_boundary(&self, offset: usize) -> bool {
        self.text().is_char_boundary(offset)
            && GraphemeCursor::new(offset, self.text().len(), true)
                .is_boundary(self.text(), 0)
                .unwrap_or(true)
    }

    fn floor(&self, offset: usize) -> usize {
        if self.is_boundary(offset) { offset } else { self.previous(offset) }
    }

    fn ceil(&self, offset: usize) -> usize {
        if self.is_boundary(offset) { offset } else { self.next(offset) }
    }

    fn char_floor(&self, offset: usize) -> usize {
        self.text().floor_char_boundary(offset)
    }

    /// Returns where the line of an offset begins.
    pub(super) fn line_start(&self, offset: usize) -> usize {
        self.text().get(..offset).and_then(|text| text.rfind('\n')).map_or(0, |end| end + 1)
    }

    /// Returns where the line of an offset ends, before its end of line.
    pub(super) fn line_end(&self, offset: usize) -> usize {
        let rest = self.text().get(offset..).unwrap_or_default();
        offset + rest.find('\n').unwrap_or(rest.len())
    }

    /// Returns where the next word ends, or the one before begins. Words are those
    /// of Unicode, and pastes.
    pub(super) fn word(&self, direction: Direction) -> usize {
        match direction {
            Direction::Forth => {
                let mut line = self.cursor;
                loop {
                    let end = self.line_end(line);
                    let words = self.text().get(line..end).unwrap_or_default();
                    if let Some((at, word)) = words.split_word_bound_indices().find(is_word) {
                        return line + at + word.len();
                    }
                    if end == self.text().len() {
                        return end;
                    }
                    line = end + 1;
                }
            }
            Direction::Back => {
                let mut end = self.cursor;
                loop {
                    let start = self.line_start(end);
                    let words = self.text().get(start..end).unwrap_or_default();
                    if let Some((at, _)) = words.split_word_bound_indices().rev().find(is_word) {
                        return start + at;
                    }
                    if start == 0 {
                        return 0;
                    }
                    end = start - 1;
                }
            }
        }
    }

    /// Returns where the word before the cursor begins, when only blanks divide
    /// words.
    pub(super) fn blank_word(&self) -> usize {
        let before = self.text().get(..self.cursor).unwrap_or_default();
        let before = before.trim_end_matches(char::is_whitespace);
        before.rfind(char::is_whitespace).map_or(0, |blank| {
            blank + before.get(blank..).and_then(|b| b.chars().next()).map_or(0, char::len_utf8)
        })
    }

    /// Returns where the cursor is on the screen: in which row, and in which column
    /// of it.
    pub(super) fn place(&mut self) -> (RowPosition, usize) {
        let place = self.layout.place(&self.text, self.cursor);
        let cells = self.layout.cells(&self.text, place);
        let before = cells.iter().take_while(|cell| cell.range.end <= self.cursor);
        (place, before.map(|cell| cell.width).sum())
    }

    /// Returns the position nearest to one that may no longer exist.
    pub(super) fn nearest(&mut self, place: RowPosition) -> RowPosition {
        self.layout.nearest(&self.text, place)
    }

    /// Returns the row above.
    pub(super) fn above(&mut self, place: RowPosition) -> Option<RowPosition> {
        self.layout.above(&self.text, place)
    }

    /// Returns the row below.
    pub(super) fn below(&mut self, place: RowPosition) -> Option<RowPosition> {
        self.layout.below(&self.text, place)
    }

    /// Returns what is in a row.
    pub(super) fn cells(&mut self, place: RowPosition) -> Vec<EditorCell<'_>> {
        self.layout.cells(&self.text, place)
    }

    /// Moves the cursor a row up or down. Returns whether there is such a row.
    pub(super) fn vertically(&mut self, direction: Direction) -> bool {
        let (place, column) = self.place();
        let target = match direction {
            Direction::Back => self.layout.above(&self.text, place),
            Direction::Forth => self.layout.below(&self.text, place),
        };
        let Some(target) = target else { return false };
        let goal = self.goal.unwrap_or(column);
        let bytes = self.layout.bytes(&self.text, target);
        let cells = self.layout.cells(&self.text, target);
        let mut used = 0;
        let mut to = bytes.start;
        for cell in &cells {
            used += cell.width;
            if used > goal {
                break;
            }
            to = cell.range.end;
        }
        // The end of a folded row is the beginning of the next one.
        let is_folded = self
            .layout
            .below(&self.text, target)
            .is_some_and(|next| next.line == target.line && to == bytes.end && to > bytes.start);
        if is_folded {
            to = cells.last().map_or(to, |cell| cell.range.start);
        }
        self.cursor = self.floor(to);
        self.goal = Some(goal);
        true
    }
}

fn is_word(word: &(usize, &str)) -> bool {
    word.1.chars().any(|c| c.is_alphanumeric() || c == ATOM)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buffer(text: &str) -> Buffer {
        Buffer::of(Fragment::plain(text), Room { columns: 20, spare: 1 })
    }

    #[test]
    fn the_cursor_never_stands_within_a_grapheme() {
        let mut buffer = buffer("e\u{301}x");
        buffer.go(1);
        assert_eq!(buffer.cursor(), 0);
        // A mark that joins what is before it takes the cursor along.
        buffer.go(0);
        buffer.replace(0..0, &Fragment::plain("a"));
        assert_eq!(buffer.cursor(), 1);
        buffer.replace(1..2, &Fragment::default());
        assert_eq!(buffer.text(), "a\u{301}x");
        assert_eq!(buffer.cursor(), 3, "behind what has become one");
    }

    #[test]
    fn words_are_those_of_unicode_and_pastes() {
        let mut buffer = buffer("don't stop—now");
        let mut stops = Vec::new();
        buffer.go(0);
        while buffer.cursor() < buffer.text().len() {
            let to = buffer.word(Direction::Forth);
            buffer.go(to);
            stops.push(buffer.text()[..to].to_owned());
        }
        assert_eq!(stops, ["don't", "don't stop", "don't stop—now"]);
        let end = buffer.text().len();
        buffer.replace(end..end, &Fragment::pasted(&"x\n".repeat(20)));
        assert_eq!(buffer.word(Direction::Back), end);
    }

    #[test]
    fn words_are_found_across_lines() {
        let mut buffer = buffer("one\n\n  \ntwo");
        buffer.go(3);
        assert_eq!(buffer.word(Direction::Forth), buffer.text().len());
        buffer.go(8);
        assert_eq!(buffer.word(Direction::Back), 0);
    }
}
