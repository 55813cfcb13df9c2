//! Directories of the host that are in a sandbox at the same path: where that
//! cannot be.

use std::path::Path;

use crate::backend::BackendError;
use crate::settings::{VolumeSource, Volumes};

/// Places that are the kernel's or ours, with all that is below them.
pub(super) const NEVER: [&str; 4] = ["/.vestal", "/dev", "/proc", "/sys"];

/// Places of the system that must not be hidden; what is below them may.
const OF_THE_SYSTEM: [&str; 12] = [
    "/", "/bin", "/boot", "/etc", "/lib", "/lib32", "/lib64", "/opt", "/run", "/sbin", "/usr",
    "/var",
];

/// Refuses a directory that would be in the way of what a sandbox is made of.
pub(super) fn vet(bind: &Path) -> Result<(), BackendError> {
    let other = "use a directory elsewhere, or the backend local";
    if NEVER.iter().any(|never| bind.starts_with(never)) {
        return Err(refused(bind, "that place in a sandbox is not for files of the host", other));
    }
    if OF_THE_SYSTEM.iter().any(|place| bind == Path::new(place)) {
        return Err(refused(bind, "it would hide the sandbox's own", other));
    }
    Ok(())
}

/// What the settings mount at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum At {
    /// Nothing.
    Nothing,
    /// The directory of the host that has the same path.
    Itself,
    /// Something else, or that read-only.
    Another,
}

impl At {
    /// Returns what a mount of `source` at `path` is.
    pub(super) fn of(source: Option<String>, read_only: bool, path: &Path) -> Self {
        let same = source.is_some_and(|source| Path::new(&source) == path);
        if same && !read_only { Self::Itself } else { Self::Another }
    }

    /// Returns what the volumes have at a place.
    pub(super) fn among(volumes: &Volumes, user_home: Option<&Path>, path: &Path) -> Self {
        match volumes.iter().find(|volume| Path::new(&volume.target) == path) {
            None => Self::Nothing,
            Some(volume) => match &volume.source {
                VolumeSource::Host(source) => {
                    Self::of(source.resolve(user_home), volume.read_only, path)
                }
                VolumeSource::Named(_) => Self::Another,
            },
        }
    }
}

/// Returns the error for a directory that cannot be there.
pub(super) fn refused(bind: &Path, problem: &str, advice: &str) -> BackendError {
    BackendError::Advised {
        problem: format!("{} cannot be in the sandbox at the same path: {problem}", bind.display()),
        advice: advice.to_owned(),
    }
}
