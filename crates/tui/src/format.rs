//! Numbers and durations as people read them, and text without its styles.

use std::fmt::Display;
use std::time::Duration;

/// Returns how long something took: `340ms`, `1.2s`, `3m 20s`.
pub fn took(duration: Duration) -> String {
    match duration.as_secs() {
        0 => format!("{}ms", duration.as_millis()),
        1..60 => format!("{:.1}s", duration.as_secs_f64()),
        _ => clock(duration),
    }
}

/// Returns a duration in whole seconds: `45s`, `3m 05s`, `2h 10m`.
pub fn clock(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m {:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h {:02}m", seconds / 3600, seconds % 3600 / 60),
    }
}

/// Returns a duration in its largest unit: `45s`, `3m`, `2h`, `5d`.
pub fn span(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// Returns a number, roughly: `812`, `12k`, `1.2M`.
#[expect(clippy::cast_precision_loss, reason = "one decimal is shown")]
pub fn rough(count: u64) -> String {
    match count {
        0..1000 => count.to_string(),
        1000..1_000_000 => format!("{}k", count / 1000),
        _ => format!("{:.1}M", count as f64 / 1e6),
    }
}

/// Returns a number of bytes in its largest unit.
#[expect(clippy::cast_precision_loss, reason = "one decimal is shown")]
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{count} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}

/// Returns a cost: `$0.04`, with more digits for tiny amounts.
#[expect(clippy::cast_precision_loss, reason = "four decimals are shown")]
pub fn dollars(micro_usd: u64) -> String {
    let usd = micro_usd as f64 / 1e6;
    if micro_usd < 10_000 { format!("${usd:.4}") } else { format!("${usd:.2}") }
}

/// Returns a whole number with its noun: `1 line`, `12,000 lines`.
pub fn count(number: impl Display, noun: &str) -> String {
    let number = grouped(number);
    let plural = if number == "1" { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

/// Returns a whole number with its digits in groups: `12,000`.
pub fn grouped(number: impl Display) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Returns text without terminal escape sequences.
pub fn without_escapes(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\x1b' {
            plain.push(c);
            continue;
        }
        if chars.clone().next() == Some('[') {
            chars.find(|c| matches!(c, '@'..='~') && *c != '[');
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_styles_a_text_is_taken_out_of_it() {
        assert_eq!(without_escapes("\x1b[1;31mred\x1b[0m and \x1b[plain"), "red and lain");
        assert_eq!(without_escapes("a\x1b"), "a");
    }

    #[test]
    fn durations_are_short_and_exact_enough() {
        assert_eq!(took(Duration::from_millis(340)), "340ms");
        assert_eq!(took(Duration::from_millis(12_340)), "12.3s");
        assert_eq!(took(Duration::from_secs(185)), "3m 05s");
        assert_eq!(clock(Duration::from_mins(131)), "2h 11m");
        let spans = [59, 185, 7300, 200_000].map(|seconds| span(Duration::from_secs(seconds)));
        assert_eq!(spans, ["59s", "3m", "2h", "2d"]);
    }

    #[test]
    fn numbers_are_short_and_exact_enough() {
        assert_eq!([812, 12_400, 1_240_000].map(rough), ["812", "12k", "1.2M"]);
        assert_eq!([42_000, 900].map(dollars), ["$0.04", "$0.0009"]);
        assert_eq!([0, 1, 12_000].map(|n| count(n, "line")), ["0 lines", "1 line", "12,000 lines"]);
        let sizes = [0, 1023, 1536, 3 << 20, 5 << 30].map(bytes);
        assert_eq!(sizes, ["0 B", "1023 B", "1.5 KiB", "3.0 MiB", "5.0 GiB"]);
    }
}
