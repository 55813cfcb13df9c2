//! The lock of a sandbox, work that is undone when its caller goes away, and
//! the recovery of what a process that died had started.

use std::convert::Infallible;
use std::future::Future;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::attach::answers;
use super::remove::{END_TIMEOUT, kept_files};
use super::{Inner, change, fork, reap, remove, snapshot};
use crate::backend::{Backend, Instance, Owner};
use crate::store::{
    InstanceMark, Intent, KeyLock, LockError, SandboxDir, StoreError, copies_ended,
};
use crate::{CopyError, Error, Key, Progress, TaskName};

/// How long to wait for another process that works on the same sandbox.
pub(super) const LOCK_TIMEOUT: Duration = Duration::from_mins(2);

/// The same for a process that copies the sandbox. A copy may take very long, so
/// the caller gets an error that says so.
const COPY_TIMEOUT: Duration = Duration::from_secs(30);

/// How long to wait before looking at who holds the lock.
const LOOK_AFTER: Duration = Duration::from_millis(500);

/// How long a guest may hold the lock after its starter died: a little longer than
/// a guest may take to start.
const ORPHAN_TIMEOUT: Duration = Duration::from_secs(75);

/// How long a copy whose starter died may take to remove what it has made. It goes
/// faster than copying did.
pub(super) const COPIES_END_WITHIN: Duration = Duration::from_mins(1);

/// How long to wait for the lock of a sandbox that is being copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LockWait {
    /// As long as a command may seem to hang.
    Bounded,
    /// The same, but not for a guest whose starter is dead: it is to end anyway.
    Ending,
    /// As long as it takes: the caller makes a copy, too.
    Unbounded,
}

/// A sandbox whose lock is held.
#[derive(Debug, Clone, Copy)]
pub(super) struct LockedSandbox<'a> {
    pub(super) key: &'a Key,
    pub(super) dir: &'a SandboxDir,
    pub(super) lock: &'a KeyLock,
}

/// Waits for a sandbox's lock. What takes long is reported, and in the end named.
pub(super) async fn acquire(
    engine: &Inner,
    task: &TaskName,
    dir: &SandboxDir,
    wait: LockWait,
) -> Result<KeyLock, Error> {
    let (path, begun) = (dir.lock_file(), Instant::now());
    let (mut is_reported, mut orphaned) = (false, None);
    loop {
        match KeyLock::acquire(&path, LOOK_AFTER).await {
            Err(LockError::Busy { .. }) => {}
            other => return Ok(other?),
        }
        let holder = KeyLock::last_holder(&path);
        let is_alive = holder.as_ref().is_some_and(Owner::may_be_alive);
        if is_alive {
            orphaned = None;
        } else {
            let since = *orphaned.get_or_insert_with(Instant::now);
            // A new holder is written to the file a moment after it took the
            // lock, and never on a full disk. Only a caller that ends the
            // sandbox may then take the holder for dead.
            let enough = match (wait, &holder) {
                (LockWait::Ending, Some(_)) => LOOK_AFTER,
                (LockWait::Ending, None) | (_, Some(_)) => ORPHAN_TIMEOUT,
                (_, None) => Duration::MAX,
            };
            if since.elapsed() >= enough {
                end_holders(engine, dir, wait).await?;
            }
        }
        // An intent that cannot be read is for its owner to mend.
        let underway = dir.read_intent().ok().flatten().and_then(|intent| intent.takes_long());
        let waited = begun.elapsed();
        match underway {
            Some(what) if waited >= COPY_TIMEOUT && wait != LockWait::Unbounded => {
                return Err(CopyError::Underway { task: task.to_string(), what }.into());
            }
            Some(what) if !is_reported => {
                is_reported = true;
                engine.progress.report(Progress::Starting { what: format!("waiting: {what}") });
            }
            Some(_) if wait == LockWait::Unbounded => {}
            _ if waited >= LOCK_TIMEOUT => {
                let holder = holder.filter(|_| is_alive).map(|holder| holder.process.pid);
                return Err(LockError::Busy { path, waited: LOCK_TIMEOUT, holder }.into());
            }
            _ => {}
        }
    }
}

