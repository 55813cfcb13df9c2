//! Which directories of the host an instance was given: `mounts.json` beside it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::walk::Identity;
use crate::store::{StoreError, read_versioned, write_versioned};

const VERSION: u64 = 1;
const NAME: &str = "mounts.json";

/// What an instance was given, by the path it was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Pins {
    version: u64,
    pub(super) mounts: BTreeMap<PathBuf, Pin>,
}

/// A directory or file of the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Pin {
    /// Its path without any link in it.
    pub(super) path: PathBuf,
    /// Which it is; absent where the filesystem gives it another number each
    /// time it is mounted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) identity: Option<Identity>,
}

impl Default for Pins {
    fn default() -> Self {
        Self { version: VERSION, mounts: BTreeMap::new() }
    }
}

impl Pins {
    /// Reads what is known of an instance; nothing is known of one that was made
    /// by an older program.
    pub(super) fn read(instance_dir: &Path) -> Result<Self, StoreError> {
        Ok(read_versioned(&instance_dir.join(NAME), VERSION)?.unwrap_or_default())
    }

    pub(super) fn write(&self, instance_dir: &Path) -> Result<(), StoreError> {
        write_versioned(&instance_dir.join(NAME), self)
    }
}
