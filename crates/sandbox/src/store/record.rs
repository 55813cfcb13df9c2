//! What is recorded of a sandbox, of its instances and of its snapshots.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::dir::remove_file_if_there;
use super::home_mark::{HomeMark, machine};
use super::{SandboxDir, StoreError, make_private_dir, read_versioned, write_versioned};
use crate::backend::{Confinement, OWNER_VERSION, Owner, SavedSystem};
use crate::{HomeId, Key, Overrides, SnapshotName};

/// Version of the record.
pub(super) const VERSION: u64 = 1;

/// The record of a sandbox: `sandbox.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SandboxRecord {
    /// Version of this file.
    pub(crate) version: u64,
    /// Hash of the key, to notice a directory that was copied from elsewhere.
    pub(crate) key: String,
    /// The profile's name when the sandbox was made.
    pub(crate) profile: String,
    /// The exact task.
    pub(crate) task: String,
    /// The backend; `auto` is resolved once and written here.
    pub(crate) backend: String,
    /// When the sandbox was made.
    pub(crate) created_at: Timestamp,
    /// Generation of the newest instance ever made.
    pub(crate) generation: u64,
    /// What was asked for this sandbox alone.
    #[serde(default, skip_serializing_if = "Overrides::is_empty")]
    pub(crate) overrides: Overrides,
    /// The instance it lives in now.
    pub(crate) instance: Option<InstanceRecord>,
    /// The home it belongs to, by which a home whose own file was lost finds its id again. Absent:
    /// a version that did not write it made or started the instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) home: Option<RecordedHome>,
}

/// The home of a sandbox, and which directory has the record that names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RecordedHome {
    pub(super) id: String,
    /// A copy of the directory is another one.
    pub(super) mark: HomeMark,
}

impl RecordedHome {
    /// Returns what a record in this directory says. Nothing if the directory cannot be looked
    /// at: the record is right without it.
    pub(crate) fn of(home: &HomeId, dir: &SandboxDir) -> Option<Self> {
        let mark = HomeMark::of_dir(dir.path()).ok()?.on_machine(machine());
        Some(Self { id: home.as_str().to_owned(), mark })
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct InstanceRecord {
    /// Its id, random and never used again.
    pub(crate) id: String,
    /// When it was made.
    pub(crate) created_at: Timestamp,
    /// The settings it was made with.
    pub(crate) spec: BTreeMap<String, String>,
    /// Idle seconds after which its guest ends; absent: never.
    pub(crate) retention_seconds: Option<u64>,
    /// What the backend needs to find it again.
    pub(crate) locator: serde_json::Value,
}

impl SandboxRecord {
    /// Returns the record of a sandbox that has no instance yet.
    pub(crate) fn new(
        key: &crate::Key,
        backend: &str,
        overrides: Overrides,
        now: Timestamp,
    ) -> Self {
        Self {
            version: VERSION,
            key: key.hash(),
            profile: key.profile().to_owned(),
            task: key.task().as_str().to_owned(),
            backend: backend.to_owned(),
            created_at: now,
            generation: 0,
            overrides,
            instance: None,
            home: None,
        }
    }
}

const MARK_VERSION: u64 = 1;

/// Which backend an instance is on and whose it is, written before there is
/// anything to find.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct InstanceMark {
    version: u64,
    pub(crate) backend: String,
    /// The process it ends with; absent: it outlives processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) owner: Option<Owner>,
}

impl InstanceMark {
    pub(crate) fn new(backend: &str, owner: Option<Owner>) -> Self {
        Self { version: MARK_VERSION, backend: backend.to_owned(), owner }
    }

    /// Reads the mark of an instance. What is beside the socket counts only
    /// where nothing else is there: commands in a container can write there,
    /// and its directory always has a mark out of their reach.
    pub(crate) fn read(instance_dir: &Path) -> Result<Option<Self>, StoreError> {
        if let Some(mark) = read_versioned(&outside(instance_dir), MARK_VERSION)? {
            return Ok(Some(mark));
        }
        let owner: Option<Owner> = read_versioned(&beside_socket(instance_dir), OWNER_VERSION)?;
        Ok(owner.map(|owner| Self::new(&owner.backend.clone(), Some(owner))))
    }

