//! Values: as they were given, before they are checked, and as they are shown and handed to
//! scripts.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;

use serde::Serialize;
use serde::de::IgnoredAny;

use crate::yaml::{self, NodeKind, YamlNode};

/// A setting's value without its type: for tables, JSON and scripts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum SettingValue {
    /// Yes or no.
    Bool(bool),
    /// A whole number.
    Integer(u64),
    /// A number with a fraction.
    Decimal(Decimal),
    /// Text.
    Text(String),
    /// A list.
    List(Vec<SettingValue>),
    /// Names and their values.
    Map(BTreeMap<String, SettingValue>),
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

impl SettingValue {
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

impl SettingValue {
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

impl SettingValue {
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
impl fmt::Display for SettingValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            other => other.nested(f),
        }
    }
}

impl SettingValue {
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

/// Characters of a value that an error message repeats.
const SHOWN: usize = 120;

/// A value as it was given.
#[derive(Debug, Clone, Copy)]
pub enum SettingInput<'a> {
    /// Text of a variable or of the command line, taken as it is.
    Text(&'a OsStr),
    /// A value of a YAML document.
    Node(&'a YamlNode),
}

/// Why a value cannot be taken, to be read after "which …".
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValueRefusal {
    /// What is wrong.
    pub reason: String,
    /// What to do about it, where there is more to say than what is allowed.
    pub suggestion: Option<String>,
    /// Whether the value may hold a secret and is not to be repeated.
    pub secret: bool,
}

impl ValueRefusal {
    /// Makes a refusal: "is not …".
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), suggestion: None, secret: false }
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn suggesting(mut self, suggestion: Option<String>) -> Self {
        self.suggestion = suggestion;
        self
    }

    /// Keeps the value out of messages even though its key is public.
    #[must_use]
    pub fn about_a_secret(mut self) -> Self {
        self.secret = true;
        self
    }
}

impl<'a> SettingInput<'a> {
    /// Reports whether the source names the key but says nothing.
    pub fn is_unset(self, tilde_is_home: bool) -> bool {
        match self {
            Self::Text(text) => text.is_empty(),
            Self::Node(node) => node.is_null() && !(tilde_is_home && node.is_tilde()),
        }
    }

    /// Returns the text of a single value.
    pub fn scalar(self) -> Result<&'a str, ValueRefusal> {
        match self {
            Self::Text(text) => {
                text.to_str().ok_or_else(|| ValueRefusal::new("is not valid UTF-8"))
            }
            Self::Node(node) => node.scalar().ok_or_else(|| {
                ValueRefusal::new(format!("is {}, not a single value", node.noun()))
            }),
        }
    }

    /// Returns the value as a tree; text is read as JSON.
    pub fn tree(self) -> Result<Cow<'a, YamlNode>, ValueRefusal> {
        match self {
            Self::Node(node) => Ok(Cow::Borrowed(node)),
            Self::Text(_) => {
                let text = self.scalar()?;
                serde_json::from_str::<IgnoredAny>(text)
                    .map_err(|error| ValueRefusal::new(format!("is not JSON ({error})")))?;
                // YAML contains JSON, so one kind of tree serves both.
                let document = yaml::parse(text)
                    .map_err(|error| ValueRefusal::new(format!("is not JSON ({error})")))?;
                document.root.map(Cow::Owned).ok_or_else(|| ValueRefusal::new("is not JSON"))
            }
        }
    }

    /// Returns the value for a message: short, on one line.
    pub fn shown(self) -> String {
        let text = self.written();
        if text.chars().count() <= SHOWN {
            return text;
        }
        let head: String = text.chars().take(SHOWN).collect();
        format!("{head}…")
    }

    /// Returns the whole value on one line.
    pub fn written(self) -> String {
        match self {
            Self::Text(text) => format!("{:?}", text.to_string_lossy()),
            Self::Node(node) => match &node.kind {
                NodeKind::Scalar { text, .. } => format!("{text:?}"),
                NodeKind::Unsupported(what) => what.clone(),
                NodeKind::List { .. } | NodeKind::Map { .. } => yaml::flow(node),
            },
        }
    }
}
