//! Numbers and durations as people read them.

use std::time::Duration;

/// Returns how long something took: `340ms`, `1.2s`, `3m 20s`.
pub(crate) fn took(duration: Duration) -> String {
    match duration.as_secs() {
        0 => format!("{}ms", duration.as_millis()),
        1..60 => format!("{:.1}s", duration.as_secs_f64()),
        _ => span(duration),
    }
}

/// Returns a duration in whole seconds: `45s`, `3m 05s`, `2h 10m`.
pub(crate) fn span(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m {:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h {:02}m", seconds / 3600, seconds % 3600 / 60),
    }
}

/// Returns a number of tokens, roughly: `812`, `12k`, `1.2M`.
#[expect(clippy::cast_precision_loss, reason = "one decimal is shown")]
pub(crate) fn tokens(count: u64) -> String {
    match count {
        0..1000 => count.to_string(),
        1000..1_000_000 => format!("{}k", count / 1000),
        _ => format!("{:.1}M", count as f64 / 1e6),
    }
}

/// Returns a number of bytes in its largest unit.
#[expect(clippy::cast_precision_loss, reason = "one decimal is shown")]
pub(crate) fn bytes(count: u64) -> String {
    match count {
        0..1024 => format!("{count} B"),
        1024..0x10_0000 => format!("{:.1} KiB", count as f64 / 1024.0),
        _ => format!("{:.1} MiB", count as f64 / 1_048_576.0),
    }
}

/// Returns a cost: `$0.04`, with more digits for tiny amounts.
#[expect(clippy::cast_precision_loss, reason = "four decimals are shown")]
pub(crate) fn dollars(micro_usd: u64) -> String {
    let usd = micro_usd as f64 / 1e6;
    if micro_usd < 10_000 { format!("${usd:.4}") } else { format!("${usd:.2}") }
}

/// Returns a number with its noun: `1 line`, `12,000 lines`.
pub(crate) fn count(number: usize, noun: &str) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    let plural = if number == 1 { "" } else { "s" };
    format!("{grouped} {noun}{plural}")
}

/// Returns text without terminal escape sequences.
pub(crate) fn without_escapes(text: &str) -> String {
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
    fn spans_and_numbers_are_short_and_exact_enough() {
        assert_eq!(took(Duration::from_millis(340)), "340ms");
        assert_eq!(took(Duration::from_millis(12_340)), "12.3s");
        assert_eq!(span(Duration::from_secs(185)), "3m 05s");
        assert_eq!(span(Duration::from_mins(131)), "2h 11m");
        assert_eq!(
            (tokens(812), tokens(12_400), tokens(1_240_000)),
            ("812".into(), "12k".into(), "1.2M".into())
        );
        assert_eq!((dollars(42_000), dollars(900)), ("$0.04".into(), "$0.0009".into()));
        assert_eq!(
            (count(1, "line"), count(12_000, "line")),
            ("1 line".into(), "12,000 lines".into())
        );
        assert_eq!(
            (bytes(12), bytes(2048), bytes(3 << 20)),
            ("12 B".into(), "2.0 KiB".into(), "3.0 MiB".into())
        );
    }
}
