//! What notes are about.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

/// What notes are about, which decides the file they are in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// The agent's own: `MEMORY.md`.
    Memory,
    /// The person it works for: `USER.md`.
    User,
}

/// A word that stands for no notes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("notes are of `memory` or of `user`, not of {word:?}")]
pub struct UnknownTarget {
    /// The word.
    pub word: String,
}

impl Target {
    /// All of them, in the order they are shown in.
    pub const ALL: [Self; 2] = [Self::Memory, Self::User];

    /// Returns the word for it, which is a public name.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::User => "user",
        }
    }

    /// Returns the name of its file.
    pub const fn file_name(self) -> &'static str {
        match self {
            Self::Memory => "MEMORY.md",
            Self::User => "USER.md",
        }
    }
}

impl FromStr for Target {
    type Err = UnknownTarget;

    fn from_str(word: &str) -> Result<Self, UnknownTarget> {
        let found = Self::ALL.into_iter().find(|target| {
            word.eq_ignore_ascii_case(target.word())
                || word.eq_ignore_ascii_case(target.file_name())
        });
        found.ok_or_else(|| UnknownTarget { word: word.chars().take(60).collect() })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}
