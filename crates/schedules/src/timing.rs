//! When a schedule is due, as people write it: a cron expression, an interval, or one moment.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::civil::DateTime;
use jiff::{SignedDuration, Timestamp};

/// The longest text that is read.
const MAX_TEXT: usize = 200;

/// The shortest interval. A run is a conversation with a model; a shorter one is a mistake.
const MIN_INTERVAL: i64 = 60;

/// The longest interval: ten years.
const MAX_INTERVAL: i64 = 3650 * 86_400;

/// The fields of a cron expression, and what they take.
const FIELDS: [(&str, &str); 5] = [
    ("minute", "0-59"),
    ("hour", "0-23"),
    ("day of the month", "1-31"),
    ("month", "1-12 or jan-dec"),
    ("weekday", "0-7 or sun-sat"),
];

/// When a schedule is due.
#[derive(Debug, Clone, PartialEq)]
pub enum ScheduleTiming {
    /// Whenever the local clock matches a cron expression.
    Cron(CronExpression),
    /// Again and again after so many seconds of elapsed time, counted from when the schedule was made.
    Every {
        /// The interval.
        seconds: i64,
    },
    /// Once, when the local clock shows this.
    At(DateTime),
    /// Once, at this moment, whatever the local clock shows.
    Instant(Timestamp),
}

/// A cron expression of five fields.
#[derive(Debug, Clone, PartialEq)]
pub struct CronExpression {
    text: String,
    pub(crate) cron: Box<Cron>,
}

/// A text that says no time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a schedule: {reason}")]
pub struct InvalidTiming {
    /// The text, shortened.
    pub text: String,
    /// What is wrong with it.
    pub reason: String,
}

impl InvalidTiming {
    /// What can be written instead: a line for each kind.
    pub const EXAMPLES: [&'static str; 3] = [
        "'0 9 * * 1-5'             at 9:00 from Monday to Friday (minute hour day month weekday)",
        "'every 2h'                every two hours (m, h, d)",
        "'at 2026-12-24T18:00'     once (or 'in 20m')",
    ];

    fn new(text: &str, reason: impl Into<String>) -> Self {
        let shown: String = text.chars().take(60).collect();
        Self { text: shown, reason: reason.into() }
    }
}

impl ScheduleTiming {
    /// Reads what a person writes; `now` is what `in 20m` counts from.
    pub fn parse(text: &str, now: Timestamp) -> Result<Self, InvalidTiming> {
        let trimmed = text.trim();
        let invalid = |reason: &str| InvalidTiming::new(trimmed, reason);
        if trimmed.is_empty() {
            return Err(invalid("it is empty"));
        }
        if trimmed.len() > MAX_TEXT {
            return Err(invalid("it is too long"));
        }
        let (word, rest) = trimmed.split_once(char::is_whitespace).unwrap_or((trimmed, ""));
        let rest = rest.trim();
        match word.to_ascii_lowercase().as_str() {
            "every" => {
                let seconds = span_seconds(rest).map_err(|reason| invalid(&reason))?;
                Ok(Self::Every { seconds })
            }
            "in" => {
                let seconds = span_seconds(rest).map_err(|reason| invalid(&reason))?;
                let at = now.checked_add(SignedDuration::from_secs(seconds));
                at.map(|at| Self::Instant(whole_second(at)))
                    .map_err(|_| invalid("that is too far away"))
            }
            "at" => moment(rest).map_err(|reason| invalid(&reason)),
            // A date alone is meant the same way.
            _ if word.len() >= 8
                && word.starts_with(|c: char| c.is_ascii_digit())
                && word.contains('-') =>
            {
                moment(trimmed).map_err(|reason| invalid(&reason))
            }
            _ => CronExpression::parse(trimmed).map(Self::Cron),
        }
    }

    /// Reports whether it comes once only.
    pub const fn is_once(&self) -> bool {
        matches!(self, Self::At(_) | Self::Instant(_))
    }

    /// Returns it as words.
    pub fn in_words(&self) -> String {
        match self {
            Self::Cron(expression) => expression.cron.describe(),
            Self::Every { .. } => self.to_string(),
            Self::At(at) => format!("once at {}", at.strftime("%Y-%m-%d %H:%M")),
            Self::Instant(at) => format!("once at {at}"),
        }
    }
}

