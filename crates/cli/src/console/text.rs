//! Text for people: control characters made visible, ages, colours; numbers as the chat shows them.

use std::fmt::Write as _;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use jiff::Timestamp;
pub(crate) use vestal_tui::format::{bytes, count, grouped, span, took};

/// Returns text that does nothing to a terminal: control characters, which a
/// name or a message from a sandbox may contain, are shown instead of sent.
pub(crate) fn printable(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut shown, c| {
        match c {
            '\n' => shown.push('⏎'),
            '\t' => shown.push(' '),
            c => show(&mut shown, c),
        }
        shown
    })
}

/// Adds a character, or what stands for one that would do something else than
/// be seen: command a terminal, or turn the order of what is read around.
fn show(shown: &mut String, c: char) {
    let turns_around = matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    // Writing to a string cannot fail.
    if c.is_control() {
        write!(shown, "\\x{:02x}", u32::from(c)).ok();
    } else if turns_around {
        write!(shown, "\\u{{{:x}}}", u32::from(c)).ok();
    } else {
        shown.push(c);
    }
}

/// As [`printable`], but keeps the ends of lines.
pub(crate) fn printable_lines(text: &str) -> String {
    text.lines().map(printable).collect::<Vec<_>>().join("\n")
}

/// As [`printable`], but keeps ends of lines and tabs: text that is shown as it
/// was written.
pub(crate) fn harmless(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\r' => {}
            '\n' | '\t' => shown.push(c),
            c => show(&mut shown, c),
        }
    }
    shown
}

/// Returns how long ago something was, or that it is to come.
pub(crate) fn ago(then: Timestamp, now: Timestamp) -> String {
    match Duration::try_from(now.duration_since(then)) {
        Ok(past) if past.as_secs() == 0 => "now".to_owned(),
        Ok(past) => format!("{} ago", span(past)),
        Err(_) => format!("in {}", span(now.duration_since(then).unsigned_abs())),
    }
}

/// For what stands out.
pub(crate) const BOLD: Style = Style::new().bold();
/// For what may be passed over.
pub(crate) const DIM: Style = Style::new().dimmed();
/// For what is well.
pub(crate) const GREEN: Style = AnsiColor::Green.on_default();
/// For what deserves attention.
pub(crate) const YELLOW: Style = AnsiColor::Yellow.on_default();
/// For what is wrong.
pub(crate) const RED: Style = AnsiColor::Red.on_default().bold();

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_guest_says_cannot_command_the_terminal() {
        assert_eq!(printable("a\x1b[2Jb\nc\td\u{9b}"), "a\\x1b[2Jb⏎c d\\x9b");
        assert_eq!(printable_lines("a\x07\nb"), "a\\x07\nb");
        assert_eq!(printable("rm \u{202e}txt.exe\u{2069}"), "rm \\u{202e}txt.exe\\u{2069}");
        assert_eq!(harmless("a\tb\r\n\x1b[2J\u{9b}"), "a\tb\n\\x1b[2J\\x9b");
    }

    #[test]
    fn ages_are_in_their_largest_unit() {
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        assert_eq!(ago(at(1000), at(1000)), "now");
        assert_eq!(ago(at(0), at(59)), "59s ago");
        assert_eq!(ago(at(0), at(185)), "3m ago");
        assert_eq!(ago(at(0), at(7300)), "2h ago");
        assert_eq!(ago(at(0), at(200_000)), "2d ago");
        assert_eq!(ago(at(7300), at(0)), "in 2h");
    }
}