/// Ends the guests that may hold a sandbox's lock whose taker is dead: those
/// that it was starting or, where the sandbox is to end, all. Somebody
/// else may do the same at this moment.
async fn end_holders(engine: &Inner, dir: &SandboxDir, wait: LockWait) -> Result<(), Error> {
    let record = dir.read_record()?;
    let starting = dir.read_intent()?.and_then(|intent| intent.starting().map(str::to_owned));
    let recorded = record.as_ref().and_then(|record| record.instance(dir));
    for id in dir.instance_ids()? {
        if wait != LockWait::Ending && starting.as_ref() != Some(&id) {
            continue;
        }
        let known = recorded.clone().filter(|recorded| recorded.id == id);
        let instance = known.unwrap_or_else(|| unlocated(dir, id));
        let mark = InstanceMark::read(&instance.dir)?;
        let backend = reap::backend_for(engine, record.as_ref(), mark.as_ref())?;
        tracing::warn!(instance = instance.id, "its starter is dead and it keeps the lock");
        let ended = backend.end(&instance, END_TIMEOUT).await;
        ended.map_err(Error::backend(backend.name()))?;
    }
    Ok(())
}

/// Locks a sandbox to be used, making its directory if need be. What a
/// process that died had started is dealt with; if that was a removal, the
/// lock went with the sandbox and the next one is a new sandbox's.
pub(super) async fn lock(
    engine: &Inner,
    task: &TaskName,
    dir: &SandboxDir,
) -> Result<KeyLock, Error> {
    loop {
        dir.make()?;
        let lock = match acquire(engine, task, dir, LockWait::Bounded).await {
            // Removed between the two: the next round makes it again.
            Err(error) if is_gone(&error) => continue,
            other => other?,
        };
        dir.sweep_temporaries();
        recover(engine, task, dir).await?;
        if lock.is_current(&dir.lock_file()) {
            return Ok(lock);
        }
    }
}

/// Locks a sandbox that has to be there, to copy it or to change all of it.
pub(super) async fn lock_existing(
    engine: &Inner,
    task: &TaskName,
    dir: &SandboxDir,
) -> Result<KeyLock, Error> {
    let absent = || Error::NoSandbox { task: task.to_string() };
    if !dir.exists() {
        return Err(absent());
    }
    let lock = match acquire(engine, task, dir, LockWait::Unbounded).await {
        Err(error) if is_gone(&error) => return Err(absent()),
        other => other?,
    };
    dir.sweep_temporaries();
    recover(engine, task, dir).await?;
    if lock.is_current(&dir.lock_file()) { Ok(lock) } else { Err(absent()) }
}

/// Returns whether the sandbox's directory went away meanwhile.
pub(super) fn is_gone(error: &Error) -> bool {
    matches!(
        error,
        Error::Lock(LockError::Io { source, .. }) if source.kind() == ErrorKind::NotFound
    )
}

impl SandboxDir {
    /// Returns whether there is nothing of a sandbox in it.
    pub(super) fn is_bare(&self) -> Result<bool, StoreError> {
        Ok(!self.has_intent()
            && self.read_record()?.is_none()
            && self.instance_ids()?.is_empty()
            && kept_files(self).is_empty())
    }

    /// Removes a directory that was made for a lock and got nothing else. Only
    /// for the holder of that lock. What somebody puts there at this moment
    /// stays.
    pub(super) fn remove_if_bare(&self) -> Result<(), StoreError> {
        if !self.is_bare()? {
            return Ok(());
        }
        let removed =
            std::fs::remove_file(self.lock_file()).and_then(|()| std::fs::remove_dir(self.path()));
        match removed {
            Err(error)
                if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::DirectoryNotEmpty) =>
            {
                Err(StoreError::io("remove", self.path(), error))
            }
            _ => Ok(()),
        }
    }
}

/// Tells a piece of work whether somebody still waits for it.
#[derive(Debug)]
pub(super) struct CallerWatch(oneshot::Receiver<Infallible>);

/// Does work in a task of its own. When the caller goes away the work is
/// told, and has the time to undo what it has started: [`super::Engine::close`]
/// waits for that.
pub(super) async fn run_watched<T, Work>(
    engine: &Arc<Inner>,
    work: impl FnOnce(Arc<Inner>, CallerWatch) -> Work,
) -> Result<T, Error>
where
    T: Send + 'static,
    Work: Future<Output = Result<T, Error>> + Send + 'static,
{
    let unfinished = Arc::clone(&engine.unfinished).read_owned().await;
    let (waiting, gone) = oneshot::channel();
    let work = work(Arc::clone(engine), CallerWatch(gone));
    let task = tokio::spawn(async move {
        let done = work.await;
        drop(unfinished);
        done
    });
    let done = task.await;
    drop(waiting);
    match done {
        Ok(done) => done,
        Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
    }
}

impl CallerWatch {
    /// Does a part of the work that may be cut off anywhere.
    pub(super) async fn or_leave<T>(
        &mut self,
        task: &TaskName,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        tokio::select! {
            biased;
            _ = &mut self.0 => Err(CopyError::GivenUp { task: task.to_string() }.into()),
            done = work => done,
        }
    }

