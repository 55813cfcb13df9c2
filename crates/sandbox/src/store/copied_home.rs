//! Homes that were copied or moved: where their guests run, and to which home their
//! sandboxes belong.

#[cfg(test)]
#[path = "copied_home_tests.rs"]
mod tests;

use std::fs;
use std::io;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use sha2::{Digest as _, Sha256};

use super::home_mark::HomeMark;
use super::{
    Guests, InstanceRecord, Intent, RecordedHome, SandboxDir, SandboxRecord, StoreError, list_dirs,
};
use crate::backend::{Declaration, HostProcess};
use crate::key::hex;
use crate::{HomeId, Key};

/// Gives the sandboxes of a copied home the keys of its new id.
pub(crate) fn adopt_sandboxes(
    sandboxes: &Path,
    old: &HomeId,
    new: &HomeId,
    declared: &[&'static Declaration],
) -> Result<(), StoreError> {
    for dir in list_dirs(sandboxes)? {
        let record = match dir.read_record() {
            Ok(record) => record,
            // A record that cannot be read must not stop the others.
            Err(error) => {
                tracing::warn!(%error, "left as it is");
                continue;
            }
        };
        match record {
            Some(record) => {
                if let Some(was) = key_in(&record, old)
                    && let Some(now) = key_in(&record, new)
                    && record.key == was.hash()
                {
                    take_over(&dir, record, &now, declared)?;
                }
            }
            // Its instances carry the original's mark, so that nobody takes them.
            None => drop_intent(&dir)?,
        }
    }
    Ok(())
}

/// Returns whether a directory has sandboxes of a home.
pub(crate) fn holds_sandboxes_of(sandboxes: &Path, home: &HomeId) -> Result<bool, StoreError> {
    let is_of_home = |dir: &SandboxDir| {
        let record = dir.read_record().ok().flatten();
        record
            .is_some_and(|record| key_in(&record, home).is_some_and(|key| key.hash() == record.key))
    };
    Ok(list_dirs(sandboxes)?.iter().any(is_of_home))
}

/// A home's id as the records of its sandboxes have it.
#[derive(Debug)]
pub(super) struct RecordedId {
    pub(super) id: HomeId,
    /// For each record, the mark of its directory then and now.
    pub(super) marks: Vec<(HomeMark, HomeMark)>,
}

/// Returns the id of the home to which all sandboxes in a directory belong that say so. A record
/// whose key is not of the home that it names says nothing.
pub(super) fn recorded_id(sandboxes: &Path) -> Result<Option<RecordedId>, StoreError> {
    let mut found: Option<RecordedId> = None;
    for dir in list_dirs(sandboxes)? {
        let Some(record) = dir.read_record().ok().flatten() else { continue };
        let Some(home) = record.home.clone() else { continue };
        let id = HomeId(home.id);
        if key_in(&record, &id).is_none_or(|key| key.hash() != record.key) {
            continue;
        }
        let now = HomeMark::of_dir(dir.path())
            .map_err(|error| StoreError::io("look at", dir.path(), error))?;
        let known = found.get_or_insert_with(|| RecordedId { id: id.clone(), marks: Vec::new() });
        if known.id != id {
            return Ok(None);
        }
        known.marks.push((home.mark, now));
    }
    Ok(found)
}

/// Returns the key that a sandbox has in a home; none for a task that cannot be.
fn key_in(record: &SandboxRecord, home: &HomeId) -> Option<Key> {
    Some(Key::new(home.clone(), &*record.profile, record.task.parse().ok()?))
}

/// Makes one sandbox the new key's. Its record is written last: until then the
/// work is done again.
fn take_over(
    dir: &SandboxDir,
    record: SandboxRecord,
    now: &Key,
    declared: &[&'static Declaration],
) -> Result<(), StoreError> {
    for name in dir.snapshot_names()? {
        let snapshot = dir.snapshot(&name);
        if let Some(mut saved) = snapshot.read()? {
            now.home().as_str().clone_into(&mut saved.home);
            snapshot.write(&saved)?;
        }
    }
    drop_intent(dir)?;
    let backend = declared.iter().find(|backend| backend.name == record.backend);
    let instance = match (record.instance, backend) {
        (Some(instance), Some(backend)) => keep_system(dir, instance, now, backend)?,
        (_, _) => None,
    };
    discard_instances(dir, instance.as_ref().map(|instance| &*instance.id))?;
    let home = RecordedHome::of(now.home(), dir);
    dir.write_record(&SandboxRecord { key: now.hash(), instance, home, ..record })
}

/// Gives an instance whose system is in its directory an id of its own.
fn keep_system(
    dir: &SandboxDir,
    instance: InstanceRecord,
    now: &Key,
    backend: &Declaration,
) -> Result<Option<InstanceRecord>, StoreError> {
    let Some(adopt_copy) = backend.adopt_copy else {
        return Ok(None);
    };
    // The same one each time, so that a step that was cut off is found again.
    let digest = Sha256::digest(format!("{} {}", now.home().as_str(), instance.id));
    let id = hex(&digest[..8]);
    let (from, to) = (dir.instance_dir(&instance.id), dir.instance_dir(&id));
    if runs_here(dir, backend, &instance) {
        return Err(StoreError::io(
            "take over",
            from,
            io::Error::other(
                "its guest is running on these files, so they are not a copy; stop it with the \
                 home it was started from",
            ),
        ));
    }
    match fs::rename(&from, &to) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::NotFound && to.is_dir() => {}
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(StoreError::io("rename", from, error)),
    }
    let kept = adopt_copy(&to, &now.hash())
        .map_err(|error| StoreError::io("make a system of its own of", &to, error))?;
    Ok(kept.then_some(InstanceRecord { id, locator: serde_json::Value::Null, ..instance }))
}

/// Puts the directories of all instances but one out of sight: they tell of
/// processes and containers that are the original's.
fn discard_instances(dir: &SandboxDir, kept: Option<&str>) -> Result<(), StoreError> {
    for id in dir.instance_ids()? {
        if kept != Some(&*id) {
            SandboxDir::new(dir.instance_dir(&id)).discard_beside(dir)?;
        }
    }
    Ok(())
}

/// Forgets what a process of the original was doing to an instance. What only
/// concerns files is finished in the copy, too.
fn drop_intent(dir: &SandboxDir) -> Result<(), StoreError> {
    match dir.read_intent()? {
        Some(
            Intent::Create { .. }
            | Intent::Start { .. }
            | Intent::Stop { .. }
            | Intent::Remove { .. },
        ) => dir.clear_intent(),
        _ => Ok(()),
    }
}

pub(crate) fn is_below(path: &Path, home: &Path) -> bool {
    let real = |path: &Path| fs::canonicalize(path).ok();
    matches!((real(path), real(home)), (Some(path), Some(home)) if path.starts_with(&home))
}

/// Returns where the guests of all sandboxes have their files.
pub(crate) fn running_guests(sandboxes: &Path, declared: &[&'static Declaration]) -> Guests {
    let dirs = list_dirs(sandboxes).unwrap_or_default();
    let guests = dirs.iter().filter_map(|dir| {
        let record = dir.read_record().ok().flatten()?;
        let backend = declared.iter().find(|backend| backend.name == record.backend)?;
        Some(guests_of(dir, backend, record.instance.as_ref()?))
    });
    guests.max().unwrap_or(Guests::None)
}

/// Returns whether a guest runs on the files of this instance.
pub(crate) fn runs_here(dir: &SandboxDir, backend: &Declaration, record: &InstanceRecord) -> bool {
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
