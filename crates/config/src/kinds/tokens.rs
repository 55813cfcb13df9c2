//! Numbers of tokens, and shares of something.

use serde_json::json;

use super::amounts::{PLAIN, Range};
use super::{Setting, docker};
use crate::input::{Input, Refusal};
use crate::value::{Decimal, Value};

/// A number of tokens, or `auto` for what the model itself says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TokensOrAuto {
    /// What is known of the model.
    Auto,
    /// So many.
    Tokens(u64),
}

impl TokensOrAuto {
    /// Returns the number, or none for `auto`.
    pub const fn get(self) -> Option<u64> {
        match self {
            Self::Auto => None,
            Self::Tokens(tokens) => Some(tokens),
        }
    }
}

impl Setting for TokensOrAuto {
    type Limits = Range;

    fn read(input: Input<'_>, limits: &Range) -> Result<Self, Refusal> {
        if input.scalar()?.trim().eq_ignore_ascii_case("auto") {
            return Ok(Self::Auto);
        }
        match PLAIN.read(input)? {
            0 => Ok(Self::Auto),
            tokens => limits.check(tokens, &PLAIN).map(Self::Tokens),
        }
    }

    fn to_value(&self) -> Value {
        match self {
            Self::Auto => Value::Text("auto".to_owned()),
            Self::Tokens(tokens) => Value::Integer(*tokens),
        }
    }

    fn allowed(limits: &Range) -> String {
        format!("{} to {} tokens; 0 or auto for what the model has", limits.min, limits.max)
    }

    fn examples(limits: &Range) -> Vec<String> {
        let mut examples = limits.examples();
        examples.push("auto".to_owned());
        examples
    }

    fn schema(limits: &Range) -> serde_json::Value {
        json!({"anyOf": [
            {"type": "integer", "minimum": limits.min, "maximum": limits.max},
            {"enum": [0, "auto"]},
        ]})
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

    fn read(input: Input<'_>, limits: &Range) -> Result<Self, Refusal> {
        let text = input.scalar()?.trim();
        let thousandths =
            docker::scaled(text, 1000).ok_or_else(|| Refusal::new("is not a share such as 0.5"))?;
        if thousandths < limits.min {
            return Err(Refusal::new(format!("is less than {}", Self::decimal(limits.min))));
        }
        match u32::try_from(thousandths) {
            Ok(own) if thousandths <= limits.max => Ok(Self { thousandths: own }),
            _ => Err(Refusal::new(format!("is more than {}", Self::decimal(limits.max)))),
        }
    }

    fn to_value(&self) -> Value {
        Value::Decimal(Self::decimal(u64::from(self.thousandths)))
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
