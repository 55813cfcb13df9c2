//! Paths in a sandbox with a system of its own, the same in every backend: those of the
//! guest, and which directories of the host cannot be there at the same path.

use std::path::Path;

use crate::backend::BackendError;
pub(super) use crate::backend::WORKSPACE;
use crate::settings::{VolumeSource, Volumes};

/// The guest's program and settings, which the sandbox may only read.
pub(super) const BOOT_DIR: &str = "/.vestal/boot";
/// The guest's program.
pub(super) const GUEST_FILE: &str = "/.vestal/boot/guest";
/// The guest's settings.
pub(super) const SETTINGS_FILE: &str = "/.vestal/boot/settings";
/// The guest's socket.
pub(super) const IO_DIR: &str = "/.vestal/io";
/// The guest's journal, logs and sessions.
pub(super) const STATE_DIR: &str = "/.vestal/state";

/// Directories of the kernel and of Vestal, with everything below them.
pub(super) const NEVER: [&str; 4] = ["/.vestal", "/dev", "/proc", "/sys"];

/// System directories that must not be hidden. Directories below them may be.
const OF_THE_SYSTEM: [&str; 12] = [
    "/", "/bin", "/boot", "/etc", "/lib", "/lib32", "/lib64", "/opt", "/run", "/sbin", "/usr",
    "/var",
];

/// Refuses a directory that would hide a part of the sandbox's system.
pub(super) fn vet(bind: &Path) -> Result<(), BackendError> {
    let other = "use a directory elsewhere, or the backend local";
    if NEVER.iter().any(|never| bind.starts_with(never)) {
        return Err(refused(bind, "a sandbox needs that path for itself", other));
    }
    if OF_THE_SYSTEM.iter().any(|place| bind == Path::new(place)) {
        return Err(refused(bind, "it would hide the sandbox's own directory", other));
    }
    Ok(())
}

/// What the settings mount at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum At {
    /// Nothing.
    Nothing,
    /// The host's directory with the same path, writable.
    Itself,
    /// Something else, or the same directory read-only.
    Another,
}

impl At {
    pub(super) fn of(source: Option<String>, read_only: bool, path: &Path) -> Self {
        let same = source.is_some_and(|source| Path::new(&source) == path);
        if same && !read_only { Self::Itself } else { Self::Another }
    }

    /// Returns what the volumes mount at a path.
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

/// Returns the error for a directory that is refused.
pub(super) fn refused(bind: &Path, problem: &str, advice: &str) -> BackendError {
    BackendError::Advised {
        problem: format!("{} cannot be in the sandbox at the same path: {problem}", bind.display()),
        advice: advice.to_owned(),
    }
}
