//! Text for people: control characters made visible, times, sizes, colours.

use std::fmt::Write as _;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use jiff::Timestamp;
use vestal_config::Environment;

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

/// Returns how long something took: `340ms`, `1.2s`, `3m`.
pub(crate) fn took(duration: Duration) -> String {
    match duration.as_secs() {
        0 => format!("{}ms", duration.as_millis()),
        1..60 => format!("{:.1}s", duration.as_secs_f64()),
        _ => span(duration),
    }
}

/// Returns a span of time in its largest unit: `45s`, `3m`, `2h`, `5d`.
pub(crate) fn span(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// Returns how long ago something was, or that it is to come.
pub(crate) fn ago(then: Timestamp, now: Timestamp) -> String {
    match Duration::try_from(now.duration_since(then)) {
        Ok(past) if past.as_secs() == 0 => "now".to_owned(),
        Ok(past) => format!("{} ago", span(past)),
        Err(_) => format!("in {}", span(now.duration_since(then).unsigned_abs())),
    }
}

/// Returns a number of bytes in its largest unit.
#[expect(clippy::cast_precision_loss, reason = "one decimal is shown")]
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{count} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}

/// Returns a count with its noun: `1 job`, `2 jobs`.
pub(crate) fn count(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
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

/// Whether a stream shows colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Colour {
    On,
    Off,
}

impl Colour {
    /// Decides for one stream. `NO_COLOR` with any value turns colour off.
    pub(super) fn decide(environment: &Environment, is_terminal: bool) -> Self {
        let refused = environment.non_empty("NO_COLOR").is_some()
            || environment.get("TERM").is_some_and(|term| term == "dumb");
        if is_terminal && !refused { Self::On } else { Self::Off }
    }

    /// Returns text in a style.
    pub(super) fn paint(self, style: Style, text: &str) -> String {
        match self {
            Self::On => format!("{style}{text}{style:#}"),
            Self::Off => text.to_owned(),
        }
    }
}

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

    #[test]
    fn what_was_quick_is_told_in_its_smaller_unit() {
        assert_eq!(took(Duration::from_millis(340)), "340ms");
        assert_eq!(took(Duration::from_millis(1250)), "1.2s");
        assert_eq!(took(Duration::from_secs(185)), "3m");
    }

    #[test]
    fn sizes_are_in_powers_of_1024() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(bytes(5 << 30), "5.0 GiB");
        assert_eq!(count(1, "job"), "1 job");
        assert_eq!(count(0, "job"), "0 jobs");
    }

    #[test]
    fn colour_is_for_terminals_and_only_if_not_refused() {
        let none: [(&str, &str); 0] = [];
        let plain = Environment::from_pairs(none);
        assert_eq!(Colour::decide(&plain, true), Colour::On);
        assert_eq!(Colour::decide(&plain, false), Colour::Off);
        let refused = Environment::from_pairs([("NO_COLOR", "1")]);
        assert_eq!(Colour::decide(&refused, true), Colour::Off);
        let dumb = Environment::from_pairs([("TERM", "dumb")]);
        assert_eq!(Colour::decide(&dumb, true), Colour::Off);
    }
}
