//! Snapshots of a sandbox: made, listed, removed and gone back to.

use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use jiff::Timestamp;

use super::change::{ChangeVerb, Changing, NEW, Replaced, beside};
use super::lock::{COPIES_END_WITHIN, LockedSandbox};
use super::quiesce::{CopyCounter, Quiesced, TREES, full_or, settle};
use super::{Engine, Inner, lock, quiesce, remove};
use crate::backend::{Backend, BackendError, Base};
use crate::store::{
    Intent, SandboxDir, SandboxRecord, SnapshotDir, SnapshotRecord, copies_ended, list_dirs,
    make_private_dir,
};
use crate::{
    CopyError, Error, Key, Restored, Snapshot, SnapshotName, TaskName, WhileBusy, failpoint,
};

/// A snapshot, and the backend that made it.
type Saved = (SnapshotName, Arc<dyn Backend>);

impl Engine {
    /// Copies a sandbox, under a name. It is stopped for that and started by
    /// its next use.
    ///
    /// A call that is given up leaves nothing: see [`Engine::close`].
    #[boxed]
    pub async fn snapshot(
        &self,
        task: &TaskName,
        name: &SnapshotName,
        note: Option<&str>,
        busy: WhileBusy,
    ) -> Result<Snapshot, Error> {
        let (key, name, note) = (self.key(task), name.clone(), note.map(str::to_owned));
        let work = lock::run_watched(&self.inner, |inner, mut attended| async move {
            let dir = inner.dir(&key);
            let locking = lock::lock_existing(&inner, key.task(), &dir);
            let lock = attended.or_leave(key.task(), locking).await?;
            remove_partial_snapshots(&inner, key.task(), &dir).await?;
            if dir.snapshot(&name).exists() {
                let (task, name) = (key.task().to_string(), name.to_string());
                return Err(CopyError::SnapshotExists { task, name }.into());
            }
            let still = quiesce::quiesce_to_copy(&inner, &key, &dir, busy).await?;
            let note = note.as_deref();
            let saving = save(&inner, &key, &dir, &still, &name, note);
            let saved = attended.or_undo(&inner, key.task(), &dir, saving).await;
            if saved.is_err() {
                still.put_back(&inner, LockedSandbox { key: &key, dir: &dir, lock: &lock }).await;
            }
            drop(lock);
            Ok(describe(&dir, &key, &name, saved?))
        });
        work.await
    }

    /// Returns the snapshots of a task, or of all of them, the oldest of each
    /// first. Nothing is used or changed by being listed.
    #[expect(clippy::unused_async, reason = "as all that may have to ask a backend")]
    pub async fn snapshots(&self, task: Option<&TaskName>) -> Result<Vec<Snapshot>, Error> {
        let dirs = match task {
            Some(task) => vec![self.inner.dir(&self.key(task))],
            None => list_dirs(&self.inner.sandboxes)?,
        };
        let mut found = Vec::new();
        for dir in dirs {
            let first = found.len();
            for name in dir.snapshot_names()? {
                match listed(&self.inner, &dir, &name) {
                    Ok(snapshot) => found.extend(snapshot),
                    Err(error) => {
                        let path = dir.snapshot(&name).path().display().to_string();
                        tracing::warn!(path, %error, "cannot be listed");
                    }
                }
            }
            found[first..]
                .sort_by(|a: &Snapshot, b| (a.created_at, &a.name).cmp(&(b.created_at, &b.name)));
        }
        Ok(found)
    }

