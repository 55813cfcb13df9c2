//! Forks: new sandboxes that begin as copies of another.

use std::path::PathBuf;
use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use jiff::Timestamp;

use super::create::new_instance_id;
use super::lock::{LockedSandbox, unlocated};
use super::quiesce::{CopyCounter, Quiesced};
use super::rebuild::bind_backend;
use super::snapshot::snapshot_of;
use super::{Engine, Inner, create, lock, quiesce, remove};
use crate::backend::Base;
use crate::sandbox::inherit_mark;
use crate::store::{Intent, KeyLock, SandboxDir, SandboxRecord};
use crate::{
    CopyError, Error, Forked, Key, Overrides, SnapshotName, TaskName, WhileBusy, failpoint,
};

/// What a fork is copied from.
#[derive(Debug)]
struct ForkSource {
    /// Where its trees are.
    trees: PathBuf,
    backend: String,
    overrides: Overrides,
    base: Option<Base>,
}

impl Engine {
    /// Makes the sandbox of task `to` as a copy of another as it is now, or as
    /// it was in a snapshot. Without a snapshot the original is stopped for the copy and
    /// started by its next use. Sessions and jobs of the new sandbox are its own.
    ///
    /// A call that is given up leaves nothing: see [`Engine::close`].
    #[boxed]
    pub async fn fork(
        &self,
        from: &TaskName,
        snapshot: Option<&SnapshotName>,
        to: &TaskName,
        busy: WhileBusy,
    ) -> Result<Forked, Error> {
        let (from, to, name) = (self.key(from), self.key(to), snapshot.cloned());
        let work = lock::run_watched(&self.inner, |inner, mut attended| async move {
            let (source_dir, dir) = (inner.dir(&from), inner.dir(&to));
            // Nothing is made for a fork that has nothing to begin with.
            quiesce::refuse_owned(&inner, &from)?;
            if !source_dir.exists() {
                return Err(Error::NoSandbox { task: from.task().to_string() });
            }
            let locking = lock_both(&inner, &from, &to);
            let (source_lock, lock) = attended.or_leave(to.task(), locking).await?;
            let source = match &name {
                Some(name) => saved_source(&from, &source_dir, name).map(|source| (source, None)),
                None => quiesce_source(&inner, &from, &source_dir, busy).await,
            };
            let (source, still) = match source {
                Ok(source) => source,
                Err(error) => {
                    dir.remove_if_bare()?;
                    return Err(error);
                }
            };
            let locked = LockedSandbox { key: &to, dir: &dir, lock: &lock };
            let copying = Box::pin(copy_fork(&inner, &from, locked, source, name.is_none()));
            let forked = attended.or_undo(&inner, to.task(), &dir, copying).await;
            if name.is_none() {
                lock::finish(&inner, from.task(), &source_dir).await?;
            }
            if forked.is_err() {
                if let Some(still) = still {
                    let source = LockedSandbox { key: &from, dir: &source_dir, lock: &source_lock };
                    still.put_back(&inner, source).await;
                }
                dir.remove_if_bare()?;
            }
            drop((source_lock, lock));
            forked
        });
        work.await
    }
}

/// Locks the sandbox to copy and the one to make of it, which must not be
/// there. Locks are taken in the order of their paths, so that two processes
/// never wait for each other.
async fn lock_both(engine: &Inner, from: &Key, to: &Key) -> Result<(KeyLock, KeyLock), Error> {
    let (source, target) = (engine.dir(from), engine.dir(to));
    let exists = || Error::from(CopyError::SandboxExists { task: to.task().to_string() });
    if from == to || !target.is_bare()? && !target.has_intent() {
        return Err(exists());
    }
    let (source_lock, target_lock) = if source.path() < target.path() {
        let source_lock = lock::lock_existing(engine, from.task(), &source).await?;
        (source_lock, lock::lock(engine, to.task(), &target).await?)
    } else {
        let target_lock = lock::lock(engine, to.task(), &target).await?;
        match lock::lock_existing(engine, from.task(), &source).await {
            Ok(source_lock) => (source_lock, target_lock),
            Err(error) => {
                target.remove_if_bare()?;
                return Err(error);
            }
        }
    };
    if target.is_bare()? { Ok((source_lock, target_lock)) } else { Err(exists()) }
}