/// The text that is stored and shown. [`ScheduleTiming::parse`] reads it back.
impl fmt::Display for ScheduleTiming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cron(expression) => f.write_str(&expression.text),
            Self::Every { seconds } => {
                let (number, unit) = match seconds {
                    s if s % 86_400 == 0 => (s / 86_400, "d"),
                    s if s % 3600 == 0 => (s / 3600, "h"),
                    s if s % 60 == 0 => (s / 60, "m"),
                    s => (*s, "s"),
                };
                write!(f, "every {number}{unit}")
            }
            Self::At(at) if at.second() == 0 => write!(f, "at {}", at.strftime("%Y-%m-%dT%H:%M")),
            Self::At(at) => write!(f, "at {}", at.strftime("%Y-%m-%dT%H:%M:%S")),
            Self::Instant(at) => write!(f, "at {at}"),
        }
    }
}

impl CronExpression {
    fn parse(text: &str) -> Result<Self, InvalidTiming> {
        let invalid = |reason: String| InvalidTiming::new(text, reason);
        let allowed = |c: char| c.is_ascii_alphanumeric() || " \t*/,-#@?+".contains(c);
        if !text.chars().all(allowed) {
            return Err(invalid("it is not a cron expression, an interval or a date".to_owned()));
        }
        let fields: Vec<&str> = text.split_ascii_whitespace().collect();
        let is_nickname = fields.len() == 1 && text.starts_with('@');
        if fields.len() != 5 && !is_nickname {
            return Err(invalid(match fields.len() {
                6 | 7 => "a cron expression has five fields; seconds and years are not supported"
                    .to_owned(),
                count => format!("a cron expression has five fields, and this has {count}"),
            }));
        }
        if is_nickname && text.eq_ignore_ascii_case("@reboot") {
            return Err(invalid("@reboot is not a time".to_owned()));
        }
        let parser =
            CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).build();
        let normal = fields.join(" ");
        let cron = parser.parse(&normal).map_err(|error| {
            if is_nickname {
                let known = "@hourly, @daily, @weekly, @monthly and @yearly are known";
                return invalid(known.to_owned());
            }
            let field = FIELDS.iter().enumerate().zip(&fields).find(|((at, _), field)| {
                let mut alone = ["*"; 5];
                alone[*at] = field;
                parser.parse(&alone.join(" ")).is_err()
            });
            invalid(match field {
                Some(((_, (name, range)), field)) => {
                    format!("{field:?} is not a {name}, which is {range}")
                }
                None => error.to_string().trim_end_matches('.').to_owned(),
            })
        })?;
        Ok(Self { text: normal, cron: Box::new(cron) })
    }
}

impl FromStr for CronExpression {
    type Err = InvalidTiming;

    fn from_str(text: &str) -> Result<Self, InvalidTiming> {
        Self::parse(text.trim())
    }
}

/// Reads a moment: a date and a time, with an offset or in the time zone of the schedule.
fn moment(text: &str) -> Result<ScheduleTiming, String> {
    let text = text.trim().replacen(' ', "T", 1);
    if let Ok(instant) = text.parse::<Timestamp>() {
        return Ok(ScheduleTiming::Instant(whole_second(instant)));
    }
    // A date without a time would mean midnight, which few people mean.
    if !text.contains(['T', 't']) {
        return Err("a moment has a date and a time, such as 2026-12-24T18:00".to_owned());
    }
    let civil: DateTime = text
        .parse()
        .map_err(|_| "a moment has a date and a time, such as 2026-12-24T18:00".to_owned())?;
    civil
        .with()
        .subsec_nanosecond(0)
        .build()
        .map(ScheduleTiming::At)
        .map_err(|error| error.to_string())
}

/// Due moments are whole seconds, so that a moment has one name.
pub(crate) fn whole_second(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}

/// Reads a span such as `90m`, `2h30m` or `1 day`.
fn span_seconds(text: &str) -> Result<i64, String> {
    const HOW: &str = "write a number with m, h or d, such as 30m or 2h";
    if text.is_empty() {
        return Err(HOW.to_owned());
    }
    let compact: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    let mut rest = compact.as_str();
    let mut total: i64 = 0;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let number: i64 = rest[..digits].parse().map_err(|_| HOW.to_owned())?;
        rest = &rest[digits..];
        let letters = rest.bytes().take_while(u8::is_ascii_alphabetic).count();
        let unit = match rest[..letters].to_ascii_lowercase().as_str() {
            "s" | "sec" | "secs" | "second" | "seconds" => 1,
            "m" | "min" | "mins" | "minute" | "minutes" => 60,
            "h" | "hr" | "hrs" | "hour" | "hours" => 3600,
            "d" | "day" | "days" => 86_400,
            "w" | "week" | "weeks" => 7 * 86_400,
            _ => return Err(HOW.to_owned()),
        };
        rest = &rest[letters..];
        total = number
            .checked_mul(unit)
            .and_then(|seconds| total.checked_add(seconds))
            .ok_or_else(|| "that is too long".to_owned())?;
    }
    match total {
        ..MIN_INTERVAL => Err("the shortest is 1m".to_owned()),
        MIN_INTERVAL..=MAX_INTERVAL => Ok(total),
        _ => Err("the longest is 3650d".to_owned()),
    }
}