    /// Removes a snapshot and returns what it was.
    #[boxed]
    pub async fn remove_snapshot(
        &self,
        task: &TaskName,
        name: &SnapshotName,
    ) -> Result<Snapshot, Error> {
        let key = self.key(task);
        let dir = self.inner.dir(&key);
        let lock = lock::lock_existing(&self.inner, task, &dir).await?;
        let record = snapshot_of(&key, &dir, name)?;
        // A backend that is not there is noticed before anything is done.
        let backend = Arc::clone(self.inner.backend(task, &record.backend)?);
        let reached = backend.volumes(&key.hash()).await;
        reached.map_err(Error::backend(backend.name()))?;
        let (intended, backend) = (name.to_string(), record.backend.clone());
        let intent = Intent::RemoveSnapshot { name: intended, backend };
        dir.write_intent_if_room(intent)?;
        failpoint::reach("remove-snapshot.intent-written");
        finish_snapshot_removal(&self.inner, task, &dir, name.as_str(), &record.backend).await?;
        dir.clear_intent()?;
        drop(lock);
        Ok(describe(&dir, &key, name, record))
    }
}

/// Makes a snapshot of a sandbox that stands still, under its lock.
async fn save(
    engine: &Inner,
    key: &Key,
    dir: &SandboxDir,
    still: &Quiesced,
    name: &SnapshotName,
    note: Option<&str>,
) -> Result<SnapshotRecord, Error> {
    let Quiesced { record, backend, instance, .. } = still;
    let backend = &**backend;
    let snapshot = dir.snapshot(name);
    let has_files_elsewhere = quiesce::copies_files(backend);
    if has_files_elsewhere && instance.is_none() {
        // A copy without them would be none.
        return Err(Error::backend(backend.name())(BackendError::Advised {
            problem: "it has no instance by which its files are found".to_owned(),
            advice: "use it once, and try again".to_owned(),
        }));
    }
    let (intended, by) = (name.to_string(), backend.name().to_owned());
    dir.write_intent(Intent::Snapshot { name: intended, backend: by })?;
    failpoint::reach("snapshot.intent-written");
    make_private_dir(snapshot.path())?;
    let counter = CopyCounter::default();
    quiesce::copy_trees(engine, backend, dir.path(), snapshot.path(), &counter).await?;
    failpoint::reach("snapshot.files-copied");
    let mut written = SnapshotRecord::new(key, record, note);
    if let (Some(instance), Some(copies)) = (instance, backend.copies()) {
        make_private_dir(&snapshot.system())?;
        let progress = counter.listen(&engine.progress);
        let saved = copies.save(instance, &snapshot.system(), &progress).await;
        let saved = saved.map_err(|error| full_or(snapshot.path(), backend, error))?;
        failpoint::reach("snapshot.saved");
        written.saved = Some(saved);
        written.system = !has_files_elsewhere;
    }
    let copied = counter.total();
    (written.files, written.bytes) = (copied.files, copied.bytes);
    settle(snapshot.path().to_owned()).await?;
    snapshot.write(&written)?;
    failpoint::reach("snapshot.record-written");
    dir.clear_intent()?;
    Ok(written)
}

/// Returns a snapshot as listings show it; nothing for another home's.
fn listed(
    engine: &Inner,
    dir: &SandboxDir,
    name: &SnapshotName,
) -> Result<Option<Snapshot>, Error> {
    let Some(record) = dir.snapshot(name).read()? else {
        return Ok(None);
    };
    let Ok(task) = record.task.parse::<TaskName>() else {
        return Ok(None);
    };
    let key = engine.key(&task);
    Ok(record.is_of(&key).then(|| describe(dir, &key, name, record)))
}

/// Removes a snapshot whose maker died before it was complete.
pub(super) async fn finish_snapshot(
    engine: &Inner,
    task: &TaskName,
    dir: &SandboxDir,
    name: &str,
    backend: &str,
) -> Result<(), Error> {
    let Ok(name) = name.parse::<SnapshotName>() else {
        return Ok(());
    };
    let snapshot = dir.snapshot(&name);
    if snapshot.read()?.is_some() {
        return Ok(());
    }
    erase_snapshot(engine, task, dir, &snapshot, backend).await
}

