//! Where the running guests that a home's records name have their files.
//!
//! A guest keeps the directory of its socket open, whatever becomes of the
//! directory's name. So a guest tells a home from a copy: it is in one of them.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use serde::Deserialize;
use vestal_process::ProcessId;

use crate::store::{Guests, InstanceRecord, SandboxDir, list_dirs, read_regular};

/// Returns where the guests of all sandboxes have their files.
pub(super) fn running_guests(sandboxes: &Path) -> Guests {
    let dirs = list_dirs(sandboxes).unwrap_or_default();
    let guests = dirs.iter().filter_map(|dir| {
        let record = dir.read_record().ok().flatten()?;
        Some(guests_of(dir, &record.backend, record.instance.as_ref()?))
    });
    guests.max().unwrap_or(Guests::None)
}

/// Returns whether a guest runs on the files of this instance.
pub(super) fn runs_here(dir: &SandboxDir, backend: &str, instance: &InstanceRecord) -> bool {
    guests_of(dir, backend, instance) == Guests::Here
}

fn guests_of(dir: &SandboxDir, backend: &str, instance: &InstanceRecord) -> Guests {
    let instance_dir = dir.instance_dir(&instance.id);
    let recorded = serde_json::from_value::<RecordedProcess>(instance.locator.clone()).ok();
    // What is said where a sandbox could write it does not count.
    let written = match backend {
        "native" => Some("init.json"),
        "local" => Some("io/guest.json"),
        _ => None,
    };
    let written = written.and_then(|name| {
        let bytes = read_regular(&instance_dir.join(name)).ok()?;
        serde_json::from_slice::<WrittenProcess>(&bytes).ok().map(WrittenProcess::process)
    });
    let mut found = Guests::None;
    for process in written.into_iter().chain(recorded.and_then(|of| of.process)) {
        if process.is_alive() {
            // One that cannot be looked at runs all the same.
            let held = held_by(process.pid, &instance_dir).unwrap_or(Guests::Elsewhere);
            found = found.max(held);
        }
    }
    let container = serde_json::from_value::<RecordedContainer>(instance.locator.clone()).ok();
    if let Some(pid) = container.and_then(|container| container.transport.pid) {
        // The number alone may be another process's by now.
        let held = held_by(pid, &instance_dir).or_else(|| mounted_by(pid, &instance.id));
        found = found.max(held.unwrap_or(Guests::None));
    }
    found
}

/// Returns where a process has the directory of its socket, by what it has open;
/// nothing where that cannot be seen.
fn held_by(pid: u32, instance_dir: &Path) -> Option<Guests> {
    let here = fs::metadata(instance_dir.join("io")).ok().map(|dir| (dir.dev(), dir.ino()));
    let mut found = None;
    for entry in fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten() {
        // A directory without a name is called `… (deleted)`.
        let name = fs::read_link(entry.path()).unwrap_or_default();
        let name = name.to_string_lossy();
        let is_socket_dir = name.trim_end_matches(" (deleted)").ends_with("/io");
        let Ok(open) = fs::metadata(entry.path()) else { continue };
        if !is_socket_dir || !open.is_dir() {
            continue;
        }
        let held = match (Some((open.dev(), open.ino())) == here, open.nlink()) {
            (true, _) => Guests::Here,
            (false, 0) => Guests::None,
            (false, _) => Guests::Elsewhere,
        };
        found = found.max(Some(held));
    }
    found
}

/// Returns where a container has the directory of its socket, by what is mounted
/// in it, which everybody may see; nothing if it is not that instance's.
fn mounted_by(pid: u32, instance: &str) -> Option<Guests> {
    let mounts = fs::read_to_string(format!("/proc/{pid}/mountinfo")).ok()?;
    mounts.lines().find_map(|line| {
        let mut fields = line.split(' ').skip(3);
        let (root, point) = (fields.next()?, fields.next()?);
        let source = root.trim_end_matches("//deleted");
        if point != "/.vestal/io" || !source.ends_with(&format!("/{instance}/io")) {
            return None;
        }
        Some(if source == root { Guests::Elsewhere } else { Guests::None })
    })
}

/// What the records of processes have in common.
#[derive(Deserialize)]
struct RecordedProcess {
    process: Option<ProcessId>,
}

/// What records of containers tell of processes.
#[derive(Deserialize)]
struct RecordedContainer {
    transport: RecordedTransport,
}

#[derive(Deserialize)]
struct RecordedTransport {
    #[serde(default)]
    pid: Option<u32>,
}

/// What guests and the stage write of themselves.
#[derive(Deserialize)]
struct WrittenProcess {
    pid: u32,
    pid_start: u64,
    boot: String,
}

impl WrittenProcess {
    fn process(self) -> ProcessId {
        ProcessId { pid: self.pid, start: self.pid_start, boot: self.boot }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use serde_json::json;

    use super::*;

    #[test]
    fn a_guest_tells_by_the_directory_it_holds_which_home_it_is_of() {
        let root = tempfile::tempdir().unwrap();
        let me = ProcessId::current().unwrap();
        let sandbox = |home: &str, id: &str| {
            let dir = SandboxDir::new(root.path().join(home));
            let io = dir.instance_dir(id).join("io");
            fs::create_dir_all(&io).unwrap();
            let instance = InstanceRecord {
                id: id.to_owned(),
                created_at: jiff::Timestamp::UNIX_EPOCH,
                spec: std::collections::BTreeMap::default(),
                retention_seconds: None,
                locator: json!({ "process": me }),
            };
            (dir, instance, io)
        };
        let (copy, instance, _) = sandbox("copy", "i");
        let (original, _, io) = sandbox("original", "i");
        // This process is the guest: it holds the directory of the original.
        let _held = File::open(&io).unwrap();
        assert_eq!(guests_of(&original, "local", &instance), Guests::Here);
        assert_eq!(guests_of(&copy, "local", &instance), Guests::Elsewhere);
        fs::remove_dir_all(original.path()).unwrap();
        assert_eq!(
            guests_of(&copy, "local", &instance),
            Guests::None,
            "what it holds has no name left"
        );
        let dead = ProcessId { start: 1, ..me.clone() };
        let gone = InstanceRecord { locator: json!({ "process": dead }), ..instance };
        assert_eq!(guests_of(&copy, "local", &gone), Guests::None);
    }
}
