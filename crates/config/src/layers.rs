//! Where values come from: the places in their order, finding a key there, and what `--set` says.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::error::{ConfigError, Duplicate, NotASection};
use crate::key::{AnyKey, Protection};
use crate::schema::Schema;
use crate::settings::Settings;
use crate::value::SettingInput;
use crate::yaml::{self, NodeKind, YamlNode};

/// Where a value came from, precise enough to go there and change it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ValueSource {
    /// `--set` on the command line.
    CommandLine {
        /// The key as it was written.
        key: String,
    },
    /// An option of the command line that stands for a key: `-b`.
    Option {
        /// The option.
        name: String,
    },
    /// A variable of the process environment.
    Environment {
        /// Name of the variable.
        name: String,
    },
    /// A line of the profile's `.env`.
    DotEnv {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Name of the variable.
        name: String,
    },
    /// The profile's `config.yaml`.
    File {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Column in characters, from 1.
        column: usize,
    },
    /// No place sets the key.
    Default,
}

impl ValueSource {
    /// Returns the source of a value that is being written to a file.
    pub(crate) fn as_given() -> Self {
        Self::Option { name: "as given".to_owned() }
    }
}

impl fmt::Display for ValueSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CommandLine { key } => write!(f, "--set {key}"),
            Self::Option { name } => f.write_str(name),
            Self::Environment { name } => write!(f, "environment variable {name}"),
            Self::DotEnv { path, line, name } => write!(f, "{}:{line} ({name})", path.display()),
            Self::File { path, line, column } => write!(f, "{}:{line}:{column}", path.display()),
            Self::Default => f.write_str("default"),
        }
    }
}

/// A place values may come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SettingLayer {
    CommandLine,
    Environment,
    DotEnv,
    File,
}

impl SettingLayer {
    /// All places; the first that sets a key decides.
    pub(crate) const ORDER: [Self; 4] =
        [Self::CommandLine, Self::Environment, Self::DotEnv, Self::File];
}

/// A value that was given for a key, right or wrong.
#[derive(Debug)]
pub(crate) struct GivenValue<'a> {
    pub(crate) source: ValueSource,
    pub(crate) input: SettingInput<'a>,
}

impl Settings {
    /// Returns what one place says about a key, under each of its names.
    pub(crate) fn given<'a>(
        &'a self,
        layer: SettingLayer,
        key: &dyn AnyKey,
    ) -> Result<Vec<GivenValue<'a>>, ConfigError> {
        if key.protection() != Protection::None
            && let Some(misspelling) = self.misspelling(layer, key)
        {
            return Err(ConfigError::Misspelt(Box::new(misspelling)));
        }
        match layer {
            SettingLayer::CommandLine => Ok(self.on_command_line(key)),
            SettingLayer::Environment => Ok(self.in_environment(key)),
            SettingLayer::DotEnv => self.in_dotenv(key),
            SettingLayer::File => self.in_file(key),
        }
    }

    /// A repeated `--set` of one name replaces the earlier ones.
    fn on_command_line(&self, key: &dyn AnyKey) -> Vec<GivenValue<'_>> {
        names(key)
            .filter_map(|name| self.overrides.iter().rfind(|given| given.name == name))
            .map(|given| GivenValue { source: given.source(), input: given.input() })
            .collect()
    }

    fn in_environment(&self, key: &dyn AnyKey) -> Vec<GivenValue<'_>> {
        let given = |name: &&'static str| {
            let value = self.env.get(name)?;
            let source = ValueSource::Environment { name: (*name).to_owned() };
            Some(GivenValue { source, input: SettingInput::Text(value) })
        };
        key.env().iter().filter_map(given).collect()
    }

    fn in_dotenv(&self, key: &dyn AnyKey) -> Result<Vec<GivenValue<'_>>, ConfigError> {
        let unreadable = |file: &std::sync::Arc<_>| ConfigError::File {
            key: key.name(),
            file: std::sync::Arc::clone(file),
        };
        let file = self.dotenv.as_ref().map_err(unreadable)?;
        let given = |name: &&'static str| {
            let entry = file.content.get(name)?;
            let source = ValueSource::DotEnv {
                path: file.path.clone(),
                line: entry.line,
                name: (*name).to_owned(),
            };
            Some(GivenValue { source, input: SettingInput::Text(entry.value()) })
        };
        Ok(key.env().iter().filter_map(given).collect())
    }

    fn in_file(&self, key: &dyn AnyKey) -> Result<Vec<GivenValue<'_>>, ConfigError> {
        let unreadable = |file: &std::sync::Arc<_>| ConfigError::File {
            key: key.name(),
            file: std::sync::Arc::clone(file),
        };
        let file = self.file.as_ref().map_err(unreadable)?;
        let Some(root) = &file.root else {
            return Ok(Vec::new());
        };
        let mut found = Vec::new();
        for name in names(key) {
            let node = self.lookup(root, name, key.name(), &file.path)?;
            if let Some(node) = node.filter(|node| !self.schema.is_whole_section(name, node)) {
                found.push(GivenValue {
                    source: at(&file.path, node),
                    input: SettingInput::Node(node),
                });
            }
        }
        Ok(found)
    }
}

