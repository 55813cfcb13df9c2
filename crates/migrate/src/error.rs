//! Why nothing can be taken over at all. What concerns one thing only is a row of the plan.

use std::io;
use std::path::PathBuf;

/// Why a migration cannot begin or go on.
#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    /// There is no such home.
    #[error("there is no home of hermes-agent at {}: {reason}", path.display())]
    NoHome {
        /// Where it was looked for.
        path: PathBuf,
        /// What is there instead.
        reason: String,
    },
    /// The home is one of Vestal, or holds one.
    #[error("{} belongs to vestal itself; name the home of hermes-agent", path.display())]
    Own {
        /// The directory.
        path: PathBuf,
    },
    /// Another process migrates.
    #[error("another vestal migrate is running on this home")]
    Busy,
    /// The record of what was taken over cannot be used.
    #[error("cannot use {}: {source}", path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The record is of a newer version.
    #[error("{} was written by a newer vestal; use that one", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
    },
}
