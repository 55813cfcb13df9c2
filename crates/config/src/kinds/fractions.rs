//! Numbers with fractions: short times and shares of something.

use std::time::Duration;

use serde_json::json;

use super::Setting;
use super::amounts::Range;
use super::read::scaled;
use crate::value::{Decimal, SettingInput, SettingValue, ValueRefusal};

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
