//! Short times, in seconds with fractions.

use std::time::Duration;

use serde_json::json;

use super::{Range, Setting, docker};
use crate::input::{Input, Refusal};
use crate::value::{Decimal, Value};

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

    fn read(input: Input<'_>, limits: &Range) -> Result<Self, Refusal> {
        let text = input.scalar()?.trim();
        let number = text.strip_suffix('s').map_or(text, str::trim_end);
        let millis = docker::scaled(number, 1000)
            .ok_or_else(|| Refusal::new("is not a time in seconds such as 1.5"))?;
        let shown = Decimal::from_thousandths;
        if millis < limits.min {
            return Err(Refusal::new(format!("is less than {}", shown(limits.min))));
        }
        if millis > limits.max {
            return Err(Refusal::new(format!("is more than {}", shown(limits.max))));
        }
        Ok(Self { millis })
    }

    fn to_value(&self) -> Value {
        Value::Decimal(Decimal::from_thousandths(self.millis))
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
