//! What can go wrong with skills.

use std::io;
use std::path::{Path, PathBuf};

use crate::catalogue::Broken;
use crate::skill::RULE;

/// A failure, in words that say what to do.
#[derive(Debug, thiserror::Error)]
pub enum SkillError {
    /// The name is none.
    #[error("{0:?} is not a valid name for a skill: use {RULE}")]
    Name(String),
    /// There is no such skill.
    #[error("there is no skill {name:?}{}", suggested(suggestion.as_deref()))]
    Unknown {
        /// What was asked for.
        name: String,
        /// What may have been meant.
        suggestion: Option<String>,
    },
    /// The skill is there and cannot be used.
    #[error("{0}")]
    Broken(Box<Broken>),
    /// The skill is not to be used.
    #[error("skill {0} is disabled; `vestal skills enable {0}` enables it")]
    Disabled(String),
    /// The name is taken.
    #[error("there is a skill {name} already, in {}", path.display())]
    Exists {
        /// The name.
        name: String,
        /// Where.
        path: PathBuf,
    },
    /// Something that is not a skill is where one is to be put.
    #[error("{} is in the way and is not a skill; move it away, or use another name", path.display())]
    Occupied {
        /// The file or folder.
        path: PathBuf,
    },
    /// A path in a skill cannot be meant.
    #[error("{path:?} cannot be a file of a skill: {reason}")]
    Path {
        /// As it was given.
        path: String,
        /// Why.
        reason: &'static str,
    },
    /// The skill has no such file.
    #[error("skill {name} has no file {file:?}")]
    NoFile {
        /// The skill.
        name: String,
        /// The file.
        file: String,
    },
    /// Something is larger than it may be.
    #[error("{0}")]
    TooLarge(String),
    /// A change that cannot be made.
    #[error("{0}")]
    Change(String),
    /// What was to be installed is not a skill, or not one that may be.
    #[error("{} cannot be installed: {reason}", path.display())]
    Source {
        /// The folder or archive.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// A skill could not be got from elsewhere.
    #[error("{from} cannot be fetched: {reason}")]
    Fetch {
        /// Where it should have come from.
        from: String,
        /// Why.
        reason: String,
    },
    /// An address is none of a skill.
    #[error(transparent)]
    Address(#[from] crate::remote::InvalidSource),
    /// No catalogue is configured.
    #[error("no catalogue of skills is configured; set skills.catalogue_url")]
    NoCatalogue,
    /// The settings cannot be read.
    #[error(transparent)]
    Config(#[from] vestal_config::ConfigError),
    /// The settings cannot be changed.
    #[error(transparent)]
    Set(#[from] vestal_config::SetError),
    /// The system refused.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// With what.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
}

fn suggested(suggestion: Option<&str>) -> String {
    suggestion.map_or_else(
        || "; `vestal skills` lists them".to_owned(),
        |name| format!("; is {name} meant?"),
    )
}

impl SkillError {
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }
}