    /// Writes the mark. An instance without confinement takes its whole
    /// directory along when it ends by itself, and the mark with it.
    pub(crate) fn write(
        &self,
        instance_dir: &Path,
        confinement: Confinement,
    ) -> Result<(), StoreError> {
        match (confinement, &self.owner) {
            (Confinement::Contained | Confinement::Remote, _) => {
                write_versioned(&outside(instance_dir), self)
            }
            (Confinement::None, Some(owner)) => {
                write_versioned(&beside_socket(instance_dir), owner)
            }
            (Confinement::None, None) => Ok(()),
        }
    }
}

fn outside(instance_dir: &Path) -> PathBuf {
    instance_dir.join("instance.json")
}

fn beside_socket(instance_dir: &Path) -> PathBuf {
    instance_dir.join("io").join("owner.json")
}

/// Version of the file.
const SNAPSHOT_VERSION: u64 = 1;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SnapshotRecord {
    version: u64,
    /// The home it was made in, to notice a directory that was copied from
    /// elsewhere. A profile may get another name meanwhile.
    pub(crate) home: String,
    /// The exact task.
    pub(crate) task: String,
    /// When it was made.
    pub(crate) created_at: Timestamp,
    /// The backend that made it.
    pub(crate) backend: String,
    /// What was asked for the sandbox alone.
    #[serde(default, skip_serializing_if = "Overrides::is_empty")]
    pub(crate) overrides: Overrides,
    /// What the backend needs to make instances of it; absent: it holds nothing but the
    /// files beside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) saved: Option<SavedSystem>,
    /// Whether that is the filesystem of an instance, rather than files that the backend keeps.
    #[serde(default = "yes")]
    pub(crate) system: bool,
    pub(crate) files: u64,
    pub(crate) bytes: u64,
    /// What somebody wrote on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) note: Option<String>,
}

impl SnapshotRecord {
    /// Returns the record of a snapshot that is made now and empty yet.
    pub(crate) fn new(key: &Key, record: &super::SandboxRecord, note: Option<&str>) -> Self {
        Self {
            version: SNAPSHOT_VERSION,
            home: key.home().as_str().to_owned(),
            task: key.task().to_string(),
            created_at: Timestamp::now(),
            backend: record.backend.clone(),
            overrides: record.overrides.clone(),
            saved: None,
            system: true,
            files: 0,
            bytes: 0,
            note: note.map(str::to_owned),
        }
    }

    /// Returns whether it is of this sandbox.
    pub(crate) fn is_of(&self, key: &Key) -> bool {
        self.home == key.home().as_str() && self.task == key.task().as_str()
    }
}

fn yes() -> bool {
    true
}

/// The directory of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SnapshotDir {
    path: PathBuf,
}

impl SnapshotDir {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns where the instance's own filesystem is.
    pub(crate) fn system(&self) -> PathBuf {
        self.path.join("system")
    }

    /// Returns whether there is anything, a snapshot or a part of one.
    pub(crate) fn exists(&self) -> bool {
        fs::symlink_metadata(&self.path).is_ok()
    }

    /// Returns whether there is a record of it.
    pub(crate) fn is_whole(&self) -> bool {
        fs::symlink_metadata(self.file()).is_ok()
    }

    pub(crate) fn read(&self) -> Result<Option<SnapshotRecord>, StoreError> {
        read_versioned(&self.file(), SNAPSHOT_VERSION)
    }

    /// Makes the directory a snapshot.
    pub(crate) fn write(&self, record: &SnapshotRecord) -> Result<(), StoreError> {
        write_versioned(&self.file(), record)
    }

    /// Makes the directory none.
    pub(crate) fn forget(&self) -> Result<(), StoreError> {
        remove_file_if_there(&self.file())
    }

    fn file(&self) -> PathBuf {
        self.path.join("snapshot.json")
    }
}

impl SandboxDir {
    /// Returns the directory of all snapshots.
    pub(crate) fn snapshots_dir(&self) -> PathBuf {
        self.path().join("snapshots")
    }

    /// Returns the directory of a snapshot, which need not exist.
    pub(crate) fn snapshot(&self, name: &SnapshotName) -> SnapshotDir {
        SnapshotDir { path: self.snapshots_dir().join(name.as_str()) }
    }

    /// Returns the names of the snapshots that are whole, sorted.
    pub(crate) fn snapshot_names(&self) -> Result<Vec<SnapshotName>, StoreError> {
        let mut names = self.snapshot_dirs()?;
        names.retain(|name| self.snapshot(name).is_whole());
        Ok(names)
    }

    /// Returns the names of the directories of snapshots that are none: nobody makes or
    /// removes one unless an intent names it.
    pub(crate) fn partial_snapshots(&self) -> Result<Vec<SnapshotName>, StoreError> {
        let mut names = self.snapshot_dirs()?;
        names.retain(|name| !self.snapshot(name).is_whole());
        Ok(names)
    }

    fn snapshot_dirs(&self) -> Result<Vec<SnapshotName>, StoreError> {
        let path = self.snapshots_dir();
        let entries = match fs::read_dir(&path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(StoreError::io("list", path, error)),
        };
        let mut names: Vec<SnapshotName> = entries
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .collect();
        names.sort();
        Ok(names)
    }

    /// Removes the directory of snapshots if there is none left.
    pub(crate) fn tidy_snapshots(&self) {
        // What is not empty stays, which is the whole point.
        fs::remove_dir(self.snapshots_dir()).ok();
    }
}

