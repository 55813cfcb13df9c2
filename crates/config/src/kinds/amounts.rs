//! Durations, sizes and counts.

use std::time::Duration;

use serde_json::json;

use super::Setting;
use super::read::scaled;
use crate::value::{Decimal, SettingInput, SettingValue, ValueRefusal};

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
/// A day, in seconds.
pub const DAY: u64 = 24 * HOUR;
/// A year, in seconds.
pub const YEAR: u64 = 365 * DAY;
const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;
const GIB: u64 = 1024 * MIB;

/// The smallest and the largest value allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// The smallest.
    pub min: u64,
    /// The largest.
    pub max: u64,
}

impl Range {
    pub(super) fn check(&self, amount: u64, unit: &UnitFamily) -> Result<u64, ValueRefusal> {
        if amount < self.min {
            Err(ValueRefusal::new(format!("is less than {}", unit.describe(self.min))))
        } else if amount > self.max {
            Err(ValueRefusal::new(format!("is more than {}", unit.describe(self.max))))
        } else {
            Ok(amount)
        }
    }

    /// Returns two different amounts within the range.
    pub(super) fn examples(&self) -> Vec<String> {
        let middle = self.min + (self.max - self.min) / 2;
        let other = if middle == self.min { self.max } else { self.min };
        vec![middle.to_string(), other.to_string()]
    }
}

/// A family of suffixes; the first of each size is the one that is written.
pub(super) struct UnitFamily {
    pub(super) noun: &'static str,
    pub(super) base: &'static str,
    pub(super) suffixes: &'static [(&'static str, u64)],
}

const TIME: UnitFamily = UnitFamily {
    noun: "a duration in whole seconds",
    base: "s",
    suffixes: &[("d", DAY), ("h", HOUR), ("m", MINUTE), ("s", 1)],
};

const SIZE: UnitFamily = UnitFamily {
    noun: "a size in whole bytes",
    base: "",
    suffixes: &[
        ("G", GIB),
        ("GB", GIB),
        ("GiB", GIB),
        ("M", MIB),
        ("MB", MIB),
        ("MiB", MIB),
        ("K", KIB),
        ("KB", KIB),
        ("KiB", KIB),
        ("B", 1),
    ],
};

pub(super) const PLAIN: UnitFamily = UnitFamily { noun: "a whole number", base: "", suffixes: &[] };

impl UnitFamily {
    pub(super) fn read(&self, input: SettingInput<'_>) -> Result<u64, ValueRefusal> {
        let text = input.scalar()?.trim();
        let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, suffix) = text.split_at(digits);
        let suffix = suffix.trim_start();
        if number.is_empty() {
            return Err(ValueRefusal::new(format!("is not {}", self.noun)));
        }
        let factor = self
            .suffixes
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(suffix))
            .map(|(_, factor)| *factor)
            .or_else(|| suffix.is_empty().then_some(1))
            .ok_or_else(|| ValueRefusal::new(format!("is not {}", self.noun)))?;
        number
            .parse::<u64>()
            .ok()
            .and_then(|number| number.checked_mul(factor))
            .ok_or_else(|| ValueRefusal::new("is too large"))
    }

    /// Writes an amount with the largest suffix that keeps it whole.
    pub(super) fn describe(&self, amount: u64) -> String {
        self.suffixes
            .iter()
            .find(|(_, factor)| amount != 0 && amount.is_multiple_of(*factor) && *factor > 1)
            .map_or_else(
                || format!("{amount}{}", self.base),
                |(suffix, factor)| format!("{}{suffix}", amount / factor),
            )
    }
}

/// A whole number of seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seconds(u64);

impl Seconds {
    /// Makes a duration of so many seconds.
    pub const fn new(seconds: u64) -> Self {
        Self(seconds)
    }

    /// Returns the number of seconds.
    pub const fn as_secs(self) -> u64 {
        self.0
    }

    /// Returns the duration.
    pub const fn duration(self) -> Duration {
        Duration::from_secs(self.0)
    }
}

impl Setting for Seconds {
    type Limits = Range;

    fn read(input: SettingInput<'_>, limits: &Range) -> Result<Self, ValueRefusal> {
        limits.check(TIME.read(input)?, &TIME).map(Self)
    }

    fn to_value(&self) -> SettingValue {
        SettingValue::Integer(self.0)
    }

    fn in_words(&self) -> Option<String> {
        Some(TIME.describe(self.0))
    }

