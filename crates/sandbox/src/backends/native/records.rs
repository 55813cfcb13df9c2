//! What is recorded about an instance: the locator in the sandbox's record, the
//! process id that the stage writes, and the label.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use vestal_process::ProcessId;

use super::tier::Tier;
use crate::backend::{BackendError, Description, Instance, Locator};
use crate::backends::label::{self, RecordedProcess};

/// How the backend finds an instance again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct NativeLocator {
    /// The first process, as seen from the host.
    pub(super) process: ProcessId,
    #[serde(flatten)]
    pub(super) system: NativeSystem,
}

/// The system that an instance was made, or last started, with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct NativeSystem {
    /// The host id of the sandbox's root.
    pub(super) uid: u32,
    pub(super) tier: Tier,
    /// Digest of the snapshot of `/etc`.
    #[serde(default, rename = "picture", skip_serializing_if = "Option::is_none")]
    pub(super) etc_snapshot: Option<String>,
    /// Identity of the root filesystem, for [`Tier::Rootfs`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) rootfs: Option<String>,
    /// Directories of its control groups.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) cgroups: Vec<PathBuf>,
    /// Keys of limits that are not enforced.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) unenforced: Vec<String>,
    /// Settings that weaken the isolation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) weakened: Vec<String>,
    /// What is missing for a better tier.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) missing: Vec<String>,
}

impl NativeLocator {
    /// Parses a locator; `None` if there is none or it is not of this backend.
    pub(super) fn of(locator: &Locator) -> Option<Self> {
        serde_json::from_value(locator.clone()).ok()
    }

    pub(super) fn to_locator(&self) -> Locator {
        // A struct of strings and numbers always has a JSON form.
        serde_json::to_value(self).unwrap_or_default()
    }

    pub(super) fn describe(self) -> Description {
        Description {
            transport: Some("socket".to_owned()),
            unenforced: self.system.unenforced,
            weakened: self.system.weakened,
            tier: Some(self.system.tier.as_str().to_owned()),
            missing: self.system.missing,
            ..Description::default()
        }
    }
}

/// Returns the file in which the stage records the first process. It lies where the
/// sandbox cannot reach it and is written before anything runs in the sandbox, so
/// that a half-made instance can be ended.
pub(super) fn init_file(instance_dir: &Path) -> PathBuf {
    instance_dir.join("init.json")
}

/// Returns the first process that the stage recorded last, dead or alive.
pub(super) fn read_init(instance_dir: &Path) -> io::Result<Option<ProcessId>> {
    let record: Option<RecordedProcess> = label::read_record(&init_file(instance_dir))?;
    Ok(record.map(ProcessId::from))
}

/// Removes the record of an earlier start.
pub(super) fn forget_init(instance_dir: &Path) -> io::Result<()> {
    label::forget_record(&init_file(instance_dir))
}

/// Returns the first process of an instance if it is alive: the locator's, else the
/// one that the stage recorded, if the creator died before it wrote the locator.
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

/// The label of an instance.
pub(super) type NativeLabel = label::Label<NativeSystem>;

/// Returns how a labelled instance is found, if the stage has recorded its process.
pub(super) fn locator_of_label(system: NativeSystem, instance_dir: &Path) -> Locator {
    let process = read_init(instance_dir).ok().flatten();
    process.map_or(Locator::Null, |process| NativeLocator { process, system }.to_locator())
}

/// Turns the directory of a copied instance into a stopped instance of another
/// sandbox: the recorded process and control groups are the original's. Returns
/// whether it has a system that can be started.
pub(super) fn adopt_copy(instance_dir: &Path, key: &str) -> io::Result<bool> {
    NativeLabel::adopt_copy(instance_dir, key, |system| {
        system.cgroups.clear();
        forget_init(instance_dir)
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn fields_that_an_older_version_did_not_write_are_optional() {
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

    #[test]
    fn a_label_keeps_its_field_names_on_disk() {
        let dir = tempfile::tempdir().unwrap();
        let written = serde_json::json!({
            "version": 1, "key": "k", "task": "t", "generation": 2, "spec": "s",
            "created_at": "2026-01-02T03:04:05Z",
            "made": { "uid": 1000, "tier": "read-only", "picture": "p", "cgroups": ["/c"] },
        });
        fs::write(dir.path().join(label::LABEL_FILE), written.to_string()).unwrap();
        let label = NativeLabel::read(dir.path()).unwrap();
        assert_eq!(label.system.etc_snapshot.as_deref(), Some("p"));
        assert_eq!(serde_json::to_value(&label).unwrap(), written);
    }

    fn instance(dir: &Path) -> Instance {
        Instance { id: "i1".into(), dir: dir.into(), locator: serde_json::Value::Null }
    }

    #[test]
    fn a_process_is_identified_by_more_than_its_pid() {
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
    fn a_damaged_record_counts_as_absent() {
        let dir = tempfile::tempdir().unwrap();
        for garbage in ["", "{", "[]", r#"{"pid":-1}"#] {
            fs::write(init_file(dir.path()), garbage).unwrap();
            assert_eq!(read_init(dir.path()).unwrap(), None, "{garbage}");
        }
    }
}
