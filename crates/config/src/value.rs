//! Values as they are shown and handed to scripts.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::yaml;

/// A setting's value without its type: for tables, JSON and scripts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Value {
    /// Yes or no.
    Bool(bool),
    /// A whole number.
    Integer(u64),
    /// A number with a fraction.
    Decimal(Decimal),
    /// Text.
    Text(String),
    /// A list.
    List(Vec<Value>),
    /// Names and their values.
    Map(BTreeMap<String, Value>),
}

/// A number with at most six digits after the point, kept exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Decimal {
    millionths: u64,
}

impl Decimal {
    /// Makes a number of so many thousandths.
    pub const fn from_thousandths(thousandths: u64) -> Self {
        Self { millionths: thousandths.saturating_mul(1000) }
    }

    /// Makes a number of so many millionths.
    pub const fn from_millionths(millionths: u64) -> Self {
        Self { millionths }
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.millionths / 1_000_000, self.millionths % 1_000_000);
        if rest == 0 {
            return write!(f, "{whole}");
        }
        let rest = format!("{rest:06}");
        write!(f, "{whole}.{}", rest.trim_end_matches('0'))
    }
}

impl Serialize for Decimal {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let number: f64 = self.to_string().parse().map_err(serde::ser::Error::custom)?;
        serializer.serialize_f64(number)
    }
}

/// What stands in place of a secret.
pub(crate) const MASK: &str = "****";

impl Value {
    /// Returns the value with everything secret in it replaced by asterisks;
    /// the names of a map stay.
    #[must_use]
    pub fn masked(&self) -> Self {
        match self {
            Self::Map(entries) => {
                Self::Map(entries.iter().map(|(k, v)| (k.clone(), v.masked())).collect())
            }
            Self::List(items) => Self::List(items.iter().map(Self::masked).collect()),
            Self::Bool(_) | Self::Integer(_) | Self::Decimal(_) | Self::Text(_) => {
                Self::Text(MASK.to_owned())
            }
        }
    }
}

impl Value {
    /// Returns the value with the entries of these names replaced by asterisks,
    /// however deep they are.
    #[must_use]
    pub fn masked_within(&self, names: &[&str]) -> Self {
        match self {
            Self::Map(entries) => {
                let mask = |(name, value): (&String, &Self)| {
                    let hidden = names.contains(&name.as_str());
                    let value = if hidden { value.masked() } else { value.masked_within(names) };
                    (name.clone(), value)
                };
                Self::Map(entries.iter().map(mask).collect())
            }
            Self::List(items) => {
                Self::List(items.iter().map(|item| item.masked_within(names)).collect())
            }
            other => other.clone(),
        }
    }
}

impl Value {
    /// Returns the value without the entries of these names, however deep they are.
    #[must_use]
    pub fn without(&self, names: &[&str]) -> Self {
        match self {
            Self::Map(entries) => Self::Map(
                entries
                    .iter()
                    .filter(|(name, _)| !names.contains(&name.as_str()))
                    .map(|(name, value)| (name.clone(), value.without(names)))
                    .collect(),
            ),
            Self::List(items) => Self::List(items.iter().map(|item| item.without(names)).collect()),
            other => other.clone(),
        }
    }
}

/// Writes the value as it may stand in `config.yaml`. Text at the top is bare.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            other => other.nested(f),
        }
    }
}

impl Value {
    fn nested(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(flag) => write!(f, "{flag}"),
            Self::Integer(number) => write!(f, "{number}"),
            Self::Decimal(number) => write!(f, "{number}"),
            Self::Text(text) => f.write_str(&yaml::quote(text)),
            Self::List(items) => {
                f.write_str("[")?;
                for (at, item) in items.iter().enumerate() {
                    f.write_str(if at == 0 { "" } else { ", " })?;
                    item.nested(f)?;
                }
                f.write_str("]")
            }
            Self::Map(entries) => {
                f.write_str("{")?;
                for (at, (name, value)) in entries.iter().enumerate() {
                    let gap = if at == 0 { "" } else { ", " };
                    write!(f, "{gap}{}: ", yaml::quote(name))?;
                    value.nested(f)?;
                }
                f.write_str("}")
            }
        }
    }
}
