//! Headers that are sent with every request.

use std::collections::BTreeMap;
use std::fmt;

use crate::input::Refusal;
use crate::value::Value;
use crate::yaml::{Node, NodeKind};

/// Longest value of a header.
const MAX_BYTES: usize = 16 << 10;

/// Headers by name. Their values are in no debug output: they are where keys go.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Headers(BTreeMap<String, String>);

impl Headers {
    /// Returns names and values, in order of name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn to_value(&self) -> Value {
        let text = |value: &String| Value::Text(value.clone());
        Value::Map(self.0.iter().map(|(name, value)| (name.clone(), text(value))).collect())
    }

    /// Reads a map. No message repeats a value, nor a name that is none: either
    /// may be a key in the wrong place.
    pub(super) fn read(node: &Node) -> Result<Self, Refusal> {
        let NodeKind::Map { entries, .. } = &node.kind else {
            let hint = "write it as {\"Authorization\": \"Bearer ${NAME_OF_A_VARIABLE}\"}";
            let reason = format!("is {}, not a map", node.noun());
            return Err(Refusal::new(reason).suggesting(Some(hint.to_owned())));
        };
        let mut headers = BTreeMap::new();
        for entry in entries {
            let name = entry
                .name()
                .filter(|name| is_header_name(name))
                .ok_or_else(|| Refusal::new("holds a key that is no name of a header"))?;
            let value = match entry.value.scalar() {
                Some(text) if !entry.value.is_null() => text.trim(),
                _ => return Err(Refusal::new(format!("gives {name} no text"))),
            };
            if value.len() > MAX_BYTES || value.chars().any(char::is_control) {
                return Err(Refusal::new(format!("gives {name} a value that no header can have")));
            }
            if headers.insert(name.to_owned(), value.to_owned()).is_some() {
                return Err(Refusal::new(format!("has {name} twice")));
            }
        }
        Ok(Self(headers))
    }
}

/// Reports whether text can be the name of a header (RFC 9110: a token).
fn is_header_name(text: &str) -> bool {
    (1..=128).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}

/// Shows names only.
impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}
