//! The label of an instance that no engine keeps: enough to find it if the sandbox's record
//! is lost or was never written.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use vestal_config::Settings;

use crate::backend::{FoundInstance, InstanceRequest, InstanceState, Locator, Owner};
use crate::key::random_hex;
use crate::settings::SandboxSettings as _;

const LABEL_VERSION: u64 = 1;

/// File name of the label in the instance's directory.
pub(super) const LABEL_FILE: &str = "label.json";

/// A label, with what the backend knows of the system that the instance was made, or last
/// started, with. It lies where the sandbox cannot reach it. Everything in it can be made
/// again, so it is not synced to disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Label<S> {
    version: u64,
    key: String,
    task: String,
    generation: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    owner: Option<Owner>,
    spec: String,
    created_at: Timestamp,
    #[serde(rename = "made")]
    pub(super) system: S,
}

impl<S: Serialize + DeserializeOwned> Label<S> {
    /// Returns the label of an instance that is about to be made or started.
    pub(super) fn new(request: &InstanceRequest, system: S) -> Self {
        let before = Self::read(&request.instance.dir);
        Self {
            version: LABEL_VERSION,
            key: request.key.hash(),
            task: request.key.task().to_string(),
            generation: request.generation,
            owner: request.owner.clone(),
            spec: request.spec.hash(),
            created_at: before.map_or_else(Timestamp::now, |before| before.created_at),
            system,
        }
    }

    /// Reads the label of an instance; `None` if it is absent, damaged, of a newer
    /// version or of another backend.
    pub(super) fn read(instance_dir: &Path) -> Option<Self> {
        let bytes = fs::read(instance_dir.join(LABEL_FILE)).ok()?;
        let label: Self = serde_json::from_slice(&bytes).ok()?;
        (label.version == LABEL_VERSION).then_some(label)
    }

    pub(super) fn write(&self, instance_dir: &Path) -> io::Result<()> {
        let temporary = instance_dir.join(format!(".label-{}.tmp", random_hex::<6>()?));
        let bytes = serde_json::to_vec(self).map_err(io::Error::other)?;
        let written = fs::write(&temporary, bytes)
            .and_then(|()| fs::rename(&temporary, instance_dir.join(LABEL_FILE)));
        if written.is_err() {
            fs::remove_file(&temporary).ok();
        }
        written
    }

    /// Returns the label for a copy that belongs to another sandbox; `None` for an
    /// instance with an owner process.
    pub(super) fn for_copy(mut self, key: &str) -> Option<Self> {
        if self.owner.is_some() {
            return None;
        }
        key.clone_into(&mut self.key);
        Some(self)
    }

    /// Returns whether it belongs to the sandbox with this key.
    pub(super) fn belongs_to(&self, key: &str) -> bool {
        self.key == key
    }

    pub(super) fn into_found(
        self,
        id: String,
        state: InstanceState,
        locator: impl FnOnce(S) -> Locator,
    ) -> FoundInstance {
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
            locator: locator(self.system),
        }
    }
}

/// Returns the directories of instances of sandboxes that have no record, with their ids.
pub(super) fn unrecorded_instances(settings: &Settings) -> Vec<(String, PathBuf)> {
    let Ok(sandboxes) = settings.sandboxes_dir() else {
        return Vec::new();
    };
    let below = |dir: &Path| fs::read_dir(dir).into_iter().flatten().flatten();
    let sandboxes = below(&sandboxes.value).map(|entry| entry.path());
    sandboxes
        .filter(|dir| !dir.join("sandbox.json").exists())
        .flat_map(|dir| below(&dir.join("instances")).collect::<Vec<_>>())
        .filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path())))
        .collect()
}