/// Removes a snapshot, from whichever step that had reached.
pub(super) async fn finish_snapshot_removal(
    engine: &Inner,
    task: &TaskName,
    dir: &SandboxDir,
    name: &str,
    backend: &str,
) -> Result<(), Error> {
    let Ok(name) = name.parse::<SnapshotName>() else {
        return Ok(());
    };
    let snapshot = dir.snapshot(&name);
    snapshot.forget()?;
    failpoint::reach("remove-snapshot.forgotten");
    erase_snapshot(engine, task, dir, &snapshot, backend).await
}

/// Removes what there is of a snapshot that is none any more.
async fn erase_snapshot(
    engine: &Inner,
    task: &TaskName,
    dir: &SandboxDir,
    snapshot: &SnapshotDir,
    backend: &str,
) -> Result<(), Error> {
    let backend = Arc::clone(engine.backend(task, backend)?);
    let discarded = backend.discard(&snapshot.system()).await;
    discarded.map_err(Error::backend(backend.name()))?;
    failpoint::reach("remove-snapshot.discarded");
    remove::delete(&*backend, snapshot.path()).await?;
    dir.tidy_snapshots();
    Ok(())
}

/// Removes what is left of snapshots that were never whole or are being removed.
/// Only for the holder of the sandbox's lock, after its intent was dealt with.
/// Returns whether there was anything.
pub(super) async fn remove_partial_snapshots(
    engine: &Inner,
    task: &TaskName,
    dir: &SandboxDir,
) -> Result<bool, Error> {
    let names = dir.partial_snapshots()?;
    let record = dir.read_record()?;
    for name in &names {
        let snapshot = dir.snapshot(name);
        copies_ended(snapshot.path(), COPIES_END_WITHIN).await?;
        match &record {
            Some(record) => {
                erase_snapshot(engine, task, dir, &snapshot, &record.backend).await?;
            }
            None => remove::delete_with_any_backend(engine, snapshot.path()).await?,
        }
    }
    dir.tidy_snapshots();
    Ok(!names.is_empty())
}

/// Returns the backends that a sandbox's snapshots need to be removed.
fn snapshot_backends(
    engine: &Inner,
    task: &TaskName,
    dir: &SandboxDir,
) -> Result<Vec<Saved>, Error> {
    let mut found = Vec::new();
    for name in dir.snapshot_names()? {
        if let Some(record) = dir.snapshot(&name).read()? {
            found.push((name, Arc::clone(engine.backend(task, &record.backend)?)));
        }
    }
    Ok(found)
}

/// Checks that a sandbox's snapshots can be removed, and returns which there
/// are: an engine that is not there is noticed before anything is done.
pub(super) async fn removable_snapshots(
    engine: &Inner,
    task: &TaskName,
    dir: &SandboxDir,
) -> Result<Vec<SnapshotName>, Error> {
    let mut names = Vec::new();
    let key = engine.key(task).hash();
    for (name, backend) in snapshot_backends(engine, task, dir)? {
        backend.volumes(&key).await.map_err(Error::backend(backend.name()))?;
        names.push(name);
    }
    Ok(names)
}

/// Removes all snapshots of a sandbox that goes with its files.
pub(super) async fn remove_snapshots(
    engine: &Inner,
    task: &TaskName,
    dir: &SandboxDir,
) -> Result<(), Error> {
    for (name, backend) in snapshot_backends(engine, task, dir)? {
        let snapshot = dir.snapshot(&name);
        // As long as the record is there it tells whom to ask.
        let discarded = backend.discard(&snapshot.system()).await;
        discarded.map_err(Error::backend(backend.name()))?;
        snapshot.forget()?;
        remove::delete(&*backend, snapshot.path()).await?;
    }
    dir.tidy_snapshots();
    Ok(())
}

/// Returns a snapshot as callers see it.
pub(super) fn describe(
    dir: &SandboxDir,
    key: &Key,
    name: &SnapshotName,
    record: SnapshotRecord,
) -> Snapshot {
    Snapshot {
        task: key.task().clone(),
        name: name.clone(),
        created_at: record.created_at,
        backend: record.backend,
        system: record.system && record.saved.is_some(),
        files: record.files,
        bytes: record.bytes,
        note: record.note,
        path: dir.snapshot(name).path().to_owned(),
    }
}

