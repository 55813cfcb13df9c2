//! Text in which large pastes are one thing each.

use std::ops::Range;
use std::sync::Arc;

/// Stands for a paste in the text of a fragment. It is a code point that nobody
/// types, and one that joins neither its left nor its right neighbour to a
/// grapheme, as control characters do not.
pub(crate) const ATOM: char = '\u{fff0}';

/// Replaces [`ATOM`] if it was typed.
const NOT_A_CHARACTER: &str = "\u{fffd}";

/// A paste of more lines than this is one thing.
const MOST_LINES: usize = 10;

/// A paste of more characters than this is one thing.
const MOST_CHARACTERS: usize = 2_000;

/// Text that is set rather than pasted may be longer, because the user wrote it.
const MOST_BYTES_SET: usize = 64 << 10;

/// A longer line is slow to lay out and not readable in an input.
const LONGEST_LINE_SET: usize = 8 << 10;

/// A large paste.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Paste {
    text: String,
    label: String,
}

impl Paste {
    fn new(text: String) -> Arc<Self> {
        let label = match lines(&text) {
            1 => format!("[pasted {} characters]", grouped(text.chars().count())),
            lines => format!("[pasted {} lines]", grouped(lines)),
        };
        Arc::new(Self { text, label })
    }

    /// Returns what is shown in its place.
    pub(crate) fn label(&self) -> &str {
        &self.label
    }
}

/// A piece of a buffer: text in which each [`ATOM`] stands for the next paste.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Fragment {
    text: String,
    pastes: Vec<Arc<Paste>>,
}

impl Fragment {
    /// Returns a text without pastes.
    pub(crate) fn plain(text: &str) -> Self {
        Self { text: clean(text), pastes: Vec::new() }
    }

    /// Returns a paste: as one thing when it is large, else as text.
    pub(crate) fn pasted(text: &str) -> Self {
        let text = ends_of_lines(text);
        if lines(&text) > MOST_LINES || text.chars().count() > MOST_CHARACTERS {
            Self { text: ATOM.to_string(), pastes: vec![Paste::new(text)] }
        } else {
            Self { text: clean(&text), pastes: Vec::new() }
        }
    }

    /// Returns a text that was neither typed nor pasted, as one thing when it is
    /// too long to be worked on here.
    pub(crate) fn set(text: &str) -> Self {
        let is_long = text.len() > MOST_BYTES_SET
            || text.split('\n').any(|line| line.len() > LONGEST_LINE_SET);
        if is_long { Self::pasted(text) } else { Self::plain(text) }
    }

    /// Returns a text of which some ranges are pastes. Ranges that are none are
    /// passed over.
    pub(crate) fn with_pastes(text: &str, ranges: &[Range<usize>]) -> Self {
        let mut fragment = Self::default();
        let mut done = 0;
        for range in ranges {
            let (Some(before), Some(paste)) =
                (text.get(done..range.start), text.get(range.clone()))
            else {
                continue;
            };
            if paste.is_empty() {
                continue;
            }
            fragment.push(&Self::plain(before));
            fragment.text.push(ATOM);
            fragment.pastes.push(Paste::new(paste.to_owned()));
            done = range.end;
        }
        fragment.push(&Self::set(text.get(done..).unwrap_or_default()));
        fragment
    }

    /// Returns the text with [`ATOM`]s in it.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the pastes from the one on that follows the byte at `offset`.
    pub(crate) fn pastes_from(&self, offset: usize) -> &[Arc<Paste>] {
        self.pastes.get(self.pastes_before(offset)..).unwrap_or_default()
    }

    fn pastes_before(&self, offset: usize) -> usize {
        if self.pastes.is_empty() {
            return 0;
        }
        self.text.get(..offset).unwrap_or_default().matches(ATOM).count()
    }

    /// Returns the bytes that it takes in a buffer.
    pub(crate) fn len(&self) -> usize {
        self.text.len()
    }

    /// Returns whether nothing is in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Returns a part. The range must lie on boundaries of characters.
    pub(crate) fn part(&self, range: Range<usize>) -> Self {
        let pastes = self.pastes_before(range.start)..self.pastes_before(range.end);
        Self {
            text: self.text.get(range).unwrap_or_default().to_owned(),
            pastes: self.pastes.get(pastes).unwrap_or_default().to_vec(),
        }
    }

    /// Adds another one at the end.
    pub(crate) fn push(&mut self, other: &Self) {
        self.text.push_str(&other.text);
        self.pastes.extend_from_slice(&other.pastes);
    }

    /// Adds another one before the beginning.
    pub(crate) fn push_front(&mut self, other: &Self) {
        self.text.insert_str(0, &other.text);
        self.pastes.splice(0..0, other.pastes.iter().cloned());
    }

    /// Puts another one in the place of a part, and returns what was there.
    pub(crate) fn replace(&mut self, range: Range<usize>, with: &Self) -> Self {
        let removed = self.part(range.clone());
        let pastes = self.pastes_before(range.start);
        self.pastes.splice(pastes..pastes + removed.pastes.len(), with.pastes.iter().cloned());
        self.text.replace_range(range, &with.text);
        removed
    }

