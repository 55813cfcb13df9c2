//! The label of an instance that no engine keeps: enough to find it if the sandbox's record
//! is lost or was never written. And records of its processes, as the stage writes them.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use vestal_config::Settings;
use vestal_process::ProcessId;

use crate::backend::{
    Backend, BackendError, FoundInstance, Instance, InstanceFilter, InstanceRequest, InstanceState,
    Locator, Owner,
};
use crate::client::socket::SOCKET_NAME;
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

    /// Turns the directory of a copied instance into a stopped instance of another sandbox.
    /// `forget` clears what is the original's in the label, such as its control groups, and
    /// removes the record of its processes. Returns whether it has a system that can be started:
    /// an instance with an owner process has none.
    pub(super) fn adopt_copy(
        instance_dir: &Path,
        key: &str,
        forget: impl FnOnce(&mut S) -> io::Result<()>,
    ) -> io::Result<bool> {
        let Some(mut label) = Self::read(instance_dir).filter(|label| label.owner.is_none()) else {
            return Ok(false);
        };
        key.clone_into(&mut label.key);
        forget(&mut label.system)?;
        forget_record(&instance_dir.join("io").join(SOCKET_NAME))?;
        label.write(instance_dir)?;
        Ok(true)
    }

    fn into_found(
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

/// A process, as the stage records it.
#[derive(Deserialize)]
pub(super) struct RecordedProcess {
    pid: u32,
    pid_start: u64,
    boot: String,
}

impl From<RecordedProcess> for ProcessId {
    fn from(recorded: RecordedProcess) -> Self {
        Self { pid: recorded.pid, start: recorded.pid_start, boot: recorded.boot }
    }
}

/// Reads a record of the stage. It is written by rename and cannot be partial; one that cannot be
/// parsed counts as absent.
pub(super) fn read_record<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    match fs::read(path) {
        Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Removes a file of an earlier start, if it is there.
pub(super) fn forget_record(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Finds the instances of a sandbox that has no record, by their labels. Those with a record are found
/// by their directory in the home.
pub(super) async fn find_unrecorded<S: Serialize + DeserializeOwned + Send>(
    backend: &dyn Backend,
    settings: &Settings,
    whose: InstanceFilter<'_>,
    locator: fn(S, &Path) -> Locator,
) -> Result<Vec<FoundInstance>, BackendError> {
    let InstanceFilter::Key(key) = whose else {
        return Ok(Vec::new());
    };
    let mut found = Vec::new();
    for (id, dir) in unrecorded_instances(settings) {
        if let Some(label) = Label::<S>::read(&dir).filter(|label| label.key == key) {
            let instance = Instance { id, dir, locator: Locator::Null };
            let state = backend.state(&instance).await?;
            found.push(
                label.into_found(instance.id, state, |system| locator(system, &instance.dir)),
            );
        }
    }
    Ok(found)
}

/// Returns the directories of instances of sandboxes that have no record, with their ids.
fn unrecorded_instances(settings: &Settings) -> Vec<(String, PathBuf)> {
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
