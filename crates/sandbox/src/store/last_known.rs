//! What was last known of a sandbox on another machine, for listings that cannot wait for it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{SandboxDir, StoreError, read_versioned, write_versioned};

const VERSION: u64 = 1;

/// What a listing last saw of an instance. It is a cache: nothing follows from it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LastKnownRecord {
    version: u64,
    /// The instance.
    pub(crate) instance: String,
    /// When it was seen.
    pub(crate) at: Timestamp,
    /// Whether its guest answered.
    pub(crate) running: bool,
    /// Jobs that ran.
    pub(crate) jobs_running: u32,
    /// When it had last been used.
    pub(crate) last_used_at: Option<Timestamp>,
}

impl LastKnownRecord {
    pub(crate) fn new(instance: &str, running: bool) -> Self {
        Self {
            version: VERSION,
            instance: instance.to_owned(),
            at: Timestamp::now(),
            running,
            jobs_running: 0,
            last_used_at: None,
        }
    }

    /// Reads what was last known of an instance. What cannot be read is not known.
    pub(crate) fn read(dir: &SandboxDir, instance: &str) -> Option<Self> {
        let known: Option<Self> = read_versioned(&Self::path(dir), VERSION).ok().flatten();
        known.filter(|known| known.instance == instance)
    }

    pub(crate) fn write(&self, dir: &SandboxDir) -> Result<(), StoreError> {
        write_versioned(&Self::path(dir), self)
    }

    fn path(dir: &SandboxDir) -> std::path::PathBuf {
        dir.path().join("last-known.json")
    }
}