async fn quiesce_source(
    engine: &Inner,
    key: &Key,
    dir: &SandboxDir,
    busy: WhileBusy,
) -> Result<(ForkSource, Option<Quiesced>), Error> {
    let still = quiesce::quiesce_to_copy(engine, key, dir, busy).await?;
    let source = ForkSource {
        trees: dir.path().to_owned(),
        backend: still.record.backend.clone(),
        overrides: still.record.overrides.clone(),
        base: still.instance.clone().map(Base::Instance),
    };
    Ok((source, Some(still)))
}

/// Makes a sandbox as a copy of another, under both locks.
async fn copy_fork(
    engine: &Inner,
    from: &Key,
    locked: LockedSandbox<'_>,
    source: ForkSource,
    lends: bool,
) -> Result<Forked, Error> {
    let LockedSandbox { key, dir, .. } = locked;
    let task = key.task();
    let backend = Arc::clone(engine.backend(task, &source.backend)?);
    let mut record = SandboxRecord::new(key, backend.name(), source.overrides, Timestamp::now());
    bind_backend(engine, &mut record)?;
    let instance = source.base.is_some().then(|| new_instance_id(dir)).transpose()?;
    dir.write_intent(Intent::Fork {
        from: from.task().to_string(),
        backend: backend.name().to_owned(),
        instance: instance.clone(),
    })?;
    failpoint::reach("fork.intent-written");
    if lends {
        engine.dir(from).write_intent(Intent::Lend { to: task.to_string() })?;
    }
    let mut remarks = Vec::new();
    if let Some(mount) = &record.overrides.mount {
        let mount = mount.display();
        remarks.push(format!("both have {mount} for their workspace: it was not copied"));
    }
    let counter = CopyCounter::default();
    quiesce::copy_trees(engine, &*backend, &source.trees, dir.path(), &counter).await?;
    inherit_mark(&engine.dir(from), dir)?;
    failpoint::reach("fork.files-copied");
    if let Some(id) = instance {
        record.generation += 1;
        let progress = counter.listen(&engine.progress);
        let made = create::make(engine, locked, &mut record, id, source.base, &progress).await;
        remarks.extend(made.map_err(|unmade| unmade.error)?);
        failpoint::reach("fork.instance-made");
    }
    dir.write_record(&record)?;
    failpoint::reach("fork.record-written");
    dir.clear_intent()?;
    let copied = counter.total();
    Ok(Forked {
        task: task.clone(),
        backend: record.backend,
        files: copied.files,
        bytes: copied.bytes,
        remarks,
    })
}

/// Removes a fork whose maker died, unless its record was written: without the
/// record it is not a sandbox.
pub(super) async fn finish_fork(
    engine: &Inner,
    task: &TaskName,
    dir: &SandboxDir,
    backend: &str,
    instance: Option<String>,
) -> Result<(), Error> {
    if dir.read_record()?.is_some() {
        return Ok(dir.clear_intent()?);
    }
    let backend = Arc::clone(engine.backend(task, backend)?);
    if let Some(id) = instance {
        let half_made = unlocated(dir, id);
        backend.remove(&half_made).await.map_err(Error::backend(backend.name()))?;
    }
    // The intent goes with the directory.
    if let Some(aside) = dir.move_aside()? {
        remove::delete(&*backend, &aside).await?;
    }
    Ok(())
}

/// Returns a snapshot to be copied.
fn saved_source(key: &Key, dir: &SandboxDir, name: &SnapshotName) -> Result<ForkSource, Error> {
    let record = snapshot_of(key, dir, name)?;
    let snapshot = dir.snapshot(name);
    let base = record.saved.map(|saved| Base::Saved { dir: snapshot.system(), saved });
    Ok(ForkSource {
        trees: snapshot.path().to_owned(),
        backend: record.backend,
        overrides: record.overrides,
        base,
    })
}
