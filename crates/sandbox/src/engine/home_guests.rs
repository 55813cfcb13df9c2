//! Where the running guests that a home's records name have their files.
//!
//! A guest keeps the directory of its socket open, whatever becomes of the
//! directory's name. So a guest tells a home from a copy: it is in one of them.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crate::backend::{Declaration, HostProcess};
use crate::store::{Guests, InstanceRecord, SandboxDir, list_dirs};

/// Returns where the guests of all sandboxes have their files.
pub(super) fn running_guests(sandboxes: &Path, declared: &[&'static Declaration]) -> Guests {
    let dirs = list_dirs(sandboxes).unwrap_or_default();
    let guests = dirs.iter().filter_map(|dir| {
        let record = dir.read_record().ok().flatten()?;
        let backend = declared.iter().find(|backend| backend.name == record.backend)?;
        Some(guests_of(dir, backend, record.instance.as_ref()?))
    });
    guests.max().unwrap_or(Guests::None)
}

/// Returns whether a guest runs on the files of this instance.
pub(super) fn runs_here(dir: &SandboxDir, backend: &Declaration, record: &InstanceRecord) -> bool {
    guests_of(dir, backend, record) == Guests::Here
}

fn guests_of(dir: &SandboxDir, backend: &Declaration, record: &InstanceRecord) -> Guests {
    let instance = record.located(dir);
    let guests = (backend.host_processes)(&instance).into_iter().map(|process| match process {
        // One that cannot be looked at runs all the same.
        HostProcess::Known(process) if process.is_alive() => {
            held_by(process.pid, &instance.dir).unwrap_or(Guests::Elsewhere)
        }
        HostProcess::Known(_) => Guests::None,
        // The number alone may be another process's by now.
        HostProcess::Number(pid) => {
            let held = held_by(pid, &instance.dir).or_else(|| mounted_by(pid, &instance.id));
            held.unwrap_or(Guests::None)
        }
    });
    guests.max().unwrap_or(Guests::None)
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

#[cfg(test)]
mod tests {
    use std::fs::File;

    use serde_json::json;
    use vestal_process::ProcessId;

    use super::*;
    use crate::backends::local::DECLARATION;

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
        assert_eq!(guests_of(&original, &DECLARATION, &instance), Guests::Here);
        assert_eq!(guests_of(&copy, &DECLARATION, &instance), Guests::Elsewhere);
        fs::remove_dir_all(original.path()).unwrap();
        assert_eq!(
            guests_of(&copy, &DECLARATION, &instance),
            Guests::None,
            "what it holds has no name left"
        );
        let dead = ProcessId { start: 1, ..me.clone() };
        let gone = InstanceRecord { locator: json!({ "process": dead }), ..instance };
        assert_eq!(guests_of(&copy, &DECLARATION, &gone), Guests::None);
    }
}