const LAST_KNOWN_VERSION: u64 = 1;

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
            version: LAST_KNOWN_VERSION,
            instance: instance.to_owned(),
            at: Timestamp::now(),
            running,
            jobs_running: 0,
            last_used_at: None,
        }
    }

    /// Reads what was last known of an instance. What cannot be read is not known.
    pub(crate) fn read(dir: &SandboxDir, instance: &str) -> Option<Self> {
        let known: Option<Self> =
            read_versioned(&Self::path(dir), LAST_KNOWN_VERSION).ok().flatten();
        known.filter(|known| known.instance == instance)
    }

    pub(crate) fn write(&self, dir: &SandboxDir) -> Result<(), StoreError> {
        write_versioned(&Self::path(dir), self)
    }

    fn path(dir: &SandboxDir) -> std::path::PathBuf {
        dir.path().join("last-known.json")
    }
}

const FORGOTTEN_VERSION: u64 = 1;

/// What is kept of an instance that was forgotten.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ForgottenInstance {
    version: u64,
    /// The sandbox's task.
    pub(crate) task: String,
    /// Hash of its key.
    pub(crate) key: String,
    /// The backend of the instance.
    pub(crate) backend: String,
    /// Where it was.
    pub(crate) locator: serde_json::Value,
    /// When it was forgotten.
    pub(crate) at: Timestamp,
}

impl ForgottenInstance {
    pub(crate) fn new(
        task: &str,
        key: &str,
        backend: &str,
        locator: serde_json::Value,
        at: Timestamp,
    ) -> Self {
        Self {
            version: FORGOTTEN_VERSION,
            task: task.to_owned(),
            key: key.to_owned(),
            backend: backend.to_owned(),
            locator,
            at,
        }
    }
}

/// The directory with one file for each of them.
#[derive(Debug, Clone)]
pub(crate) struct ForgottenInstances {
    dir: PathBuf,
}

impl ForgottenInstances {
    /// Returns those of a profile home.
    pub(crate) fn of_home(home: &Path) -> Self {
        Self { dir: home.join("forgotten") }
    }

    fn path(&self, id: &str) -> PathBuf {
        self.dir.join(format!("{id}.json"))
    }

    /// Adds one.
    pub(crate) fn add(&self, id: &str, forgotten: &ForgottenInstance) -> Result<(), StoreError> {
        make_private_dir(&self.dir)?;
        write_versioned(&self.path(id), forgotten)
    }

    /// Returns the ids of all.
    pub(crate) fn ids(&self) -> Result<BTreeSet<String>, StoreError> {
        let entries = match std::fs::read_dir(&self.dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(BTreeSet::new());
            }
            Err(error) => return Err(StoreError::io("read", &self.dir, error)),
        };
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        // What cannot be read is forgotten all the same: its name says which one it is.
        Ok(names.filter_map(|name| Some(name.strip_suffix(".json")?.to_owned())).collect())
    }

    /// Ends this for one that was removed where it is.
    pub(crate) fn remove(&self, id: &str) -> Result<(), StoreError> {
        let path = self.path(id);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(StoreError::io("remove", &path, error))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::SandboxRecord;
    use crate::{HomeId, TaskName};

    #[test]
    fn a_directory_is_a_snapshot_from_the_last_file_to_the_first() {
        let root = tempfile::tempdir().unwrap();
        let dir = SandboxDir::new(root.path().join("default"));
        let name: SnapshotName = "before".parse().unwrap();
        assert_eq!(dir.snapshot_names().unwrap(), []);
        let snapshot = dir.snapshot(&name);
        fs::create_dir_all(snapshot.system()).unwrap();
        assert_eq!((dir.snapshot_names().unwrap(), snapshot.read().unwrap()), (Vec::new(), None));
        let key = Key::new(HomeId("h".into()), "p", TaskName::default_task());
        let record = SandboxRecord::new(&key, "native", Overrides::default(), Timestamp::now());
        let written = SnapshotRecord {
            saved: Some(serde_json::json!({"layers": ["usr"]})),
            files: 3,
            ..SnapshotRecord::new(&key, &record, Some("why"))
        };
        let renamed = Key::new(HomeId("h".into()), "renamed", TaskName::default_task());
        let elsewhere = Key::new(HomeId("x".into()), "p", TaskName::default_task());
        assert_eq!((written.is_of(&renamed), written.is_of(&elsewhere)), (true, false));
        snapshot.write(&written).unwrap();
        assert_eq!(dir.snapshot_names().unwrap(), [name]);
        assert_eq!(snapshot.read().unwrap(), Some(written));
        snapshot.forget().unwrap();
        snapshot.forget().unwrap();
        assert_eq!(dir.snapshot_names().unwrap(), []);
        dir.tidy_snapshots();
        assert!(snapshot.exists(), "what is left of it is for others to remove");
    }
}
