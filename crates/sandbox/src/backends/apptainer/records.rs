//! What is recorded of an instance: the locator in the sandbox's record, the processes that
//! the stage writes down, and the label.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use vestal_process::{ProcessId, ProcessSession};

use crate::backend::{BackendError, Description, Instance, Locator};
use crate::backends::guest_process;
use crate::backends::label::{self, RecordedProcess};

/// How the backend finds an instance again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ApptainerLocator {
    #[serde(flatten)]
    pub(super) processes: LaunchRecord,
    #[serde(flatten)]
    pub(super) system: ApptainerSystem,
}

/// The processes of a start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LaunchRecord {
    /// The process that leads the session of all that is started for the container.
    pub(super) session: ProcessId,
    /// The guest, as this machine sees it; absent until it listens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) guest: Option<ProcessId>,
    /// The mount namespace of what runs beside the container, as in `/proc/PID/ns/mnt`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) namespace: Option<String>,
}

/// The system that an instance was made, or last started, with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ApptainerSystem {
    /// The user who made it, who is also the user of its commands.
    pub(super) uid: u32,
    /// The image, as it was named.
    pub(super) image: String,
    /// Identity of the image: its own files are changes to that.
    pub(super) image_id: String,
    /// What built it.
    pub(super) program: String,
    /// Directories of its control groups.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) cgroups: Vec<PathBuf>,
    /// Keys of limits that are not enforced.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) unenforced: Vec<String>,
    /// Settings that weaken the isolation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) weakened: Vec<String>,
}

/// The label of an instance.
pub(super) type ApptainerLabel = label::Label<ApptainerSystem>;

impl ApptainerLocator {
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
            image: Some(self.system.image),
            image_id: Some(self.system.image_id),
            transport: Some("socket".to_owned()),
            unenforced: self.system.unenforced,
            weakened: self.system.weakened,
            tier: Some(self.system.program),
            ..Description::default()
        }
    }
}

/// The same as the stage writes it.
#[derive(Deserialize)]
struct WrittenRecord {
    session: RecordedProcess,
    guest: Option<RecordedProcess>,
    namespace: Option<String>,
}

/// Returns the file in which the stage records the processes of a start. It lies where the
/// sandbox cannot reach it, and names the session before anything runs in it, so that a
/// half-made instance can be ended.
pub(super) fn launch_file(instance_dir: &Path) -> PathBuf {
    instance_dir.join("launch.json")
}

/// Returns the processes of the last start, dead or alive.
pub(super) fn read_launch(instance_dir: &Path) -> io::Result<Option<LaunchRecord>> {
    let record: Option<WrittenRecord> = label::read_record(&launch_file(instance_dir))?;
    Ok(record.map(|written| LaunchRecord {
        session: written.session.into(),
        guest: written.guest.map(ProcessId::from),
        namespace: written.namespace,
    }))
}

/// Removes the record of an earlier start.
pub(super) fn forget_launch(instance_dir: &Path) -> io::Result<()> {
    label::forget_record(&launch_file(instance_dir))
}

/// Returns the starts of an instance that are known: the locator's, and the one that the
/// stage recorded last, if the creator died before it wrote the locator.
pub(super) fn launches(instance: &Instance) -> Result<Vec<LaunchRecord>, BackendError> {
    let located = ApptainerLocator::of(&instance.locator).map(|locator| locator.processes);
    let written = read_launch(&instance.dir)
        .map_err(BackendError::io(format!("read {}", launch_file(&instance.dir).display())))?;
    let mut known: Vec<LaunchRecord> = located.into_iter().collect();
    known.extend(written.filter(|written| !known.contains(written)));
    Ok(known)
}

/// Returns the guest of an instance if it is alive.
pub(super) fn living_guest(instance: &Instance) -> Result<Option<ProcessId>, BackendError> {
    let guests = launches(instance)?.into_iter().filter_map(|launch| launch.guest);
    Ok(guests.into_iter().find(ProcessId::is_alive))
}

/// Returns the recorded system of an instance.
pub(super) fn system_of(instance: &Instance) -> Option<ApptainerSystem> {
    let located = ApptainerLocator::of(&instance.locator).map(|locator| locator.system);
    located.or_else(|| ApptainerLabel::read(&instance.dir).map(|label| label.system))
}

/// Returns how a labelled instance is found, if the stage has recorded its processes.
pub(super) fn locator_of_label(system: ApptainerSystem, instance_dir: &Path) -> Locator {
    let processes = read_launch(instance_dir).ok().flatten();
    processes.map_or(Locator::Null, |processes| ApptainerLocator { processes, system }.to_locator())
}

