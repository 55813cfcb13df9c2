//! Snapshots of a sandbox: made, listed, removed and gone back to.

use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use jiff::Timestamp;

use super::lock::{COPIES_END_WITHIN, LockedSandbox};
use super::quiesce::{CopyCounter, Quiesced, TREES, full_or, settle};
use super::rebuild::{ChangeVerb, Changing, NEW, Replaced, beside};
use super::{Engine, Inner};
use crate::backend::{Backend, Base};
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
        let work = self.inner.run_watched(|inner, mut attended| async move {
            let dir = inner.dir(&key);
            let locking = inner.lock_existing(key.task(), &dir);
            let lock = attended.or_leave(key.task(), locking).await?;
            inner.remove_partial_snapshots(key.task(), &dir).await?;
            if dir.snapshot(&name).exists() {
                let (task, name) = (key.task().to_string(), name.to_string());
                return Err(CopyError::SnapshotExists { task, name }.into());
            }
            let still = inner.quiesce_to_copy(&key, &dir, busy).await?;
            let note = note.as_deref();
            let saving = inner.save(&key, &dir, &still, &name, note);
            let saved = attended.or_undo(&inner, key.task(), &dir, saving).await?;
            drop(lock);
            Ok(describe(&dir, &key, &name, saved))
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
                match self.inner.listed(&dir, &name) {
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
        let lock = self.inner.lock_existing(task, &dir).await?;
        let record = snapshot_of(&key, &dir, name)?;
        // A backend that is not there is noticed before anything is done.
        let backend = Arc::clone(self.inner.backend(task, &record.backend)?);
        let reached = backend.volumes(&key.hash()).await;
        reached.map_err(Error::backend(backend.name()))?;
        let (intended, backend) = (name.to_string(), record.backend.clone());
        dir.write_intent(Intent::RemoveSnapshot { name: intended, backend })?;
        failpoint::reach("remove-snapshot.intent-written");
        self.inner.finish(task, &dir).await?;
        drop(lock);
        Ok(describe(&dir, &key, name, record))
    }
}

impl Inner {
    /// Makes a snapshot of a sandbox that stands still, under its lock.
    async fn save(
        &self,
        key: &Key,
        dir: &SandboxDir,
        still: &Quiesced,
        name: &SnapshotName,
        note: Option<&str>,
    ) -> Result<SnapshotRecord, Error> {
        let Quiesced { record, backend, instance } = still;
        let backend = &**backend;
        let snapshot = dir.snapshot(name);
        let (intended, by) = (name.to_string(), backend.name().to_owned());
        dir.write_intent(Intent::Snapshot { name: intended, backend: by })?;
        failpoint::reach("snapshot.intent-written");
        make_private_dir(snapshot.path())?;
        let counter = CopyCounter::default();
        self.copy_trees(backend, dir.path(), snapshot.path(), &counter).await?;
        failpoint::reach("snapshot.files-copied");
        let mut written = SnapshotRecord::new(key, record, note);
        if let (Some(instance), Some(copies)) = (instance, backend.copies()) {
            make_private_dir(&snapshot.system())?;
            let progress = counter.listen(&self.progress);
            let saved = copies.save(instance, &snapshot.system(), &progress).await;
            let saved = saved.map_err(|error| full_or(snapshot.path(), backend, error))?;
            failpoint::reach("snapshot.saved");
            written.saved = Some(saved);
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
    fn listed(&self, dir: &SandboxDir, name: &SnapshotName) -> Result<Option<Snapshot>, Error> {
        let Some(record) = dir.snapshot(name).read()? else {
            return Ok(None);
        };
        let Ok(task) = record.task.parse::<TaskName>() else {
            return Ok(None);
        };
        let key = self.key(&task);
        Ok(record.is_of(&key).then(|| describe(dir, &key, name, record)))
    }

    /// Removes a snapshot whose maker died before it was complete.
    pub(super) async fn finish_snapshot(
        &self,
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
        self.erase_snapshot(task, dir, &snapshot, backend).await
    }

    /// Removes a snapshot, from whichever step that had reached.
    pub(super) async fn finish_snapshot_removal(
        &self,
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
        self.erase_snapshot(task, dir, &snapshot, backend).await
    }

    /// Removes what there is of a snapshot that is none any more.
    async fn erase_snapshot(
        &self,
        task: &TaskName,
        dir: &SandboxDir,
        snapshot: &SnapshotDir,
        backend: &str,
    ) -> Result<(), Error> {
        let backend = Arc::clone(self.backend(task, backend)?);
        let discarded = backend.discard(&snapshot.system()).await;
        discarded.map_err(Error::backend(backend.name()))?;
        failpoint::reach("remove-snapshot.discarded");
        self.delete(&*backend, snapshot.path()).await?;
        dir.tidy_snapshots();
        Ok(())
    }

    /// Removes what is left of snapshots that were never whole or are being removed.
    /// Only for the holder of the sandbox's lock, after its intent was dealt with.
    /// Returns whether there was anything.
    pub(super) async fn remove_partial_snapshots(
        &self,
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
                    self.erase_snapshot(task, dir, &snapshot, &record.backend).await?;
                }
                None => self.delete_with_any_backend(snapshot.path()).await?,
            }
        }
        dir.tidy_snapshots();
        Ok(!names.is_empty())
    }

    /// Returns the backends that a sandbox's snapshots need to be removed.
    fn snapshot_backends(&self, task: &TaskName, dir: &SandboxDir) -> Result<Vec<Saved>, Error> {
        let mut found = Vec::new();
        for name in dir.snapshot_names()? {
            if let Some(record) = dir.snapshot(&name).read()? {
                found.push((name, Arc::clone(self.backend(task, &record.backend)?)));
            }
        }
        Ok(found)
    }

    /// Checks that a sandbox's snapshots can be removed, and returns which there
    /// are: an engine that is not there is noticed before anything is done.
    pub(super) async fn removable_snapshots(
        &self,
        task: &TaskName,
        dir: &SandboxDir,
    ) -> Result<Vec<SnapshotName>, Error> {
        let mut names = Vec::new();
        let key = self.key(task).hash();
        for (name, backend) in self.snapshot_backends(task, dir)? {
            backend.volumes(&key).await.map_err(Error::backend(backend.name()))?;
            names.push(name);
        }
        Ok(names)
    }

    /// Removes all snapshots of a sandbox that goes with its files.
    pub(super) async fn remove_snapshots(
        &self,
        task: &TaskName,
        dir: &SandboxDir,
    ) -> Result<(), Error> {
        for (name, backend) in self.snapshot_backends(task, dir)? {
            let snapshot = dir.snapshot(&name);
            // As long as the record is there it tells whom to ask.
            let discarded = backend.discard(&snapshot.system()).await;
            discarded.map_err(Error::backend(backend.name()))?;
            snapshot.forget()?;
            self.delete(&*backend, snapshot.path()).await?;
        }
        dir.tidy_snapshots();
        Ok(())
    }
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
        system: record.saved.is_some(),
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
        let work = self.inner.run_watched(|inner, mut attended| async move {
            let dir = inner.dir(&key);
            let locking = inner.lock_existing(key.task(), &dir);
            let lock = attended.or_leave(key.task(), locking).await?;
            let snapshot = snapshot_of(&key, &dir, &name)?;
            let record = if dir.record_of(&key)?.is_some() {
                inner.copyable(&key, &dir).await?.0
            } else {
                // Only its snapshots are left, as after a profile was renamed.
                inner.refuse_owned(&key)?;
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
            let still = inner.quiesce(&key, &dir, record, busy).await?;
            inner.forget_handle(&key);
            let locked = LockedSandbox { key: &key, dir: &dir, lock: &lock };
            let restoring = Box::pin(inner.restore_locked(locked, still, &name, &snapshot));
            let remarks = attended.or_undo(&inner, key.task(), &dir, restoring).await?;
            drop(lock);
            Ok(Restored { snapshot: describe(&dir, &key, &name, snapshot), remarks })
        });
        work.await
    }
}

impl Inner {
    /// Replaces a sandbox that stands still by its snapshot, under its lock.
    async fn restore_locked(
        &self,
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
        self.copy_trees_each(&*backend, kept.path(), &place, &counter).await?;
        failpoint::reach("restore.files-copied");
        // The old files are deleted next, so the new ones must be on disk.
        settle(locked.dir.path().to_owned()).await?;
        changing.switch(&TREES, Replaced::Go)?;
        let (_, remarks) = changing.settle(self, base, &self.progress).await?;
        Ok(remarks)
    }
}
