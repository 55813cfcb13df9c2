//! Text that does nothing to a terminal but be seen.

use std::borrow::Cow;
use std::fmt::Write as _;

/// How far apart the tab stops of a span are.
const TAB: usize = 4;

/// The black flag, which tag characters turn into the flag of a region.
const FLAG: char = '\u{1f3f4}';

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
    let mut in_flag = false;
    for c in text.chars() {
        in_flag = c == FLAG || (in_flag && is_tag(c));
        let seen: Cow<'static, str> = match c {
            '\t' => " ".repeat(TAB - column % TAB).into(),
            '\n' => "⏎".into(),
            c if c.is_control() => escaped(format_args!("\\x{:02x}", u32::from(c))),
            c if turns_around(c) || (is_tag(c) && !in_flag) => {
                escaped(format_args!("\\u{{{:x}}}", u32::from(c)))
            }
            c => {
                shown.push(c);
                column += super::cells::char_width(c);
                continue;
            }
        };
        column += seen.chars().count();
        shown.push_str(&seen);
    }
    shown
}

fn escaped(escape: std::fmt::Arguments<'_>) -> Cow<'static, str> {
    let mut text = String::new();
    // Writing to a string cannot fail.
    text.write_fmt(escape).unwrap_or_default();
    text.into()
}

/// Whether a character changes the order or the lines in which others are seen.
fn turns_around(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}')
}

/// Whether a character is one of the invisible twins of ASCII.
fn is_tag(c: char) -> bool {
    matches!(c, '\u{e0000}'..='\u{e007f}')
}
