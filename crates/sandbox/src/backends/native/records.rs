//! What the backend writes down about an instance: the locator in its record,
//! the process that the stage noted, and the label beside the record.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use vestal_process::ProcessId;

use super::tier::Tier;
use crate::backend::{
    BackendError, Description, FoundInstance, Instance, InstanceRequest, InstanceState, Locator,
    Owner,
};
use crate::client::socket::SOCKET_NAME;
use crate::key::random_hex;

/// How an instance is found again, and what it was made as.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct NativeLocator {
    /// Its first process, as the host counts.
    pub(super) process: ProcessId,
    /// What it was made as.
    #[serde(flatten)]
    pub(super) made: NativeSystem,
}

/// What an instance was made, or last started, as.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct NativeSystem {
    /// Who the sandbox's root is on the host.
    pub(super) uid: u32,
    /// What its system directories are.
    pub(super) tier: Tier,
    /// Which picture of `/etc` it shows, where it shows one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) picture: Option<String>,
    /// Which root it was made of, where it was made of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) rootfs: Option<String>,
    /// Directories of its control groups.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) cgroups: Vec<PathBuf>,
    /// Limits that were left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) unenforced: Vec<String>,
    /// What weakens its isolation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) weakened: Vec<String>,
    /// What is missing for a better tier.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) missing: Vec<String>,
}

impl NativeLocator {
    /// Reads a locator; nothing when it is not known or not one of ours.
    pub(super) fn of(locator: &Locator) -> Option<Self> {
        serde_json::from_value(locator.clone()).ok()
    }

    pub(super) fn to_locator(&self) -> Locator {
        // A struct of texts and numbers always has a JSON form.
        serde_json::to_value(self).unwrap_or_default()
    }

    pub(super) fn describe(self) -> Description {
        Description {
            transport: Some("socket".to_owned()),
            unenforced: self.made.unenforced,
            weakened: self.made.weakened,
            tier: Some(self.made.tier.as_str().to_owned()),
            missing: self.made.missing,
            ..Description::default()
        }
    }
}

#[derive(Deserialize)]
struct InitRecord {
    pid: u32,
    pid_start: u64,
    boot: String,
}

/// Returns the file that says who the first process is.
pub(super) fn init_file(instance_dir: &Path) -> PathBuf {
    instance_dir.join("init.json")
}

/// Returns the first process that was last written down, dead or alive.
pub(super) fn read_init(instance_dir: &Path) -> io::Result<Option<ProcessId>> {
    match fs::read(init_file(instance_dir)) {
        Ok(bytes) => {
            // Half a file cannot be: it is written by rename. Anything else
            // that is unreadable tells as little as an absent one.
            let record = serde_json::from_slice::<InitRecord>(&bytes).ok();
            Ok(record.map(|found| ProcessId {
                pid: found.pid,
                start: found.pid_start,
                boot: found.boot,
            }))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Forgets the process of an earlier start.
pub(super) fn forget_init(instance_dir: &Path) -> io::Result<()> {
    match fs::remove_file(init_file(instance_dir)) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Returns the living first process of an instance: the one recorded, else the
/// one written down, for an instance whose creator died before recording it.
pub(super) fn living_init(instance: &Instance) -> Result<Option<ProcessId>, BackendError> {
    if let Some(locator) = NativeLocator::of(&instance.locator)
        && locator.process.is_alive()
    {
        return Ok(Some(locator.process));
    }
    let written = read_init(&instance.dir)
        .map_err(BackendError::io(format!("read {}", init_file(&instance.dir).display())))?;
    Ok(written.filter(ProcessId::is_alive))
}

const LABEL_VERSION: u64 = 1;

/// Name of the file in the instance's directory.
const LABEL_FILE: &str = "label.json";

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
            version: LABEL_VERSION,
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
        let bytes = fs::read(instance_dir.join(LABEL_FILE)).ok()?;
        let label: Self = serde_json::from_slice(&bytes).ok()?;
        (label.version == LABEL_VERSION).then_some(label)
    }

    /// Writes the label.
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
        let process = read_init(instance_dir).ok().flatten();
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
    forget_init(instance_dir)?;
    match fs::remove_file(instance_dir.join("io").join(SOCKET_NAME)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    label.write(instance_dir)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_said_when_it_was_written_is_not_missed() {
        let written = serde_json::json!({
            "process": { "pid": 7, "start": 8, "boot": "b" }, "uid": 1000, "tier": "read-only",
        });
        let locator = NativeLocator::of(&written).unwrap();
        assert_eq!(locator.to_locator(), written);
        let description = locator.describe();
        assert_eq!(description.tier.as_deref(), Some("read-only"));
        assert_eq!(description.unenforced, Vec::<String>::new());
        assert_eq!(NativeLocator::of(&Locator::Null), None);
    }

    fn instance(dir: &Path) -> Instance {
        Instance { id: "i1".into(), dir: dir.into(), locator: serde_json::Value::Null }
    }

    #[test]
    fn a_process_is_told_by_more_than_its_number() {
        let dir = tempfile::tempdir().unwrap();
        let me = ProcessId::current().unwrap();
        let write = |start: u64| {
            let text = serde_json::json!({ "pid": me.pid, "pid_start": start, "boot": me.boot });
            fs::write(init_file(dir.path()), text.to_string()).unwrap();
        };
        assert_eq!(living_init(&instance(dir.path())).unwrap(), None);
        write(me.start + 1);
        assert_eq!(living_init(&instance(dir.path())).unwrap(), None);
        write(me.start);
        assert_eq!(living_init(&instance(dir.path())).unwrap(), Some(me));
        forget_init(dir.path()).unwrap();
        forget_init(dir.path()).unwrap();
        assert_eq!(read_init(dir.path()).unwrap(), None);
    }

    #[test]
    fn what_cannot_be_read_names_nobody() {
        let dir = tempfile::tempdir().unwrap();
        for garbage in ["", "{", "[]", r#"{"pid":-1}"#] {
            fs::write(init_file(dir.path()), garbage).unwrap();
            assert_eq!(read_init(dir.path()).unwrap(), None, "{garbage}");
        }
    }
}
