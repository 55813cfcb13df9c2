//! Measuring, wrapping and cutting lines, by grapheme.

use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::text::{Line, Span, Style};

/// Returns how many columns a text takes.
pub fn width(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.graphemes(true).map(str::width).sum() }
}

/// Returns how many columns a character takes by itself.
pub(crate) fn char_width(c: char) -> usize {
    match c {
        // The marks of narrow katakana belong to the letter before them, and yet
        // terminals give them a column.
        '\u{ff9e}' | '\u{ff9f}' => 1,
        c => c.width().unwrap_or(0),
    }
}

/// What a reader sees as one character.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grapheme<'a> {
    pub(crate) text: &'a str,
    pub(crate) style: Style,
    pub(crate) width: usize,
}

impl Grapheme<'_> {
    /// Returns whether a line may be broken here, and this left out.
    pub(crate) fn is_space(&self) -> bool {
        let mut chars = self.text.chars();
        // The spaces that join words (U+00A0, U+2007, U+202F) are none here.
        let first = matches!(
            chars.next(),
            Some(
                ' '
                | '\u{1680}'
                | '\u{2000}'..='\u{2006}'
                | '\u{2008}'..='\u{200b}'
                | '\u{205f}'
                | '\u{3000}',
            )
        );
        first && chars.next().is_none()
    }

    /// Returns how many columns a terminal uses that gives every character of what
    /// belongs together its own place.
    pub(crate) fn width_apart(&self) -> usize {
        self.text.chars().map(char_width).sum()
    }

    /// Returns how many columns a terminal uses at least, whichever way it takes.
    pub(crate) fn narrowest(&self) -> usize {
        self.width.min(self.width_apart())
    }
}

impl Line {
    /// Returns whether every terminal agrees how wide the line is.
    pub(crate) fn is_ascii(&self) -> bool {
        self.spans.iter().all(|span| span.text.is_ascii())
    }

    /// Returns the line character by character.
    pub(crate) fn cells(&self) -> impl Iterator<Item = Grapheme<'_>> {
        self.spans.iter().flat_map(|Span { text, style }| {
            text.graphemes(true).map(|text| Grapheme { text, style: *style, width: text.width() })
        })
    }

    /// Returns the last column up to this one in which a character begins, or the line
    /// ends.
    pub(crate) fn boundary_before(&self, column: usize) -> usize {
        let mut at = 0;
        for cell in self.cells() {
            if at + cell.width > column {
                break;
            }
            at += cell.width;
        }
        at
    }

    /// Returns the line of some cells.
    pub(crate) fn of_cells(cells: &[Grapheme<'_>]) -> Self {
        let mut line = Self::empty();
        line.extend_cells(cells);
        line
    }

    /// Adds cells at the end.
    pub(super) fn extend_cells(&mut self, cells: &[Grapheme<'_>]) {
        for cell in cells {
            match self.spans.last_mut() {
                Some(last) if last.style == cell.style => last.text.push_str(cell.text),
                _ => self.spans.push(Span { text: cell.text.to_owned(), style: cell.style }),
            }
        }
    }
}

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
    cells: &'c [Grapheme<'t>],
    room: usize,
    addresses: Addresses,
) -> (&'c [Grapheme<'t>], &'c [Grapheme<'t>]) {
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
fn address(cells: &[Grapheme<'_>]) -> Option<usize> {
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
fn may_break(cells: &[Grapheme<'_>], at: usize) -> bool {
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

fn trimmed<'c, 't>(cells: &'c [Grapheme<'t>]) -> &'c [Grapheme<'t>] {
    let kept = cells.iter().rposition(|cell| !cell.is_space()).map_or(0, |last| last + 1);
    &cells[..kept]
}

const MORE: &str = "…";

impl Line {
    /// Returns the line as it fits into `width` columns; one that does not fit ends
    /// in `…`.
    #[must_use]
    pub fn cut(&self, width: usize) -> Self {
        self.cut_by(width, |cell| cell.width)
    }

    /// As [`Line::cut`], with room for terminals that give every character of an
    /// emoji its own place.
    pub(crate) fn cut_to_be_safe(&self, width: usize) -> Self {
        self.cut_by(width, |cell| cell.width.max(cell.width_apart()))
    }

    /// Returns the line without the blanks at its end that are after so many columns.
    pub(crate) fn without_blanks_after(mut self, column: usize) -> Self {
        let mut width = self.width();
        while let Some(last) = self.spans.last_mut().filter(|_| width > column) {
            if last.style != Style::new() || !last.text.ends_with(' ') {
                break;
            }
            last.text.pop();
            width -= 1;
            if last.text.is_empty() {
                self.spans.pop();
            }
        }
        self
    }

    fn cut_by(&self, width: usize, measure: impl Fn(&Grapheme<'_>) -> usize) -> Self {
        let mut kept = Vec::new();
        // How many of the cells leave room for the mark.
        let mut before_mark = 0;
        let mut used = 0;
        for cell in self.cells() {
            used += measure(&cell);
            if used > width {
                kept.truncate(before_mark);
                // The mark is dropped where not even it fits.
                kept.extend((width > 0).then_some(Grapheme { text: MORE, width: 1, ..cell }));
                return Self::of_cells(&kept);
            }
            kept.push(cell);
            if used < width {
                before_mark = kept.len();
            }
        }
        self.clone()
    }
}