    /// Writes the words another way, and leaves the pastes as they are.
    pub(crate) fn map_text(&mut self, map: impl Fn(&str) -> String) {
        let words: Vec<_> = self.text.split(ATOM).map(|words| clean(&map(words))).collect();
        self.text = words.join(&ATOM.to_string());
    }

    /// Returns the whole text, and where in it the pastes are.
    pub(crate) fn expanded(&self) -> (String, Vec<Range<usize>>) {
        let pasted: usize = self.pastes.iter().map(|paste| paste.text.len()).sum();
        let mut whole = String::with_capacity(self.text.len() + pasted);
        let mut ranges = Vec::with_capacity(self.pastes.len());
        for (words, paste) in self.pieces() {
            whole.push_str(words);
            if let Some(paste) = paste {
                ranges.push(whole.len()..whole.len() + paste.text.len());
                whole.push_str(&paste.text);
            }
        }
        (whole, ranges)
    }

    /// Returns the text as shown, with labels for pastes.
    pub(crate) fn shown(&self) -> String {
        let mut shown = String::with_capacity(self.text.len());
        for (words, paste) in self.pieces() {
            shown.push_str(words);
            shown.push_str(paste.map_or("", |paste| paste.label()));
        }
        shown
    }

    /// Returns the bytes of the whole text.
    pub(crate) fn whole_len(&self) -> usize {
        let pasted: usize = self.pastes.iter().map(|paste| paste.text.len()).sum();
        self.text.len() - self.pastes.len() * ATOM.len_utf8() + pasted
    }

    /// Returns whether nothing but blanks is in it.
    pub(crate) fn is_blank(&self) -> bool {
        self.pastes.iter().all(|paste| paste.text.trim().is_empty())
            && self.text.chars().all(|c| c.is_whitespace() || c == ATOM)
    }

    /// Returns the words between the pastes, each with the paste behind it.
    fn pieces(&self) -> impl Iterator<Item = (&str, Option<&Arc<Paste>>)> {
        let mut pastes = self.pastes.iter();
        self.text.split(ATOM).map(move |words| (words, pastes.next()))
    }
}

/// Returns how many lines a text has; an end of line at its end begins none.
fn lines(text: &str) -> usize {
    let ends = text.bytes().filter(|&byte| byte == b'\n').count();
    (ends + usize::from(!text.ends_with('\n'))).max(1)
}

/// Returns a number with commas between thousands.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn ends_of_lines(text: &str) -> String {
    if text.contains('\r') {
        text.replace("\r\n", "\n").replace('\r', "\n")
    } else {
        text.to_owned()
    }
}

fn clean(text: &str) -> String {
    let text = ends_of_lines(text);
    if text.contains(ATOM) { text.replace(ATOM, NOT_A_CHARACTER) } else { text }
}

#[cfg(test)]
mod tests {
    use unicode_segmentation::UnicodeSegmentation as _;

    use super::*;

    #[test]
    fn a_paste_joins_neither_neighbour() {
        for (before, after) in
            [("a", "\u{301}"), ("\u{600}", "b"), ("👩\u{200d}", "👩"), ("🇩", "🇪")]
        {
            let text = format!("{before}{ATOM}{after}");
            let graphemes: Vec<_> = text.graphemes(true).collect();
            assert_eq!(graphemes, [before, "\u{fff0}", after]);
        }
    }

    #[test]
    fn what_is_sent_is_what_was_pasted_to_the_byte() {
        let odd = format!("\u{1b}[31m{ATOM}\u{0}\t \n").repeat(20);
        let mut fragment = Fragment::plain("a");
        fragment.push(&Fragment::pasted(&odd));
        fragment.push(&Fragment::plain("b"));
        assert_eq!(fragment.expanded().0, format!("a{odd}b"));
        assert_eq!(fragment.shown(), "a[pasted 20 lines]b");
    }

    #[test]
    fn parts_and_replacements_keep_each_paste_in_its_place() {
        let one = Fragment::pasted(&"1\n".repeat(11));
        let two = Fragment::pasted(&"2\n".repeat(12));
        let mut fragment = one.clone();
        fragment.push(&Fragment::plain(" and "));
        fragment.push(&two);
        let three = Fragment::pasted(&"3\n".repeat(13));
        let removed = fragment.replace(0..ATOM.len_utf8(), &three);
        assert_eq!(removed, one);
        assert_eq!(fragment.shown(), "[pasted 13 lines] and [pasted 12 lines]");
        assert_eq!(
            fragment.part(ATOM.len_utf8()..fragment.len()).shown(),
            " and [pasted 12 lines]"
        );
        let (whole, ranges) = fragment.expanded();
        assert_eq!(Fragment::with_pastes(&whole, &ranges), fragment);
    }

    #[test]
    fn ranges_that_are_none_are_passed_over() {
        #[expect(clippy::reversed_empty_ranges, reason = "what a broken file may say")]
        let wrong = [0..1, 3..2, 1..99, 4..4];
        let fragment = Fragment::with_pastes("äbcd", &wrong);
        assert_eq!(fragment, Fragment::plain("äbcd"));
        assert_eq!(Fragment::with_pastes("abcd", &[1..3, 2..4]).shown(), "a[pasted 2 characters]d");
    }
}
