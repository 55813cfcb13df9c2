//! Why something was not done to a profile.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;
use vestal_config::{HomeNotFound, ProfileName};

/// Why something was not done to a profile. What was there is as it was.
#[derive(Debug, Error)]
pub enum ProfileError {
    /// The name is none, or there is no home at all.
    #[error(transparent)]
    Home(#[from] HomeNotFound),
    /// A name that is kept from being used.
    #[error("no profile can be called {name}: {reason}")]
    Reserved {
        /// The name.
        name: ProfileName,
        /// Why.
        reason: &'static str,
    },
    /// The profile is there already.
    #[error("there is a profile {name} already, in {}", path.display())]
    Exists {
        /// The name.
        name: ProfileName,
        /// Where it is.
        path: PathBuf,
    },
    /// The profile is not there.
    #[error("there is no profile {name}; existing profiles: {existing}")]
    Missing {
        /// The name.
        name: ProfileName,
        /// Those that are there.
        existing: String,
    },
    /// The profile that lives in the root itself.
    #[error("the profile default cannot be {done}: it is the root of all others")]
    Default {
        /// What was asked for.
        done: &'static str,
    },
    /// The description is not one line of text.
    #[error("a description is one line of up to {max} characters")]
    BadDescription {
        /// The most characters.
        max: usize,
    },
    /// A file of a newer version.
    #[error("{} was written by a newer vestal (version {version}); use that one", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u64,
    },
    /// A file that is not what it should be.
    #[error("{} cannot be read: {reason}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The file to be written is there.
    #[error("{} exists; name another file with -o", path.display())]
    FileExists {
        /// The file.
        path: PathBuf,
    },
    /// The profile has more than an archive may have.
    #[error("profile {name} is not exported: {reason}")]
    TooMuch {
        /// The profile.
        name: ProfileName,
        /// What there is too much of.
        reason: String,
    },
    /// An archive that is not taken.
    #[error("{} is not imported: {reason}", path.display())]
    Refused {
        /// The archive.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The system refused.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried, to be read after "cannot".
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

impl ProfileError {
    /// Returns the error of a call of the system.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { action, path: path.to_owned(), source }
    }
}
