//! Why a copy was not made.

use std::path::PathBuf;

use rustix::io::Errno;

/// Why a copy was not made.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// The system refused.
    #[error("cannot {action} {}: {}", path.display(), std::io::Error::from(*errno))]
    System {
        /// What was tried.
        action: &'static str,
        /// With what.
        path: PathBuf,
        /// Why not.
        errno: Errno,
    },
    /// Somebody changes it faster than it can be read.
    #[error("{} keeps changing while it is copied", .0.display())]
    Changing(PathBuf),
    /// The copy would be part of itself.
    #[error("cannot copy {} into itself", .0.display())]
    IntoItself(PathBuf),
    /// A signal told it to stop, or nobody waits for it any more.
    #[error("the copy was given up")]
    Cancelled,
}

impl Failure {
    /// Returns the file it is about.
    pub(super) fn path(&self) -> Option<&PathBuf> {
        match self {
            Self::System { path, .. } | Self::Changing(path) | Self::IntoItself(path) => Some(path),
            Self::Cancelled => None,
        }
    }

    /// Returns what the system said.
    pub(super) fn errno(&self) -> Option<i32> {
        match self {
            Self::System { errno, .. } => Some(errno.raw_os_error()),
            Self::Changing(_) | Self::IntoItself(_) | Self::Cancelled => None,
        }
    }

    /// Returns what was tried.
    pub(super) fn action(&self) -> &'static str {
        match self {
            Self::System { action, .. } => action,
            Self::Changing(_) | Self::IntoItself(_) | Self::Cancelled => "copy",
        }
    }
}
