//! What can be wrong with settings.

use std::path::PathBuf;
use std::sync::Arc;

use thiserror::Error;

use crate::layers::ValueSource;
use crate::yaml::SyntaxError;

/// Why a key has no value. Each concerns one key; others are not affected.
#[derive(Debug, Clone, Error)]
pub enum ConfigError {
    /// A value that is not allowed.
    #[error(transparent)]
    Invalid(#[from] Box<InvalidValue>),
    /// Two names of one key, in the same place, that disagree.
    #[error(transparent)]
    Conflict(#[from] Box<Conflict>),
    /// A key or a section that is written twice in one map.
    #[error(transparent)]
    Duplicate(#[from] Box<Duplicate>),
    /// A name that was probably meant for the key, which protects.
    #[error(transparent)]
    Misspelt(#[from] Box<Misspelling>),
    /// A section that holds something else than keys.
    #[error("{section}, so {key} cannot be read")]
    Section {
        /// The key asked for.
        key: &'static str,
        /// What is wrong with the section it would be in.
        section: Box<NotASection>,
    },
    /// A file that had to be asked for the key but cannot be read.
    #[error("{file}; {key} cannot be read until that is mended")]
    File {
        /// The key asked for.
        key: &'static str,
        /// What is wrong with the file.
        file: Arc<SettingsFileError>,
    },
    /// A name that no key has.
    #[error("there is no key {name}{}", suggestion.as_ref().map(|s| format!("; did you mean {s}?")).unwrap_or_default())]
    UnknownKey {
        /// The name.
        name: String,
        /// The key that was probably meant.
        suggestion: Option<&'static str>,
    },
    /// A name that will be a key.
    #[error("{name} has no meaning in this version")]
    NotInThisVersion {
        /// The name.
        name: String,
    },
    /// A `--set` that is not an assignment.
    #[error("--set {text:?} is not an assignment; write --set key=value")]
    NotAnAssignment {
        /// What was given.
        text: String,
    },
}

/// A value that is not allowed: what, where from, why, and what would be right.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{key} is {value} ({from}), which {reason}; allowed: {allowed}{}", suggestion.as_ref().map(|s| format!("; {s}")).unwrap_or_default())]
pub struct InvalidValue {
    /// The key.
    pub key: &'static str,
    /// The value, short, masked when the key is secret.
    pub value: String,
    /// Where it came from.
    pub from: ValueSource,
    /// What is wrong with it, to be read after "which".
    pub reason: String,
    /// What is allowed.
    pub allowed: String,
    /// What to do about it, where there is something better to say than what is allowed.
    pub suggestion: Option<String>,
}

/// Two names of one key, in the same place, that disagree.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "{key} is set twice and differently: {first_value} ({first}) and {second_value} ({second}); \
     remove one of them"
)]
pub struct Conflict {
    /// The key.
    pub key: &'static str,
    /// Where it is set first.
    pub first: ValueSource,
    /// What it is set to there, masked when secret.
    pub first_value: String,
    /// Where it is set again.
    pub second: ValueSource,
    /// What it is set to there, masked when secret.
    pub second_value: String,
}

/// A name that no key has and that was probably meant for one that protects.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{written} ({from}) is not a setting; {hint}")]
pub struct Misspelling {
    /// The key that was probably meant.
    pub key: &'static str,
    /// The name as it is written.
    pub written: String,
    /// What to write instead.
    pub hint: String,
    /// Where it is written.
    pub from: ValueSource,
}

/// A key or a section that is written twice in one map.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{name} is there twice, at {first} and {second}; remove one of them")]
pub struct Duplicate {
    /// The repeated name.
    pub name: String,
    /// The first.
    pub first: ValueSource,
    /// The second.
    pub second: ValueSource,
}

/// A section that holds something else than keys.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{name} ({from}) is {found} where a map of settings is expected")]
pub struct NotASection {
    /// The section.
    pub name: String,
    /// Where it is.
    pub from: ValueSource,
    /// What it is instead.
    pub found: String,
}

/// A settings file that cannot be used.
#[derive(Debug, Clone, Error)]
#[error("{}: {problem}", path.display())]
pub struct SettingsFileError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub problem: FileProblem,
}

/// What is wrong with a settings file.
#[derive(Debug, Clone, Error)]
pub enum FileProblem {
    /// It cannot be read.
    #[error("{0}")]
    Io(Arc<std::io::Error>),
    /// It is a directory, a pipe or a device.
    #[error("not a regular file")]
    NotAFile,
    /// It is larger than any settings file.
    #[error("larger than {limit} bytes")]
    TooLarge {
        /// The limit.
        limit: u64,
    },
    /// It is not text.
    #[error("not valid UTF-8 at line {line}")]
    NotUtf8 {
        /// Line, from 1.
        line: usize,
    },
    /// It is not YAML.
    #[error("not valid YAML: {0}")]
    Syntax(#[from] SyntaxError),
    /// It holds something else than sections.
    #[error("holds {found} at line {line} where a map of sections is expected")]
    NotAMap {
        /// Line, from 1.
        line: usize,
        /// What it holds.
        found: String,
    },
}