    fn allowed(limits: &Range) -> String {
        let (min, max) = (TIME.describe(limits.min), TIME.describe(limits.max));
        format!("{min} to {max}, in seconds or with s, m, h or d")
    }

    fn examples(limits: &Range) -> Vec<String> {
        limits.examples()
    }

    fn schema(limits: &Range) -> serde_json::Value {
        json!({"anyOf": [
            {"type": "integer", "minimum": limits.min, "maximum": limits.max},
            {"type": "string", "pattern": "^[0-9]+ *[sSmMhHdD]?$"},
        ]})
    }
}

/// A time after which something happens, or never.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SecondsOrNever {
    /// It does not happen.
    Never,
    /// It happens after this time.
    After(Seconds),
}

impl SecondsOrNever {
    /// Returns the time, or none for never.
    pub const fn duration(self) -> Option<Duration> {
        match self {
            Self::Never => None,
            Self::After(seconds) => Some(seconds.duration()),
        }
    }
}

impl Setting for SecondsOrNever {
    type Limits = Range;

    fn read(input: SettingInput<'_>, limits: &Range) -> Result<Self, ValueRefusal> {
        if input.scalar()?.trim().eq_ignore_ascii_case("never") {
            return Ok(Self::Never);
        }
        match TIME.read(input)? {
            0 => Ok(Self::Never),
            seconds => limits.check(seconds, &TIME).map(|s| Self::After(Seconds(s))),
        }
    }

    fn to_value(&self) -> SettingValue {
        match self {
            Self::Never => SettingValue::Integer(0),
            Self::After(seconds) => seconds.to_value(),
        }
    }

    fn in_words(&self) -> Option<String> {
        match self {
            Self::Never => Some("never".to_owned()),
            Self::After(seconds) => seconds.in_words(),
        }
    }

    fn allowed(limits: &Range) -> String {
        format!("{}; 0 or never for never", Seconds::allowed(limits))
    }

    fn examples(limits: &Range) -> Vec<String> {
        let mut examples = limits.examples();
        examples.push("never".to_owned());
        examples
    }

    fn schema(limits: &Range) -> serde_json::Value {
        json!({"anyOf": [
            {"type": "integer", "minimum": limits.min, "maximum": limits.max},
            {"enum": [0, "never"]},
            {"type": "string", "pattern": "^[0-9]+ *[sSmMhHdD]?$"},
        ]})
    }
}

/// A size in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSize(u64);

impl ByteSize {
    /// Makes a size of so many bytes.
    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }

    /// Makes a size of so many kibibytes.
    pub const fn kib(kib: u64) -> Self {
        Self(kib * KIB)
    }

    /// Makes a size of so many mebibytes.
    pub const fn mib(mib: u64) -> Self {
        Self(mib * MIB)
    }

    /// Returns the number of bytes.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl Setting for ByteSize {
    type Limits = Range;

    fn read(input: SettingInput<'_>, limits: &Range) -> Result<Self, ValueRefusal> {
        limits.check(SIZE.read(input)?, &SIZE).map(Self)
    }

    fn to_value(&self) -> SettingValue {
        SettingValue::Integer(self.0)
    }

    fn in_words(&self) -> Option<String> {
        Some(SIZE.describe(self.0))
    }

    fn allowed(limits: &Range) -> String {
        let (min, max) = (SIZE.describe(limits.min), SIZE.describe(limits.max));
        format!("{min} to {max}, in bytes or with K, M or G (powers of 1024)")
    }

    fn examples(limits: &Range) -> Vec<String> {
        limits.examples()
    }

    fn schema(limits: &Range) -> serde_json::Value {
        json!({"anyOf": [
            {"type": "integer", "minimum": limits.min, "maximum": limits.max},
            {"type": "string", "pattern": "^[0-9]+ *([kKmMgG]([iI]?[bB])?|[bB])?$"},
        ]})
    }
}

/// A number of things.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Count(u32);

impl Count {
    /// Makes a count.
    pub const fn new(count: u32) -> Self {
        Self(count)
    }

    /// Returns the number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl Setting for Count {
    type Limits = Range;

    fn read(input: SettingInput<'_>, limits: &Range) -> Result<Self, ValueRefusal> {
        let number = limits.check(PLAIN.read(input)?, &PLAIN)?;
        u32::try_from(number).map(Self).map_err(|_| ValueRefusal::new("is too large"))
    }