/// Returns the record of a snapshot, which must be this key's.
pub(super) fn snapshot_of(
    key: &Key,
    dir: &SandboxDir,
    name: &SnapshotName,
) -> Result<SnapshotRecord, Error> {
    let snapshot = dir.snapshot(name);
    match snapshot.read()? {
        Some(record) if record.is_of(key) => Ok(record),
        Some(_) => Err(Error::Foreign { path: snapshot.path().into() }),
        None => {
            let (task, name) = (key.task().to_string(), name.to_string());
            Err(CopyError::NoSnapshot { task, name }.into())
        }
    }
}

impl Engine {
    /// Makes a sandbox what it was in a snapshot: workspace, home and its own
    /// filesystem. What it is now is lost once that has succeeded; until then
    /// nothing is. Sessions and jobs stay known.
    ///
    /// A call that is given up leaves the sandbox as it was: see
    /// [`Engine::close`].
    #[boxed]
    pub async fn restore(
        &self,
        task: &TaskName,
        name: &SnapshotName,
        busy: WhileBusy,
    ) -> Result<Restored, Error> {
        let (key, name) = (self.key(task), name.clone());
        let work = lock::run_watched(&self.inner, |inner, mut attended| async move {
            let dir = inner.dir(&key);
            let locking = lock::lock_existing(&inner, key.task(), &dir);
            let lock = attended.or_leave(key.task(), locking).await?;
            let snapshot = snapshot_of(&key, &dir, &name)?;
            let record = if dir.record_of(&key)?.is_some() {
                quiesce::copyable(&inner, &key, &dir).await?.0
            } else {
                // Only its snapshots are left, as after a profile was renamed.
                quiesce::refuse_owned(&inner, &key)?;
                let (backend, overrides) = (&snapshot.backend, snapshot.overrides.clone());
                SandboxRecord::new(&key, backend, overrides, Timestamp::now())
            };
            if record.backend != snapshot.backend {
                return Err(CopyError::OtherBackend {
                    task: key.task().to_string(),
                    name: name.to_string(),
                    was: snapshot.backend,
                    now: record.backend,
                }
                .into());
            }
            let still = quiesce::quiesce(&inner, &key, &dir, record, busy).await?;
            remove::forget_handle(&inner, &key);
            let locked = LockedSandbox { key: &key, dir: &dir, lock: &lock };
            let restoring = Box::pin(restore_locked(&inner, locked, still, &name, &snapshot));
            let remarks = attended.or_undo(&inner, key.task(), &dir, restoring).await?;
            drop(lock);
            Ok(Restored { snapshot: describe(&dir, &key, &name, snapshot), remarks })
        });
        work.await
    }
}

/// Replaces a sandbox that stands still by its snapshot, under its lock.
async fn restore_locked(
    engine: &Inner,
    locked: LockedSandbox<'_>,
    still: Quiesced,
    name: &SnapshotName,
    snapshot: &SnapshotRecord,
) -> Result<Vec<String>, Error> {
    let Quiesced { record, backend, .. } = still;
    let kept = locked.dir.snapshot(name);
    let base = snapshot.saved.clone().map(|saved| Base::Saved { dir: kept.system(), saved });
    let mut changing =
        Changing::begin(locked, ChangeVerb::Restore, record.clone(), record, base.is_some())?;
    let counter = CopyCounter::default();
    let place = |name: &str| beside(locked.dir.path(), NEW, name);
    quiesce::copy_trees_each(engine, &*backend, kept.path(), &place, &counter).await?;
    failpoint::reach("restore.files-copied");
    // The old files are deleted next, so the new ones must be on disk.
    settle(locked.dir.path().to_owned()).await?;
    changing.switch(&TREES, Replaced::Go)?;
    let (_, remarks) = changing.settle(engine, base, &engine.progress).await?;
    Ok(remarks)
}
