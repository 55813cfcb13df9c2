//! Text that does nothing to a terminal but be seen.

use std::fmt::Write as _;

use super::cells::char_width;
use super::hidden::{Hidden, flag};

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