/// Turns the directory of a copied instance into a stopped instance of another sandbox: the
/// recorded processes and control groups are the original's. Returns whether it has a system
/// that can be started.
pub(super) fn adopt_copy(instance_dir: &Path, key: &str) -> io::Result<bool> {
    ApptainerLabel::adopt_copy(instance_dir, key, |system| {
        system.cgroups.clear();
        forget_launch(instance_dir)
    })
}

/// How long Apptainer may take to take its mounts apart once the guest is gone.
const TIDY_WITHIN: Duration = Duration::from_secs(5);

/// Pause between two looks.
const PAUSE: Duration = Duration::from_millis(10);

/// Returns the living processes of a start.
fn members(record: &LaunchRecord) -> std::io::Result<Vec<ProcessId>> {
    let session = ProcessSession { leader: record.session.clone(), marks: Vec::new() };
    let mut members = session.members()?;
    if let Some(namespace) = &record.namespace {
        for member in session.members_in_namespace(namespace)? {
            if !members.contains(&member) {
                members.push(member);
            }
        }
    }
    Ok(members)
}

/// Ends all processes of a start.
pub(super) async fn end(
    record: &LaunchRecord,
    instance: &Instance,
    timeout: Duration,
) -> Result<(), BackendError> {
    let begun = Instant::now();
    let tidies = match &record.guest {
        Some(guest) => {
            guest_process::kill(guest, instance, timeout).await?;
            TIDY_WITHIN.min(timeout / 2)
        }
        // The container is still being built: nothing in it is to be kept.
        None => Duration::ZERO,
    };
    loop {
        let looked = members(record);
        let left = looked.map_err(BackendError::io("look for the processes of the container"))?;
        if left.is_empty() {
            return Ok(());
        }
        if begun.elapsed() >= timeout {
            let pids: Vec<u32> = left.into_iter().map(|process| process.pid).collect();
            let reason = format!("processes {pids:?} of its container do not die");
            return Err(BackendError::WontEnd { id: instance.id.clone(), reason });
        }
        if begun.elapsed() >= tidies {
            for process in &left {
                let handle = process
                    .handle()
                    .map_err(BackendError::io("open a process of the container"))?;
                if let Some(handle) = handle {
                    handle.kill().map_err(BackendError::io("kill a process of the container"))?;
                }
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_start_is_known_by_its_session_before_it_has_a_guest() {
        let dir = tempfile::tempdir().unwrap();
        let me = ProcessId::current().unwrap();
        let written =
            |start: u64| serde_json::json!({ "pid": me.pid, "pid_start": start, "boot": me.boot });
        let write = |record: serde_json::Value| {
            fs::write(launch_file(dir.path()), record.to_string()).unwrap();
        };
        let instance = Instance { id: "i1".into(), dir: dir.path().into(), locator: Locator::Null };
        assert_eq!(launches(&instance).unwrap(), Vec::new());
        write(serde_json::json!({ "session": written(me.start) }));
        assert_eq!(launches(&instance).unwrap().len(), 1);
        assert_eq!(living_guest(&instance).unwrap(), None);
        write(serde_json::json!({ "session": written(1), "guest": written(me.start + 1) }));
        assert_eq!(living_guest(&instance).unwrap(), None, "another process has the number");
        write(serde_json::json!({ "session": written(1), "guest": written(me.start) }));
        assert_eq!(living_guest(&instance).unwrap(), Some(me));
        forget_launch(dir.path()).unwrap();
        forget_launch(dir.path()).unwrap();
        assert_eq!(launches(&instance).unwrap(), Vec::new());
    }

    #[test]
    fn a_locator_is_read_back() {
        let me = ProcessId::current().unwrap();
        let locator = ApptainerLocator {
            processes: LaunchRecord {
                session: me.clone(),
                guest: Some(me),
                namespace: Some("mnt:[1]".into()),
            },
            system: ApptainerSystem {
                uid: 7,
                image: "/i".into(),
                image_id: "file:1".into(),
                program: "apptainer version 1.4.5".into(),
                cgroups: vec!["/c".into()],
                unenforced: Vec::new(),
                weakened: Vec::new(),
            },
        };
        assert_eq!(ApptainerLocator::of(&locator.to_locator()), Some(locator));
        assert_eq!(ApptainerLocator::of(&Locator::Null), None);
    }
}
