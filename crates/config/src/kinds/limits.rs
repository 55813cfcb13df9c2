//! Limits, where 0 stands for none.

use serde_json::json;

use super::Setting;
use super::amounts::{PLAIN, Range, UnitFamily};
use super::read::scaled;
use crate::value::{Decimal, SettingInput, SettingValue, ValueRefusal};

/// The description of a limit that is 0.
const NONE: &str = "no limit";

const MEGABYTES: UnitFamily = UnitFamily {
    noun: "a size in whole megabytes",
    base: "M",
    suffixes: &[
        ("T", 1 << 20),
        ("TB", 1 << 20),
        ("TiB", 1 << 20),
        ("G", 1 << 10),
        ("GB", 1 << 10),
        ("GiB", 1 << 10),
        ("M", 1),
        ("MB", 1),
        ("MiB", 1),
    ],
};

/// A number of processors, fractions allowed; 0 for no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cpus {
    thousandths: u64,
}

impl Cpus {
    /// Makes a limit of so many thousandths of a processor.
    pub const fn from_thousandths(thousandths: u64) -> Self {
        Self { thousandths }
    }

    /// Returns the limit in thousandths of a processor, or none.
    pub const fn thousandths(self) -> Option<u64> {
        if self.thousandths == 0 { None } else { Some(self.thousandths) }
    }

    /// Returns the limit in billionths of a processor, as engines take it, or none.
    pub fn nanos(self) -> Option<i64> {
        self.thousandths().and_then(|own| i64::try_from(own.saturating_mul(1_000_000)).ok())
    }

    fn decimal(thousandths: u64) -> Decimal {
        Decimal::from_thousandths(thousandths)
    }
}

impl std::fmt::Display for Cpus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        Self::decimal(self.thousandths).fmt(f)
    }
}

impl Setting for Cpus {
    /// In thousandths.
    type Limits = Range;

    fn read(input: SettingInput<'_>, limits: &Range) -> Result<Self, ValueRefusal> {
        let text = input.scalar()?.trim();
        let thousandths = scaled(text, 1000)
            .ok_or_else(|| ValueRefusal::new("is not a number of processors, such as 2 or 0.5"))?;
        let zero = text.bytes().all(|b| matches!(b, b'0' | b'.'));
        if zero || (limits.min..=limits.max).contains(&thousandths) {
            return Ok(Self { thousandths });
        }
        let (word, end) =
            if thousandths < limits.min { ("less", limits.min) } else { ("more", limits.max) };
        Err(ValueRefusal::new(format!("is {word} than {}", Self::decimal(end))))
    }

    fn to_value(&self) -> SettingValue {
        if self.thousandths.is_multiple_of(1000) {
            SettingValue::Integer(self.thousandths / 1000)
        } else {
            SettingValue::Decimal(Self::decimal(self.thousandths))
        }
    }

    fn in_words(&self) -> Option<String> {
        (self.thousandths == 0).then(|| NONE.to_owned())
    }

    fn allowed(limits: &Range) -> String {
        let (min, max) = (Self::decimal(limits.min), Self::decimal(limits.max));
        format!("{min} to {max}, fractions too; 0 for {NONE}")
    }

    fn examples(_: &Range) -> Vec<String> {
        vec!["2".to_owned(), "0.5".to_owned(), "0".to_owned()]
    }

    fn schema(limits: &Range) -> serde_json::Value {
        let (min, max) = (Self::decimal(limits.min), Self::decimal(limits.max));
        json!({"anyOf": [{"type": "number", "minimum": min, "maximum": max}, {"enum": [0]}]})
    }
}

/// A size in megabytes (of 1024 × 1024 bytes); 0 for no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Megabytes(u64);

impl Megabytes {
    /// Makes a limit of so many megabytes.
    pub const fn new(megabytes: u64) -> Self {
        Self(megabytes)
    }

    /// Returns the limit in megabytes, or none.
    pub const fn get(self) -> Option<u64> {
        if self.0 == 0 { None } else { Some(self.0) }
    }

    /// Returns the limit in bytes, or none.
    pub fn bytes(self) -> Option<u64> {
        self.get().map(|megabytes| megabytes.saturating_mul(1 << 20))
    }
}

impl Setting for Megabytes {
    type Limits = Range;

    fn read(input: SettingInput<'_>, limits: &Range) -> Result<Self, ValueRefusal> {
        match MEGABYTES.read(input)? {
            0 => Ok(Self(0)),
            amount => limits.check(amount, &MEGABYTES).map(Self),
        }
    }

    fn to_value(&self) -> SettingValue {
        SettingValue::Integer(self.0)
    }

    fn in_words(&self) -> Option<String> {
        Some(if self.0 == 0 { NONE.to_owned() } else { MEGABYTES.describe(self.0) })
    }

    fn allowed(limits: &Range) -> String {
        let (min, max) = (MEGABYTES.describe(limits.min), MEGABYTES.describe(limits.max));
        format!("{min} to {max}, in MB or with M, G or T (powers of 1024); 0 for {NONE}")
    }

    fn examples(limits: &Range) -> Vec<String> {
        let mut examples = limits.examples();
        examples.extend(["2G".to_owned(), "0".to_owned()]);
        examples
    }

    fn schema(limits: &Range) -> serde_json::Value {
        json!({"anyOf": [
            {"type": "integer", "minimum": limits.min, "maximum": limits.max},
            {"enum": [0]},
            {"type": "string", "pattern": "^[0-9]+ *([mMgGtT]([iI]?[bB])?)?$"},
        ]})
    }
}

/// A number of things; 0 for no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CountOrNone(u32);

impl CountOrNone {
    /// Makes a limit.
    pub const fn new(count: u32) -> Self {
        Self(count)
    }

    /// Returns the limit, or none.
    pub const fn get(self) -> Option<u32> {
        if self.0 == 0 { None } else { Some(self.0) }
    }
}

impl Setting for CountOrNone {
    type Limits = Range;

    fn read(input: SettingInput<'_>, limits: &Range) -> Result<Self, ValueRefusal> {
        let number = match PLAIN.read(input)? {
            0 => 0,
            number => limits.check(number, &PLAIN)?,
        };
        u32::try_from(number).map(Self).map_err(|_| ValueRefusal::new("is too large"))
    }

    fn to_value(&self) -> SettingValue {
        SettingValue::Integer(u64::from(self.0))
    }

    fn in_words(&self) -> Option<String> {
        (self.0 == 0).then(|| NONE.to_owned())
    }

    fn allowed(limits: &Range) -> String {
        format!("{} to {}; 0 for {NONE}", limits.min, limits.max)
    }

    fn examples(limits: &Range) -> Vec<String> {
        let mut examples = limits.examples();
        examples.push("0".to_owned());
        examples
    }

    fn schema(limits: &Range) -> serde_json::Value {
        json!({"anyOf": [
            {"type": "integer", "minimum": limits.min, "maximum": limits.max},
            {"enum": [0]},
        ]})
    }
}
