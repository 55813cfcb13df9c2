//! What is written on an instance, beside its record: enough to know it again
//! when the record is lost, or was never written.
//!
//! It lies where the sandbox cannot reach it. Losing it loses nothing that
//! cannot be made again, so it is not waited for until it is on disk.

use std::fs;
use std::io;
use std::path::Path;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::identity;
use super::locator::{NativeLocator, NativeSystem};
use crate::backend::{FoundInstance, InstanceRequest, InstanceState, Locator, Owner};
use crate::client::socket::SOCKET_NAME;
use crate::key::random_hex;

const VERSION: u64 = 1;

/// Name of the file in the instance's directory.
const NAME: &str = "label.json";

/// What is known of an instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Label {
    version: u64,
    key: String,
    task: String,
    generation: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    owner: Option<Owner>,
    spec: String,
    created_at: Timestamp,
    /// What it is made as.
    pub(super) made: NativeSystem,
}

impl Label {
    /// Returns the label of an instance that is about to be made or started.
    pub(super) fn new(request: &InstanceRequest, made: NativeSystem) -> Self {
        let before = Self::read(&request.instance.dir);
        Self {
            version: VERSION,
            key: request.key.hash(),
            task: request.key.task().to_string(),
            generation: request.generation,
            owner: request.owner.clone(),
            spec: request.spec.hash(),
            created_at: before.map_or_else(Timestamp::now, |before| before.created_at),
            made,
        }
    }

    /// Reads the label of an instance. One that is damaged, or of a newer
    /// version, tells as little as an absent one.
    pub(super) fn read(instance_dir: &Path) -> Option<Self> {
        let bytes = fs::read(instance_dir.join(NAME)).ok()?;
        let label: Self = serde_json::from_slice(&bytes).ok()?;
        (label.version == VERSION).then_some(label)
    }

    /// Writes the label.
    pub(super) fn write(&self, instance_dir: &Path) -> io::Result<()> {
        let temporary = instance_dir.join(format!(".label-{}.tmp", random_hex::<6>()?));
        let bytes = serde_json::to_vec(self).map_err(io::Error::other)?;
        let written = fs::write(&temporary, bytes)
            .and_then(|()| fs::rename(&temporary, instance_dir.join(NAME)));
        if written.is_err() {
            fs::remove_file(&temporary).ok();
        }
        written
    }

    /// Returns the label for a copy of the instance that belongs to another
    /// sandbox; nothing for one that ended with its process. Its control groups
    /// are the original's.
    fn disowned(mut self, key: &str) -> Option<Self> {
        if self.owner.is_some() {
            return None;
        }
        key.clone_into(&mut self.key);
        self.made.cgroups.clear();
        Some(self)
    }

    /// Returns whether it is on an instance of this sandbox.
    pub(super) fn is_of(&self, key: &str) -> bool {
        self.key == key
    }

    /// Returns the instance as one that was found.
    pub(super) fn found(
        self,
        id: String,
        instance_dir: &Path,
        state: InstanceState,
    ) -> FoundInstance {
        let process = identity::read(instance_dir).ok().flatten();
        let locator = process.map_or(Locator::Null, |process| {
            NativeLocator { process, made: self.made }.to_locator()
        });
        FoundInstance {
            id,
            key: self.key,
            task: self.task,
            generation: self.generation,
            persistent: self.owner.is_none(),
            owner: self.owner,
            spec: self.spec,
            state,
            created_at: Some(self.created_at),
            locator,
        }
    }
}

/// Makes the directory of a copied instance one of a sandbox of its own that
/// does not run: the process and the control groups that it names are the
/// original's. Returns whether there is a system in it to go on with.
pub(super) fn disown(instance_dir: &Path, key: &str) -> io::Result<bool> {
    let Some(label) = Label::read(instance_dir).and_then(|label| label.disowned(key)) else {
        return Ok(false);
    };
    identity::forget(instance_dir)?;
    match fs::remove_file(instance_dir.join("io").join(SOCKET_NAME)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    label.write(instance_dir)?;
    Ok(true)
}
