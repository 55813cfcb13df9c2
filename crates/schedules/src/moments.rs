//! The moments at which a schedule is due, in a time zone with its changes of the clock.
//!
//! The local clock is searched, and what it shows is turned into a moment by two rules: what
//! it never shows (a gap) comes at the first moment after the gap, what it shows twice (an overlap)
//! comes the first time only. So each due moment of the wall clock comes exactly once.

use std::fmt;

use croner::Cron;
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{SignedDuration, Timestamp};

use crate::timing::ScheduleTiming;

/// The name that stands for the machine's own time zone where that has none.
const SYSTEM: &str = "system";

/// A time zone with its name.
#[derive(Clone, PartialEq, Eq)]
pub struct Zone {
    name: String,
    zone: TimeZone,
}

/// A time zone that is not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no time zone {name:?} on this machine; write a name such as Europe/Berlin or UTC, and install tzdata if it should be known"
)]
pub struct InvalidZone {
    /// The name.
    pub name: String,
}

impl Zone {
    /// Finds a time zone by its IANA name.
    pub fn named(name: &str) -> Result<Self, InvalidZone> {
        let trimmed = name.trim();
        let invalid = || InvalidZone { name: trimmed.chars().take(60).collect() };
        if trimmed.eq_ignore_ascii_case("utc") {
            return Ok(Self::utc());
        }
        if trimmed == SYSTEM {
            return Ok(Self::system());
        }
        let zone = TimeZone::get(trimmed).map_err(|_| invalid())?;
        // As the database spells it: names are found whatever their case.
        let name = zone.iana_name().unwrap_or(trimmed).to_owned();
        Ok(Self { name, zone })
    }

    /// Returns the zone of this machine. It is named, so that a gateway with another environment
    /// means the same one.
    pub fn system() -> Self {
        let zone = TimeZone::system();
        let name = match zone.iana_name() {
            Some("Etc/UTC" | "Etc/Unknown" | "UTC") => return Self::utc(),
            Some(name) => name.to_owned(),
            None => SYSTEM.to_owned(),
        };
        Self { name, zone }
    }

    /// Returns UTC.
    pub fn utc() -> Self {
        Self { name: "UTC".to_owned(), zone: TimeZone::UTC }
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns what the local clock shows at a moment.
    pub fn show(&self, at: Timestamp) -> jiff::Zoned {
        at.to_zoned(self.zone.clone())
    }

    /// Returns the moment at which the local clock shows this, by the two rules above.
    fn moment(&self, civil: DateTime) -> Option<Timestamp> {
        let ambiguous = self.zone.to_ambiguous_timestamp(civil);
        match ambiguous.offset() {
            AmbiguousOffset::Unambiguous { .. } | AmbiguousOffset::Fold { .. } => {
                ambiguous.earlier().ok()
            }
            AmbiguousOffset::Gap { before, after } => {
                // Counted with the offset after the gap, it lies before the change of the clock.
                let outside = after.to_timestamp(civil).ok()?;
                let change = self.zone.following(outside).next().map(|change| change.timestamp());
                change.or_else(|| before.to_timestamp(civil).ok())
            }
        }
    }

    /// Returns the first moment after `after` whose time on the wall matches.
    fn next_match(&self, cron: &Cron, after: Timestamp) -> Option<Timestamp> {
        let mut civil = self.show(after).datetime();
        loop {
            civil = cron.find_next_occurrence(&civil, false).ok()?;
            // In an overlap, and at a gap, several times on the wall are past already.
            match self.moment(civil)? {
                moment if moment > after => return Some(moment),
                _ => {}
            }
        }
    }
}

impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Zone({})", self.name)
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.name)
    }
}

impl ScheduleTiming {
    /// Returns the first due moment after `after`; nothing if there is none any more. Intervals are
    /// counted from `anchor`.
    pub fn next_after(
        &self,
        after: Timestamp,
        anchor: Timestamp,
        zone: &Zone,
    ) -> Option<Timestamp> {
        match self {
            Self::Cron(expression) => zone.next_match(&expression.cron, after),
            Self::Every { seconds } => {
                let elapsed = after.as_second().saturating_sub(anchor.as_second());
                // The moments go on before the anchor: a clock that was ahead may have given it.
                let passed = elapsed.checked_div_euclid(*seconds)?;
                let offset = passed.checked_add(1)?.checked_mul(*seconds)?;
                anchor.checked_add(SignedDuration::from_secs(offset)).ok()
            }
            Self::At(civil) => zone.moment(*civil).filter(|at| *at > after),
            Self::Instant(at) => Some(*at).filter(|at| *at > after),
        }
    }

