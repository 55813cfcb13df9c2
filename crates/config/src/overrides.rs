//! `--set key=value`.

use crate::error::ConfigError;
use crate::input::Input;
use crate::key::AnyKey;
use crate::keys;
use crate::reserved;
use crate::suggest;
use crate::yaml::{self, Node};

/// One `--set key=value` of the command line.
///
/// The value is taken as it is, unless it begins with a quote or a bracket:
/// then it is read as YAML, of which JSON is a part.
#[derive(Clone)]
pub struct Override {
    pub(crate) name: String,
    value: Given,
}

#[derive(Clone)]
enum Given {
    Text(String),
    Node(Box<Node>),
}

impl Override {
    /// Reads an assignment. The key must exist; whether the value is allowed is
    /// found out by who asks for the key.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let Some((name, value)) = text.split_once('=') else {
            return Err(ConfigError::NotAnAssignment { text: text.to_owned() });
        };
        let name = name.trim();
        require_key(name)?;
        Ok(Self::new(name, value))
    }

    pub(crate) fn new(name: &str, value: &str) -> Self {
        Self { name: name.to_owned(), value: read(value) }
    }

    pub(crate) fn input(&self) -> Input<'_> {
        match &self.value {
            Given::Text(text) => Input::Text(text.as_ref()),
            Given::Node(node) => Input::Node(node),
        }
    }
}

/// Leaves the value out: it may be a secret.
impl std::fmt::Debug for Override {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Override").field("name", &self.name).finish_non_exhaustive()
    }
}

fn read(value: &str) -> Given {
    let parsed = value
        .trim_start()
        .starts_with(['"', '\'', '[', '{'])
        .then(|| yaml::parse(value).ok()?.root)
        .flatten();
    match parsed {
        Some(node) => Given::Node(Box::new(node)),
        None => Given::Text(value.to_owned()),
    }
}

/// Returns the key of a name, or says what is wrong with the name.
pub(crate) fn require_key(name: &str) -> Result<&'static dyn AnyKey, ConfigError> {
    if let Some(key) = keys::find(name) {
        return Ok(key);
    }
    let name = name.to_owned();
    if reserved::is_reserved_key(&name) {
        return Err(ConfigError::NotInThisVersion { name });
    }
    let suggestion = suggest::closest_key(&name, &keys::names());
    Err(ConfigError::UnknownKey { name, suggestion })
}
