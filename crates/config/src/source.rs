//! Where a value came from.

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

/// Where a value came from, precise enough to go there and change it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Source {
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
    /// Nobody said anything.
    Default,
}

impl Source {
    /// Returns the source of a value that is being written to a file.
    pub(crate) fn as_given() -> Self {
        Self::Option { name: "as given".to_owned() }
    }
}

impl fmt::Display for Source {
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
