//! `--set key=value`.

use crate::error::ConfigError;
use crate::input::Input;
use crate::schema::Schema;
use crate::source::Source;
use crate::yaml::{self, Node};

/// One `--set key=value` of the command line.
///
/// The value is taken as it is, unless it begins with a quote or a bracket:
/// then it is read as YAML, of which JSON is a part.
#[derive(Clone)]
pub struct Override {
    pub(crate) name: String,
    value: Given,
    /// The option that stands for it, where it was not given with `--set`.
    option: Option<&'static str>,
}

#[derive(Clone)]
enum Given {
    Text(String),
    Node(Box<Node>),
}

impl Override {
    /// Reads an assignment. The key must exist; whether the value is allowed is
    /// found out by who asks for the key.
    pub fn parse(schema: &Schema, text: &str) -> Result<Self, ConfigError> {
        let Some((name, value)) = text.split_once('=') else {
            return Err(ConfigError::NotAnAssignment { text: text.to_owned() });
        };
        let name = name.trim();
        schema.require(name)?;
        Ok(Self::new(name, value))
    }

    pub(crate) fn new(name: &str, value: &str) -> Self {
        Self { name: name.to_owned(), value: read(value), option: None }
    }

    /// Says that it was given by an option of its own: a wrong value is that option's.
    #[must_use]
    pub fn given_as(self, option: &'static str) -> Self {
        Self { option: Some(option), ..self }
    }

    pub(crate) fn source(&self) -> Source {
        match self.option {
            Some(option) => Source::Option { name: option.to_owned() },
            None => Source::CommandLine { key: self.name.clone() },
        }
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
