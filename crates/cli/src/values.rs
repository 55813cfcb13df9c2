//! Values of options.

use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use rustix::process::Signal;

/// Reads a positive time: seconds, or a number with `s`, `m`, `h` or `d`.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let unit = match text.chars().last() {
        Some('m') => 60.0,
        Some('h') => 3600.0,
        Some('d') => 86_400.0,
        _ => 1.0,
    };
    let number: f64 = text
        .trim_end_matches(['s', 'm', 'h', 'd'])
        .parse()
        .map_err(|_| "write seconds (90, 0.5) or a number with s, m, h or d (10m)".to_owned())?;
    match Duration::try_from_secs_f64(number * unit) {
        Ok(duration) if !duration.is_zero() => Ok(duration),
        _ => Err("a time must be positive".to_owned()),
    }
}

/// A moment: so long ago, or at this time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PointInTime {
    /// So long ago.
    Age(Duration),
    /// At this time.
    Time(Timestamp),
}

impl PointInTime {
    /// Returns the moment.
    pub(crate) fn time(self, now: Timestamp) -> Timestamp {
        match self {
            // Older than time itself is as old as can be.
            Self::Age(age) => now.checked_sub(age).unwrap_or(Timestamp::MIN),
            Self::Time(time) => time,
        }
    }
}

/// Reads an age, a time with its zone, or one of this machine's.
pub(crate) fn parse_point_in_time(words: &str) -> Result<PointInTime, String> {
    if let Ok(age) = parse_duration(words) {
        return Ok(PointInTime::Age(age));
    }
    if let Ok(time) = words.parse() {
        return Ok(PointInTime::Time(time));
    }
    let local: DateTime = words.parse().map_err(|_| {
        "write an age (90, 10m, 1h, 2d) or a time (2026-01-31, 2026-01-31T10:00, 2026-01-31T10:00:00Z)"
            .to_owned()
    })?;
    let zoned = local.to_zoned(TimeZone::system()).map_err(|error| error.to_string())?;
    Ok(PointInTime::Time(zoned.timestamp()))
}

/// Signals by name.
const SIGNALS: &[(&str, Signal)] = &[
    ("HUP", Signal::HUP),
    ("INT", Signal::INT),
    ("QUIT", Signal::QUIT),
    ("ABRT", Signal::ABORT),
    ("KILL", Signal::KILL),
    ("USR1", Signal::USR1),
    ("USR2", Signal::USR2),
    ("ALRM", Signal::ALARM),
    ("TERM", Signal::TERM),
    ("CONT", Signal::CONT),
    ("STOP", Signal::STOP),
    ("TSTP", Signal::TSTP),
    ("TTIN", Signal::TTIN),
    ("TTOU", Signal::TTOU),
    ("WINCH", Signal::WINCH),
];

/// Highest number of a signal on Linux.
const LAST_SIGNAL: i32 = 64;

/// Reads a signal: `TERM`, `SIGTERM` or `15`.
pub(crate) fn parse_signal(text: &str) -> Result<i32, String> {
    if let Ok(number) = text.parse::<i32>() {
        return if (1..=LAST_SIGNAL).contains(&number) {
            Ok(number)
        } else {
            Err(format!("signals are 1 to {LAST_SIGNAL}"))
        };
    }
    let name = text.to_ascii_uppercase();
    let name = name.strip_prefix("SIG").unwrap_or(&name);
    let found = SIGNALS.iter().find(|(known, _)| *known == name);
    found.map(|(_, signal)| signal.as_raw()).ok_or_else(|| {
        let names: Vec<&str> = SIGNALS.iter().map(|(name, _)| *name).collect();
        format!("known signals: {}, or a number", names.join(", "))
    })
}

/// Returns a word as it has to be typed in a shell.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:,@%+=".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_in_time_is_an_age_or_a_time() {
        assert_eq!(parse_point_in_time("90"), Ok(PointInTime::Age(Duration::from_secs(90))));
        assert_eq!(parse_point_in_time("1h"), Ok(PointInTime::Age(Duration::from_hours(1))));
        let time: Timestamp = "2026-01-31T10:00:00Z".parse().unwrap();
        assert_eq!(parse_point_in_time("2026-01-31T11:00:00+01:00"), Ok(PointInTime::Time(time)));
        for local in ["2026-01-31", "2026-01-31 10:00", "2026-01-31T10:00:00"] {
            assert!(matches!(parse_point_in_time(local), Ok(PointInTime::Time(_))), "{local}");
        }
        for wrong in ["", "yesterday", "1w", "2026-13-01"] {
            assert!(parse_point_in_time(wrong).is_err(), "{wrong}");
        }
        assert_eq!(PointInTime::Age(Duration::MAX).time(time), Timestamp::MIN);
    }

    #[test]
    fn times_are_seconds_or_have_a_unit() {
        assert_eq!(parse_duration("90"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_duration("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_duration("10m"), Ok(Duration::from_mins(10)));
        assert_eq!(parse_duration("2h"), Ok(Duration::from_hours(2)));
        for wrong in ["", "x", "0", "-1", "inf", "NaN", "1e40", "m", "5x"] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn signals_have_names_and_numbers() {
        assert_eq!(parse_signal("TERM"), Ok(15));
        assert_eq!(parse_signal("sigint"), Ok(2));
        assert_eq!(parse_signal("10"), Ok(10));
        for wrong in ["0", "65", "FOO", ""] {
            assert!(parse_signal(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn words_are_quoted_for_the_shell_only_where_they_must_be() {
        assert_eq!(quoted("web-1"), "web-1");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
