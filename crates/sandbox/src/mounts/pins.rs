//! What an instance was given of the host, and what of the Vestal home has to be covered in it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::lasting;
use super::walk::{InodeIdentity, walk};
use crate::store::{StoreError, read_versioned, write_versioned};

/// What has to be done about a directory of ours below one that is mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MountCover {
    /// Directories between the mounted one and ours, outermost first: where they
    /// are on the host and in the sandbox. Mounted over themselves they cannot be
    /// renamed: otherwise another home could be put in the place of ours.
    pub(crate) fixed: Vec<(PathBuf, PathBuf)>,
    /// Where ours would be seen.
    pub(crate) target: PathBuf,
}

/// Returns what has to be covered when a directory is mounted, by its real name,
/// at a place.
pub(crate) fn covers(hidden: &[PathBuf], source: &Path, target: &Path) -> Vec<MountCover> {
    let mut found: Vec<&Path> = hidden
        .iter()
        .filter(|dir| dir.starts_with(source) && *dir != source && dir.is_dir())
        .map(PathBuf::as_path)
        .collect();
    found.sort_unstable();
    // What is below another one is covered with it.
    found.dedup_by(|later, earlier| later.starts_with(*earlier));
    let cover = |dir: &Path| {
        let rest = dir.strip_prefix(source).unwrap_or(dir);
        let mut between: Vec<&Path> =
            rest.ancestors().skip(1).filter(|part| !part.as_os_str().is_empty()).collect();
        between.reverse();
        let fixed =
            between.into_iter().map(|part| (source.join(part), target.join(part))).collect();
        MountCover { fixed, target: target.join(rest) }
    };
    found.into_iter().map(cover).collect()
}

const VERSION: u64 = 1;
const PINS_FILE: &str = "mounts.json";

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
    pub(super) identity: Option<InodeIdentity>,
}

/// Returns whether the name of a directory that an instance mounts has passed to
/// another directory since it was mounted. The instance still has the first one.
/// A directory that is gone has not been replaced, and what is not known of an
/// instance, or has no lasting identity, cannot be compared.
pub(crate) fn is_replaced(instance_dir: &Path, asked: &Path) -> bool {
    let pins = Pins::read(instance_dir).unwrap_or_default();
    let mounted = pins.mounts.get(asked).and_then(|pin| pin.identity);
    let now = walk(asked, |_, _| false).ok().and_then(|reached| lasting(&reached));
    matches!((mounted, now), (Some(mounted), Some(now)) if !mounted.is(&now))
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
        Ok(read_versioned(&instance_dir.join(PINS_FILE), VERSION)?.unwrap_or_default())
    }

    pub(super) fn write(&self, instance_dir: &Path) -> Result<(), StoreError> {
        write_versioned(&instance_dir.join(PINS_FILE), self)
    }
}