    /// Returns the next due moments.
    pub fn upcoming(
        &self,
        after: Timestamp,
        anchor: Timestamp,
        zone: &Zone,
        count: usize,
    ) -> Vec<Timestamp> {
        let first = self.next_after(after, anchor, zone);
        let next = |at: &Timestamp| self.next_after(*at, anchor, zone);
        std::iter::successors(first, next).take(count).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn moments(timing: &str, zone: &str, after: &str, count: usize) -> Vec<String> {
        let timing = ScheduleTiming::parse(timing, at(after)).unwrap();
        let zone = Zone::named(zone).unwrap();
        let moments = timing.upcoming(at(after), at(after), &zone, count);
        moments.iter().map(ToString::to_string).collect()
    }

    /// The clocks of Berlin go from 02:00 to 03:00 on 2026-03-29 (01:00 UTC), and from 03:00 to 02:00
    /// on 2026-10-25 (01:00 UTC).
    #[test]
    fn a_time_that_does_not_exist_comes_at_the_next_that_does_and_one_that_exists_twice_comes_once()
    {
        let berlin = |timing, after, count| moments(timing, "Europe/Berlin", after, count);
        let gap = "2026-03-28T12:00:00Z";
        for (timing, expected) in [
            // Before, in and after the gap.
            ("30 1 * * *", ["2026-03-29T00:30:00Z", "2026-03-29T23:30:00Z"]),
            ("0 2 * * *", ["2026-03-29T01:00:00Z", "2026-03-30T00:00:00Z"]),
            ("30 2 * * *", ["2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]),
            ("59 2 * * *", ["2026-03-29T01:00:00Z", "2026-03-30T00:59:00Z"]),
            ("0 3 * * *", ["2026-03-29T01:00:00Z", "2026-03-30T01:00:00Z"]),
            ("30 3 * * *", ["2026-03-29T01:30:00Z", "2026-03-30T01:30:00Z"]),
        ] {
            assert_eq!(berlin(timing, gap, 2), expected, "{timing}");
        }
        // All that falls into the gap comes together, once.
        assert_eq!(
            berlin("*/20 * * * *", "2026-03-29T00:30:00Z", 4),
            [
                "2026-03-29T00:40:00Z",
                "2026-03-29T01:00:00Z",
                "2026-03-29T01:20:00Z",
                "2026-03-29T01:40:00Z"
            ]
        );
        assert_eq!(berlin("at 2026-03-29T02:30", gap, 2), ["2026-03-29T01:00:00Z"]);
        let overlap = "2026-10-24T12:00:00Z";
        for (timing, expected) in [
            ("59 1 * * *", ["2026-10-24T23:59:00Z", "2026-10-26T00:59:00Z"]),
            ("0 2 * * *", ["2026-10-25T00:00:00Z", "2026-10-26T01:00:00Z"]),
            ("30 2 * * *", ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]),
            ("0 3 * * *", ["2026-10-25T02:00:00Z", "2026-10-26T02:00:00Z"]),
        ] {
            assert_eq!(berlin(timing, overlap, 2), expected, "{timing}");
        }
        // The second of two equal hours has no moments of its own.
        assert_eq!(
            berlin("*/30 * * * *", "2026-10-25T00:10:00Z", 3),
            ["2026-10-25T00:30:00Z", "2026-10-25T02:00:00Z", "2026-10-25T02:30:00Z"]
        );
        assert_eq!(berlin("at 2026-10-25T02:30", overlap, 2), ["2026-10-25T00:30:00Z"]);
        // Asked in the middle of the second hour, what was due in the first is past.
        assert_eq!(berlin("45 2 * * *", "2026-10-25T01:10:00Z", 1), ["2026-10-26T01:45:00Z"]);
    }

    #[test]
    fn an_interval_is_elapsed_time_whatever_the_clock_on_the_wall_does() {
        assert_eq!(
            moments("every 12h", "Europe/Berlin", "2026-03-28T12:00:00Z", 3),
            ["2026-03-29T00:00:00Z", "2026-03-29T12:00:00Z", "2026-03-30T00:00:00Z"]
        );
        let every = ScheduleTiming::parse("every 1h", at("2026-01-01T00:00:00Z")).unwrap();
        let (anchor, zone) = (at("2026-01-01T00:10:00Z"), Zone::utc());
        let next = |after: &str| every.next_after(at(after), anchor, &zone).unwrap().to_string();
        assert_eq!(next("2026-01-01T05:09:59Z"), "2026-01-01T05:10:00Z");
        assert_eq!(next("2026-01-01T05:10:00Z"), "2026-01-01T06:10:00Z");
        assert_eq!(next("2025-01-01T00:00:00Z"), "2025-01-01T00:10:00Z");
    }

    #[test]
    fn rare_and_impossible_dates_have_an_answer() {
        assert_eq!(
            moments("0 12 29 2 *", "UTC", "2026-01-31T10:00:00Z", 2),
            ["2028-02-29T12:00:00Z", "2032-02-29T12:00:00Z"]
        );
        assert_eq!(moments("0 0 30 2 *", "UTC", "2026-01-31T10:00:00Z", 1), [""; 0]);
        // Either the day of the month or the weekday, as cron has it.
        assert_eq!(
            moments("0 0 13 * fri", "UTC", "2026-02-10T00:00:00Z", 3),
            ["2026-02-13T00:00:00Z", "2026-02-20T00:00:00Z", "2026-02-27T00:00:00Z"]
        );
        assert_eq!(moments("at 2020-01-01T00:00", "UTC", "2026-01-31T10:00:00Z", 1), [""; 0]);
    }

    #[test]
    fn a_zone_is_found_by_name_and_an_unknown_one_is_refused() {
        assert_eq!(Zone::named("europe/berlin").unwrap().name(), "Europe/Berlin");
        assert_eq!(Zone::named("utc").unwrap(), Zone::utc());
        for name in ["", "Mars/Olympus", "../../etc/passwd", "Europe/Berlin\0"] {
            assert!(Zone::named(name).is_err(), "{name:?}");
        }
        let own = Zone::system();
        assert_eq!(Zone::named(own.name()).unwrap().name(), own.name());
    }
}
