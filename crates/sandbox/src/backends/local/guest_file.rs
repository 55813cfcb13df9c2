//! What a guest says of itself on disk: `guest.json` beside its socket.
//!
//! The guest writes it before it listens, so that a process that finds a
//! half-made instance can tell which process to end.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use vestal_process::ProcessId;

use crate::store::read_regular;

/// The identity a guest reports when it is ready and writes to `guest.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct GuestIdentity {
    pub(super) pid: u32,
    pub(super) pid_start: u64,
    pub(super) boot: String,
}

impl GuestIdentity {
    pub(super) fn process(self) -> ProcessId {
        ProcessId { pid: self.pid, start: self.pid_start, boot: self.boot }
    }
}

/// Returns the directory of the instance's socket.
pub(super) fn socket_dir(instance_dir: &Path) -> PathBuf {
    instance_dir.join("io")
}

/// Returns the process that wrote `guest.json`, dead or alive.
pub(super) fn read(instance_dir: &Path) -> std::io::Result<Option<ProcessId>> {
    match read_regular(&socket_dir(instance_dir).join("guest.json")) {
        Ok(bytes) => {
            // Half a file cannot be: it is written by rename. Anything else
            // that is unreadable tells as little as an absent one.
            let identity = serde_json::from_slice::<GuestIdentity>(&bytes).ok();
            Ok(identity.map(GuestIdentity::process))
        }
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