    /// Does the part of the work that can be undone, under the sandbox's lock.
    /// If it fails, or nobody waits for it any more, it is undone the way it
    /// would be after a crash.
    pub(super) async fn or_undo<T>(
        &mut self,
        inner: &Inner,
        task: &TaskName,
        dir: &SandboxDir,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let done = self.or_leave(task, work).await;
        if done.is_err()
            && let Err(left) = finish(inner, task, dir).await
        {
            // The intent stays, and with it the duty.
            tracing::warn!(dir = %dir.path().display(), %left, "left for later");
        }
        done
    }
}

/// Deals with the intent another process left. Only for the holder of the
/// key's lock: while another process holds it, the intent is that process's.
pub(super) async fn recover(
    engine: &Inner,
    task: &TaskName,
    dir: &SandboxDir,
) -> Result<(), Error> {
    if let Some(intent) = dir.read_intent()? {
        tracing::info!(?intent, dir = %dir.path().display(), "a process died over this; recovering");
    }
    finish(engine, task, dir).await
}

/// Finishes or undoes the intent on disk, of this process or another one. Only
/// for the holder of the key's lock.
pub(super) async fn finish(engine: &Inner, task: &TaskName, dir: &SandboxDir) -> Result<(), Error> {
    let Some(intent) = dir.read_intent()? else {
        return Ok(());
    };
    for path in intent.copied_into(dir) {
        copies_ended(&path, COPIES_END_WITHIN).await?;
    }
    match intent {
        Intent::Create { instance, backend, .. } => {
            let recorded = dir.read_record()?.and_then(|record| record.instance);
            if recorded.is_none_or(|recorded| recorded.id != instance) {
                let backend = Arc::clone(engine.backend(task, &backend)?);
                let half_made = unlocated(dir, instance);
                backend.remove(&half_made).await.map_err(Error::backend(backend.name()))?;
            }
        }
        // Whether it came up is seen by looking. If it did, the record
        // still names the guest before, so that one has to go.
        Intent::Start { instance } => end_stray_start(engine, task, dir, &instance).await?,
        Intent::Stop { instance, if_idle } => {
            if let Some(backend) = recorded_backend(engine, task, dir)? {
                let stopping = located(dir, instance)?;
                if if_idle && answers(task, &*backend, &stopping).await? {
                    return Ok(dir.clear_intent()?);
                }
                backend
                    .end(&stopping, super::remove::END_TIMEOUT)
                    .await
                    .map_err(Error::backend(backend.name()))?;
            }
        }
        Intent::Remove { files, .. } => {
            return remove::finish_removal(engine, task, dir, files).await;
        }
        Intent::Snapshot { name, backend } => {
            snapshot::finish_snapshot(engine, task, dir, &name, &backend).await?;
        }
        Intent::RemoveSnapshot { name, backend } => {
            snapshot::finish_snapshot_removal(engine, task, dir, &name, &backend).await?;
        }
        Intent::Lend { .. } => {}
        Intent::Fork { backend, instance, .. } => {
            return fork::finish_fork(engine, task, dir, &backend, instance).await;
        }
        Intent::Restore(change) | Intent::Rebuild(change) => {
            change::finish_change(engine, task, dir, *change).await?;
        }
    }
    dir.clear_intent()?;
    Ok(())
}

/// Ends a guest that was started by a process that could not record it.
/// Nothing can have used it: users go by the record.
async fn end_stray_start(
    engine: &Inner,
    task: &TaskName,
    dir: &SandboxDir,
    instance: &str,
) -> Result<(), Error> {
    let Some(backend) = recorded_backend(engine, task, dir)? else {
        return Ok(());
    };
    let recorded = located(dir, instance.to_owned())?;
    if answers(task, &*backend, &recorded).await? {
        // The record was written; only the intent was left.
        return Ok(());
    }
    backend.end(&recorded, super::remove::END_TIMEOUT).await.map_err(Error::backend(backend.name()))
}

fn recorded_backend(
    engine: &Inner,
    task: &TaskName,
    dir: &SandboxDir,
) -> Result<Option<Arc<dyn Backend>>, Error> {
    match dir.read_record()? {
        Some(record) => Ok(Some(Arc::clone(engine.backend(task, &record.backend)?))),
        None => Ok(None),
    }
}

/// Returns an instance with what the record knows of it.
fn located(dir: &SandboxDir, id: String) -> Result<Instance, Error> {
    let recorded = dir.read_record()?.and_then(|record| record.instance(dir));
    Ok(recorded.filter(|instance| instance.id == id).unwrap_or_else(|| unlocated(dir, id)))
}

/// Returns an instance of which only the id is known.
pub(super) fn unlocated(dir: &SandboxDir, id: String) -> Instance {
    Instance { dir: dir.instance_dir(&id), id, locator: serde_json::Value::Null }
}
