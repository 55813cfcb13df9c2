//! Files of the host that a sandbox is shown, and cannot change.
//!
//! They are copied, not mounted: what is shown can change while the sandbox
//! runs, is no part of what it was made with, and a command that writes to it
//! cannot reach the files it was copied from. [`Bundle`] is one version of them
//! in memory, bounded; `shelf.rs` puts it on a directory of the host that the
//! sandbox can read.

mod bundle;
mod shelf;

pub use bundle::{Bundle, BundleError, Content, Item};
pub(crate) use shelf::{lay_out, version_name};

use std::fmt;
use std::path::PathBuf;

/// Longest part of a name.
const MAX_PART: usize = 64;

/// What a guest starts from has these names where files are shown.
const TAKEN: [&str; 4] = ["guest", "settings", "stage", "failpoint"];

/// What files are shown under: `skills/deploy`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublishedName {
    shelf: String,
    name: String,
}

impl PublishedName {
    /// Reads two parts with a slash between them, each of letters, digits, `-`
    /// and `_`.
    pub fn new(text: &str) -> Result<Self, PublishError> {
        let invalid = || PublishError::Name(text.to_owned());
        let (shelf, name) = text.split_once('/').ok_or_else(invalid)?;
        let is_part = |part: &str| {
            (1..=MAX_PART).contains(&part.len())
                && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        };
        if !is_part(shelf) || !is_part(name) || TAKEN.contains(&shelf) {
            return Err(invalid());
        }
        Ok(Self { shelf: shelf.to_owned(), name: name.to_owned() })
    }

    /// Returns the part before the slash.
    pub fn shelf(&self) -> &str {
        &self.shelf
    }

    /// Returns the part after it.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for PublishedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.shelf, self.name)
    }
}

/// Why files cannot be shown to a sandbox.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// The name is none.
    #[error(
        "{0:?} is no name for files to show: use letters, digits, - and _, as in skills/deploy"
    )]
    Name(String),
    /// The backend shows no files.
    #[error("backend {0} cannot show files of this machine to its sandboxes")]
    Unsupported(&'static str),
    /// The files cannot be taken.
    #[error("{} cannot be shown to the sandbox: {reason}", path.display())]
    Source {
        /// The directory.
        path: PathBuf,
        /// Why.
        reason: BundleError,
    },
}