/// The wall clock, or one that tests set. Clones are the same clock.
#[derive(Debug, Clone, Default)]
pub struct ScheduleClock {
    /// Milliseconds since 1970 of a clock that is set by hand; none: the machine's clock.
    set: Option<Arc<AtomicI64>>,
}

impl ScheduleClock {
    /// Returns the clock of this machine.
    pub const fn system() -> Self {
        Self { set: None }
    }

    /// Returns a clock that stands still until it is [set](Self::set).
    pub fn at(now: Timestamp) -> Self {
        Self { set: Some(Arc::new(AtomicI64::new(now.as_millisecond()))) }
    }

    /// Returns the time.
    pub fn now(&self) -> Timestamp {
        match &self.set {
            Some(set) => Timestamp::from_millisecond(set.load(Ordering::SeqCst))
                .unwrap_or(Timestamp::UNIX_EPOCH),
            None => Timestamp::now(),
        }
    }

    /// Sets a clock that is set by hand; the machine's clock goes by itself.
    pub fn set(&self, now: Timestamp) {
        if let Some(set) = &self.set {
            set.store(now.as_millisecond(), Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn now() -> Timestamp {
        "2026-01-31T10:00:00Z".parse().unwrap()
    }

    fn read(text: &str) -> Result<String, String> {
        let timing = ScheduleTiming::parse(text, now()).map_err(|error| error.to_string())?;
        let shown = timing.to_string();
        assert_eq!(ScheduleTiming::parse(&shown, now()).unwrap(), timing, "{shown} is read back");
        Ok(shown)
    }

    #[test]
    fn what_people_write_is_understood() {
        for (text, shown) in [
            ("0 9 * * *", "0 9 * * *"),
            ("  */15  0-6 * jan,Jul MON-fri ", "*/15 0-6 * jan,Jul MON-fri"),
            ("@daily", "@daily"),
            ("every 2h", "every 2h"),
            ("EVERY 90 minutes", "every 90m"),
            ("every 1h30m", "every 90m"),
            ("every 1 day", "every 1d"),
            ("at 2026-12-24T18:00", "at 2026-12-24T18:00"),
            ("2026-12-24 18:00:05", "at 2026-12-24T18:00:05"),
            ("at 2026-12-24T18:00+01:00", "at 2026-12-24T17:00:00Z"),
            ("in 20m", "at 2026-01-31T10:20:00Z"),
        ] {
            assert_eq!(read(text).as_deref(), Ok(shown), "{text}");
        }
    }

    #[test]
    fn what_is_no_schedule_is_refused_with_the_reason() {
        for (text, reason) in [
            ("", "it is empty"),
            ("every", "write a number with m, h or d"),
            ("every 5s", "the shortest is 1m"),
            ("every 99999999999999999999m", "write a number"),
            ("every 999999999999999999m", "too long"),
            ("every 4000d", "the longest is 3650d"),
            ("every day at 9am", "write a number with m, h or d"),
            ("at noon", "a moment has a date and a time"),
            ("at 2026-12-24", "a moment has a date and a time"),
            ("at 2026-02-30T10:00", "a moment has a date and a time"),
            ("* * * *", "has five fields, and this has 4"),
            ("0 * * * * *", "seconds and years are not supported"),
            ("61 * * * *", "\"61\" is not a minute, which is 0-59"),
            ("0 9 * * funday", "\"funday\" is not a weekday, which is 0-7 or sun-sat"),
            ("0 9 32 * *", "\"32\" is not a day of the month"),
            ("@reboot", "not a time"),
            ("@fortnightly", "@weekly, @monthly and @yearly are known"),
            ("tomorrow", "has five fields"),
            ("09:00 täglich", "not a cron expression"),
        ] {
            let error = read(text).expect_err(text);
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn garbage_never_panics(text in ".{0,40}") {
            drop(ScheduleTiming::parse(&text, now()));
        }

        #[test]
        fn garbage_of_the_right_letters_never_panics(
            text in "(every |at |in |@)?[0-9*/,#LW?+a-z-]{0,6}( [0-9*/,#LW?+a-z-]{0,6}){0,5}"
        ) {
            if let Ok(timing) = ScheduleTiming::parse(&text, now()) {
                // What is taken can be asked for its moments, and is read back as it was.
                let zone = crate::Zone::utc();
                timing.next_after(now(), now(), &zone);
                prop_assert_eq!(ScheduleTiming::parse(&timing.to_string(), now()).unwrap(), timing);
            }
        }
    }
}