    fn to_value(&self) -> SettingValue {
        SettingValue::Integer(u64::from(self.0))
    }

    fn allowed(limits: &Range) -> String {
        format!("{} to {}", limits.min, limits.max)
    }

    fn examples(limits: &Range) -> Vec<String> {
        limits.examples()
    }

    fn schema(limits: &Range) -> serde_json::Value {
        json!({"type": "integer", "minimum": limits.min, "maximum": limits.max})
    }
}

/// A short time, in seconds with up to three digits after the point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment {
    millis: u64,
}

impl Moment {
    /// Makes a time of so many milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self { millis }
    }

    /// Returns the time.
    pub const fn duration(self) -> Duration {
        Duration::from_millis(self.millis)
    }
}

impl Setting for Moment {
    /// In milliseconds.
    type Limits = Range;

    fn read(input: SettingInput<'_>, limits: &Range) -> Result<Self, ValueRefusal> {
        let text = input.scalar()?.trim();
        let number = text.strip_suffix('s').map_or(text, str::trim_end);
        let millis = scaled(number, 1000)
            .ok_or_else(|| ValueRefusal::new("is not a time in seconds such as 1.5"))?;
        let shown = Decimal::from_thousandths;
        if millis < limits.min {
            return Err(ValueRefusal::new(format!("is less than {}", shown(limits.min))));
        }
        if millis > limits.max {
            return Err(ValueRefusal::new(format!("is more than {}", shown(limits.max))));
        }
        Ok(Self { millis })
    }

    fn to_value(&self) -> SettingValue {
        SettingValue::Decimal(Decimal::from_thousandths(self.millis))
    }

    fn allowed(limits: &Range) -> String {
        let shown = Decimal::from_thousandths;
        format!("{} to {} seconds", shown(limits.min), shown(limits.max))
    }

    fn examples(_: &Range) -> Vec<String> {
        vec!["1.25".to_owned(), "3".to_owned()]
    }

    fn schema(limits: &Range) -> serde_json::Value {
        let seconds = Decimal::from_thousandths;
        json!({"type": "number", "minimum": seconds(limits.min), "maximum": seconds(limits.max)})
    }
}

/// A share of something, between 0 and 1, in whole thousandths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fraction {
    thousandths: u32,
}

impl Fraction {
    /// Makes a share of so many thousandths.
    pub const fn from_thousandths(thousandths: u32) -> Self {
        Self { thousandths }
    }

    /// Returns the share as a number.
    pub fn as_f64(self) -> f64 {
        f64::from(self.thousandths) / 1000.0
    }

    /// Returns the share of a whole number, rounded down.
    pub fn of(self, whole: u64) -> u64 {
        let share = u128::from(whole) * u128::from(self.thousandths) / 1000;
        u64::try_from(share).unwrap_or(u64::MAX)
    }

    fn decimal(thousandths: u64) -> Decimal {
        Decimal::from_thousandths(thousandths)
    }
}

impl Setting for Fraction {
    /// In thousandths.
    type Limits = Range;

    fn read(input: SettingInput<'_>, limits: &Range) -> Result<Self, ValueRefusal> {
        let text = input.scalar()?.trim();
        let thousandths =
            scaled(text, 1000).ok_or_else(|| ValueRefusal::new("is not a share such as 0.5"))?;
        if thousandths < limits.min {
            return Err(ValueRefusal::new(format!("is less than {}", Self::decimal(limits.min))));
        }
        match u32::try_from(thousandths) {
            Ok(own) if thousandths <= limits.max => Ok(Self { thousandths: own }),
            _ => Err(ValueRefusal::new(format!("is more than {}", Self::decimal(limits.max)))),
        }
    }

    fn to_value(&self) -> SettingValue {
        SettingValue::Decimal(Self::decimal(u64::from(self.thousandths)))
    }

    fn allowed(limits: &Range) -> String {
        format!("{} to {}", Self::decimal(limits.min), Self::decimal(limits.max))
    }

    fn examples(limits: &Range) -> Vec<String> {
        [limits.min, limits.max].map(|end| Self::decimal(end).to_string()).to_vec()
    }

    fn schema(limits: &Range) -> serde_json::Value {
        let (min, max) = (Self::decimal(limits.min), Self::decimal(limits.max));
        json!({"type": "number", "minimum": min, "maximum": max})
    }
}
