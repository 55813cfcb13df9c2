//! Makes text safe to show: nothing in it can control the terminal or hide from the reader.

use std::fmt::Write as _;

use crate::text::wrap::char_width;

/// How far apart the tab stops of a span are.
const TAB: usize = 4;

/// Returns the text as it may be sent to a terminal. What would command the
/// terminal, turn the order of reading around, or hide words from a person
/// while a model reads them, is shown as an escape; a tab becomes spaces, an end
/// of line within the text `⏎`, and a carriage return at its end is left out.
pub fn harmless(text: &str) -> String {
    let text = text.strip_suffix('\r').unwrap_or(text);
    if text.bytes().all(|byte| (b' '..0x7f).contains(&byte)) {
        return text.to_owned();
    }
    let mut shown = String::with_capacity(text.len());
    let mut column = 0;
    let mut hidden = Hidden::default();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        // The characters of a flag hide nothing, though each of them would.
        let length = flag(rest).unwrap_or(c.len_utf8());
        let (seen, after) = rest.split_at(length);
        rest = after;
        let from = shown.len();
        match c {
            '\t' => shown.extend(std::iter::repeat_n(' ', TAB - column % TAB)),
            '\n' => shown.push('⏎'),
            // Writing to a string cannot fail.
            c if c.is_control() => write!(shown, "\\x{:02x}", u32::from(c)).unwrap_or_default(),
            c if turns_around(c) || hidden.is_next(c) => {
                write!(shown, "\\u{{{:x}}}", u32::from(c)).unwrap_or_default();
            }
            _ => shown.push_str(seen),
        }
        column += shown[from..].chars().map(char_width).sum::<usize>();
    }
    shown
}

/// Whether a character changes the order or the lines in which others are seen.
fn turns_around(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}')
}

/// More marks on one letter than this are not writing (Unicode's stream-safe text
/// has no more).
const MOST_MARKS: usize = 30;

/// The black flag, which tag characters turn into the flag of a region.
const FLAG: char = '\u{1f3f4}';
/// The longest name of a region, in tag characters.
const LONGEST_REGION: usize = 6;
const END_OF_FLAG: char = '\u{e007f}';

/// What came before, as far as it decides what may be hidden.
#[derive(Debug, Default)]
pub(super) struct Hidden {
    before: PrecedingText,
    /// How many characters without a width came one after the other.
    marks: usize,
}

#[derive(Debug, Clone, Copy, Default)]
enum PrecedingText {
    /// Nothing, of which anything may be a part.
    #[default]
    Nothing,
    /// A character that is seen.
    Seen(char),
    /// What chooses the form of the character before it.
    Selector,
    /// What joins or divides its neighbours.
    Joiner,
}

impl Hidden {
    /// Returns whether the next character would hide something.
    pub(super) fn is_next(&mut self, c: char) -> bool {
        self.marks = if char_width(c) == 0 { self.marks + 1 } else { 0 };
        let (after, is_hidden) = if is_invisible(c) {
            (self.before, true)
        } else if is_selector(c) {
            (PrecedingText::Selector, !may_select(c, self.before))
        } else if is_joiner(c) {
            (PrecedingText::Joiner, matches!(self.before, PrecedingText::Joiner))
        } else {
            (PrecedingText::Seen(c), self.marks > MOST_MARKS)
        };
        self.before = after;
        is_hidden
    }
}

/// Returns how long the flag of a region is that a text begins with.
pub(super) fn flag(text: &str) -> Option<usize> {
    let name = text.strip_prefix(FLAG)?;
    let region = |c: &char| matches!(c, '\u{e0030}'..='\u{e0039}' | '\u{e0061}'..='\u{e007a}');
    let length: usize =
        name.chars().take(LONGEST_REGION).take_while(region).map(char::len_utf8).sum();
    let is_ended = length > 0 && name[length..].starts_with(END_OF_FLAG);
    is_ended.then_some(FLAG.len_utf8() + length + END_OF_FLAG.len_utf8())
}

/// Whether a character is seen nowhere, and belongs to nothing that is.
fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{ad}'
            | '\u{115f}'
            | '\u{1160}'
            | '\u{180e}'
            | '\u{2060}'..='\u{2065}'
            | '\u{206a}'..='\u{206f}'
            | '\u{3164}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e00ff}'
            | '\u{e01f0}'..='\u{e0fff}'
    )
}

fn is_joiner(c: char) -> bool {
    matches!(c, '\u{34f}' | '\u{61c}' | '\u{200b}'..='\u{200f}')
}

fn is_selector(c: char) -> bool {
    matches!(c, '\u{180b}'..='\u{180d}' | '\u{180f}' | '\u{fe00}'..='\u{fe0f}') || is_ideographic(c)
}

/// Whether a character chooses the form of an ideograph.
fn is_ideographic(c: char) -> bool {
    matches!(c, '\u{e0100}'..='\u{e01ef}')
}

/// Whether there is something of which a form can be chosen.
fn may_select(selector: char, before: PrecedingText) -> bool {
    match before {
        PrecedingText::Nothing => true,
        PrecedingText::Seen(c) if is_ideographic(selector) => char_width(c) == 2,
        // Digits are on keys, and so are these.
        PrecedingText::Seen(c) => !c.is_ascii() || c.is_ascii_digit() || matches!(c, '#' | '*'),
        PrecedingText::Selector | PrecedingText::Joiner => false,
    }
}