fn names(key: &dyn AnyKey) -> impl Iterator<Item = &'static str> {
    std::iter::once(key.name()).chain(key.aliases().iter().copied())
}

/// Returns where a node of the file stands.
pub(crate) fn at(path: &Path, node: &YamlNode) -> ValueSource {
    ValueSource::File { path: path.to_owned(), line: node.line, column: node.column }
}

impl Schema {
    /// Reports whether a node is the section of keys that a key's short name also
    /// stands for: `model: {…}`, where `model: NAME` would set `model.default`.
    pub(crate) fn is_whole_section(&self, name: &str, node: &YamlNode) -> bool {
        self.is_section(name) && (node.is_null() || matches!(node.kind, NodeKind::Map { .. }))
    }
}

impl Settings {
    /// Follows a dotted name through the sections of a file.
    fn lookup<'a>(
        &self,
        root: &'a YamlNode,
        name: &str,
        key: &'static str,
        path: &Path,
    ) -> Result<Option<&'a YamlNode>, ConfigError> {
        let mut node = root;
        let mut walked = 0;
        for part in name.split('.') {
            let NodeKind::Map { entries, .. } = &node.kind else {
                let section = name.get(..walked).unwrap_or(name).trim_end_matches('.');
                // The value of one of its keys may stand for a section.
                let in_short = node.scalar().is_some() && self.schema.find(section).is_some();
                if node.is_null() || in_short {
                    return Ok(None);
                }
                let section = Box::new(NotASection {
                    name: section.to_owned(),
                    from: at(path, node),
                    found: node.noun().to_owned(),
                });
                return Err(ConfigError::Section { key, section });
            };
            walked += part.len() + 1;
            let mut same = entries.iter().filter(|entry| entry.name() == Some(part));
            match (same.next(), same.next()) {
                (None, _) => return Ok(None),
                (Some(entry), None) => node = &entry.value,
                (Some(first), Some(second)) => {
                    return Err(ConfigError::Duplicate(Box::new(Duplicate {
                        name: name.get(..walked - 1).unwrap_or(name).to_owned(),
                        first: at(path, &first.key),
                        second: at(path, &second.key),
                    })));
                }
            }
        }
        Ok(Some(node))
    }
}

/// One `--set key=value` of the command line.
///
/// The value is taken as it is, unless it begins with a quote or a bracket:
/// then it is read as YAML, of which JSON is a part.
#[derive(Clone)]
pub struct Override {
    pub(crate) name: String,
    value: OverrideValue,
    /// The option that stands for it, where it was not given with `--set`.
    option: Option<&'static str>,
}

#[derive(Clone)]
enum OverrideValue {
    Text(String),
    Node(Box<YamlNode>),
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
        Self { name: name.to_owned(), value: read_override(value), option: None }
    }

    /// Says that it was given by an option of its own: a wrong value is that option's.
    #[must_use]
    pub fn given_as(self, option: &'static str) -> Self {
        Self { option: Some(option), ..self }
    }

    pub(crate) fn source(&self) -> ValueSource {
        match self.option {
            Some(option) => ValueSource::Option { name: option.to_owned() },
            None => ValueSource::CommandLine { key: self.name.clone() },
        }
    }

    pub(crate) fn input(&self) -> SettingInput<'_> {
        match &self.value {
            OverrideValue::Text(text) => SettingInput::Text(text.as_ref()),
            OverrideValue::Node(node) => SettingInput::Node(node),
        }
    }
}

/// Leaves the value out: it may be a secret.
impl std::fmt::Debug for Override {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Override").field("name", &self.name).finish_non_exhaustive()
    }
}

fn read_override(value: &str) -> OverrideValue {
    let parsed = value
        .trim_start()
        .starts_with(['"', '\'', '[', '{'])
        .then(|| yaml::parse(value).ok()?.root)
        .flatten();
    match parsed {
        Some(node) => OverrideValue::Node(Box::new(node)),
        None => OverrideValue::Text(value.to_owned()),
    }
}
