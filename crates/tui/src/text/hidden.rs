//! Characters that nobody sees.
//!
//! Some belong to others: they join the parts of an emoji, choose the form of an
//! ideograph, divide the letters of a Persian word. More of them than that are a
//! way to hide words from a person while a model reads them, or to make a terminal
//! and us count columns differently.

use super::cells::char_width;

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
    before: Before,
    /// How many characters without a width came one after the other.
    marks: usize,
}

#[derive(Debug, Clone, Copy, Default)]
enum Before {
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
            (Before::Selector, !may_select(c, self.before))
        } else if is_joiner(c) {
            (Before::Joiner, matches!(self.before, Before::Joiner))
        } else {
            (Before::Seen(c), self.marks > MOST_MARKS)
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
fn may_select(selector: char, before: Before) -> bool {
    match before {
        Before::Nothing => true,
        Before::Seen(c) if is_ideographic(selector) => char_width(c) == 2,
        // Digits are on keys, and so are these.
        Before::Seen(c) => !c.is_ascii() || c.is_ascii_digit() || matches!(c, '#' | '*'),
        Before::Selector | Before::Joiner => false,
    }
}
