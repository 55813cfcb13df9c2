//! End the processes of a sandbox: a session's, all of them, or the sandbox itself.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use vestal_wire::{CallReply, CallRequest, FaultCode, HostRole, JobInfo};

use super::attach::{greet, greet_existing};
use super::create::millis;
use super::lock::{LockWait, is_gone, unlocated};
use super::rebuild::UNUSABLE_STATE;
use super::{Engine, Inner, lock, reap, snapshot};
use crate::backend::{Backend, BackendError, Instance, InstanceState, KeptVolumes};
use crate::client::CallError;
use crate::store::{InstanceMark, Intent, SandboxDir, SandboxRecord, StoreError, remove_tree};
use crate::{Error, Key, Overrides, SnapshotName, TaskName, failpoint, job};

/// How long a killed instance may take to be gone.
pub(super) const END_TIMEOUT: Duration = Duration::from_secs(10);

/// How often a guest is asked to end if it is idle, where the answer is lost.
const ASKED_TO_END: u32 = 3;

/// What a stop is allowed to interrupt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopScope {
    /// Whatever runs.
    Anything,
    /// Nothing: a busy sandbox is left alone.
    Nothing,
}

impl Engine {
    /// Stops a sandbox. Running jobs get SIGTERM and, after the configured
    /// grace, SIGKILL. Returns whether it ran.
    #[boxed]
    pub async fn stop(&self, task: &TaskName) -> Result<bool, Error> {
        let key = self.inner.key(task);
        let dir = self.inner.dir(&key);
        if !dir.exists() {
            return Err(Error::NoSandbox { task: task.to_string() });
        }
        let lock = lock::acquire(&self.inner, task, &dir, LockWait::Ending).await?;
        lock::recover(&self.inner, task, &dir).await?;
        let record =
            dir.record_of(&key)?.ok_or_else(|| Error::NoSandbox { task: task.to_string() })?;
        let backend = Arc::clone(self.inner.backend(task, &record.backend)?);
        let Some(instance) = record.instance(&dir) else {
            return Ok(false);
        };
        let state = backend.state(&instance).await.map_err(Error::backend(backend.name()))?;
        let instance = match state {
            InstanceState::Running => instance,
            // It has to go on to be able to end in order.
            InstanceState::Paused => {
                let locator = backend.locate(&instance).await;
                let locator = locator.map_err(Error::backend(backend.name()))?;
                Instance { locator, ..instance }
            }
            _ => return Ok(false),
        };
        stop_locked(&self.inner, task, &dir, &*backend, &instance, StopScope::Anything).await?;
        drop(lock);
        // The next caller learns that it was stopped.
        let known = self.inner.handles().get(&key).cloned();
        if let Some(handle) = known {
            handle.instance_ended(&instance.id);
        }
        Ok(true)
    }
}

/// Stops an instance, under the lock.
pub(super) async fn stop_locked(
    engine: &Inner,
    task: &TaskName,
    dir: &SandboxDir,
    backend: &dyn Backend,
    instance: &Instance,
    interrupt: StopScope,
) -> Result<(), Error> {
    let if_idle = interrupt == StopScope::Nothing;
    dir.write_intent_if_room(Intent::Stop { instance: instance.id.clone(), if_idle })?;
    failpoint::reach("stop.intent-written");
    if let Err(error) = ask_to_end(engine, task, backend, instance, interrupt).await {
        dir.clear_intent()?;
        return Err(error);
    }
    failpoint::reach("stop.guest-asked");
    backend.end(instance, END_TIMEOUT).await.map_err(Error::backend(backend.name()))?;
    failpoint::reach("stop.ended");
    dir.clear_intent()?;
    failpoint::reach("stop.intent-cleared");
    Ok(())
}

/// Asks a guest to end in order and waits until it has. A guest that does
/// not answer is not an error, as long as that tells that it is not at work: the
/// backend ends it next.
pub(super) async fn ask_to_end(
    engine: &Inner,
    task: &TaskName,
    backend: &dyn Backend,
    instance: &Instance,
    interrupt: StopScope,
) -> Result<(), Error> {
    let grace = engine.stop_grace()?;
    let if_idle = interrupt == StopScope::Nothing;
    for _ in 0..ASKED_TO_END {
        let connection = match greet(backend, instance, HostRole::Observer).await {
            Ok(connection) => connection,
            // Whether it is idle is for the guest to say, and it may be alive.
            Err(error) if if_idle && error.leaves_guest_unknown(backend, instance) => {
                return Err(error.into_error(task.as_str(), backend, instance));
            }
            Err(_) => return Ok(()),
        };
        let request = CallRequest::Shutdown { grace_ms: millis(grace), if_idle };
        // Beyond the grace the guest only kills and reaps.
        let within = grace + END_TIMEOUT;
        match tokio::time::timeout(within, connection.call(request)).await {
            Ok(Ok(CallReply::Done)) => {
                // The guest closes the connection when it exits.
                if tokio::time::timeout(END_TIMEOUT, connection.closed()).await.is_err() {
                    tracing::warn!(
                        instance = instance.id,
                        "the guest announced its end and still runs"
                    );
                }
                return Ok(());
            }
            Ok(Err(CallError::Fault(fault))) if fault.code == FaultCode::Busy => {
                return Err(Error::Busy { task: task.to_string(), reason: fault.message });
            }
            // The lost answer may have been "busy": a guest that is still there
            // is asked again.
            Ok(Err(CallError::Lost { reason, .. })) if if_idle => {
                tracing::debug!(instance = instance.id, %reason, "asking to end again");
            }
            Ok(Ok(_) | Err(_)) | Err(_) => return Ok(()),
        }
    }
    let reason = "the connection was lost each time it was asked to end".to_owned();
    Err(Error::Unresponsive { task: task.to_string(), reason })
}

impl Engine {
    /// Ends a shell session of a task's sandbox: kills every process of its
    /// jobs, also of those that a process started which is gone, and forgets
    /// its state. Returns the jobs that were killed.
    ///
    /// Nothing is made or started for it: where there is no sandbox, or it does
    /// not run, there are no jobs. A sandbox that runs and does not answer is
    /// an error, for nobody can tell what runs in it.
    #[boxed]
    pub async fn end_session(&self, task: &TaskName, session: &str) -> Result<Vec<JobInfo>, Error> {
        let key = self.inner.key(task);
        let dir = self.inner.dir(&key);
        let Some(record) = dir.record_of(&key)? else {
            return Ok(Vec::new());
        };
        let Some(instance) = record.instance(&dir) else {
            return Ok(Vec::new());
        };
        let backend = self.inner.backend(task, &record.backend)?;
        // A sandbox is not kept from idling out by what is cleaned up in it.
        match greet_existing(task, &**backend, &instance, HostRole::Observer).await {
            Ok(connection) => Ok(job::end_session(&connection, session).await?),
            Err(Error::Stopped { .. }) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }
}

/// What happens to a sandbox's workspace and home.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilesOnRemoval {
    /// They stay for the next instance.
    Keep,
    /// They go too.
    Remove,
}

/// What a removal did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removal {
    /// Instances removed.
    pub instances: usize,
    /// Directories of the sandbox's files that were kept.
    pub kept: Vec<PathBuf>,
    /// Files of the sandbox that its backend keeps, by the backend's names.
    pub kept_volumes: Vec<String>,
    /// Snapshots that were removed with the files; those that were kept are in
    /// one of the directories.
    pub snapshots: Vec<SnapshotName>,
}

impl Removal {
    /// Returns the removal of what has no instances.
    fn of_files(kept: Vec<PathBuf>, kept_volumes: Vec<String>) -> Self {
        Self { instances: 0, kept, kept_volumes, snapshots: Vec::new() }
    }
}

impl Engine {
    /// Removes a sandbox's instances, and its files if asked.
    #[boxed]
    pub async fn remove(&self, task: &TaskName, files: FilesOnRemoval) -> Result<Removal, Error> {
        let key = self.inner.key(task);
        let dir = self.inner.dir(&key);
        let absent = || Error::NoSandbox { task: task.to_string() };
        if !dir.exists() {
            let kept_volumes = volumes_without_sandbox(&self.inner, &key, files).await?;
            let kept_volumes = kept_volumes.ok_or_else(absent)?;
            return Ok(Removal::of_files(Vec::new(), kept_volumes));
        }
        if files == FilesOnRemoval::Remove {
            self.bring_back_at_last(task).await?;
        }
        let lock = match lock::acquire(&self.inner, task, &dir, LockWait::Ending).await {
            Err(error) if is_gone(&error) => return Err(absent()),
            other => other?,
        };
        lock::recover(&self.inner, task, &dir).await?;
        if !lock.is_current(&dir.lock_file()) {
            // It was this very removal that a process died over.
            return Ok(Removal::of_files(Vec::new(), Vec::new()));
        }
        if dir.record_of(&key)?.is_none() && dir.instance_ids()?.is_empty() {
            let volumes = volumes_without_sandbox(&self.inner, &key, files).await?;
            let snapshots = match files {
                FilesOnRemoval::Keep => Vec::new(),
                FilesOnRemoval::Remove => dir.snapshot_names()?,
            };
            let kept = files_without_sandbox(&self.inner, task, &dir, files).await?;
            if volumes.is_none() && kept.is_none() {
                return Err(absent());
            }
            let (kept, kept_volumes) = (kept.unwrap_or_default(), volumes.unwrap_or_default());
            return Ok(Removal { snapshots, ..Removal::of_files(kept, kept_volumes) });
        }
        forget_handle(&self.inner, &key);
        let removal = remove_locked(&self.inner, task, &dir, files).await?;
        drop(lock);
        Ok(removal)
    }
}

/// Deals with a directory that has no sandbox any more: one whose instances
/// all ended with their processes leaves its files there. Returns those that
/// are kept; nothing when there were none.
async fn files_without_sandbox(
    engine: &Inner,
    task: &TaskName,
    dir: &SandboxDir,
    files: FilesOnRemoval,
) -> Result<Option<Vec<PathBuf>>, Error> {
    let kept = kept_files(dir);
    if kept.is_empty() {
        dir.remove()?;
        return Ok(None);
    }
    if files == FilesOnRemoval::Keep {
        return Ok(Some(kept));
    }
    snapshot::remove_snapshots(engine, task, dir).await?;
    for path in &kept {
        delete_with_any_backend(engine, path).await?;
    }
    if let Some(aside) = dir.move_aside()? {
        delete_with_any_backend(engine, &aside).await?;
    }
    Ok(Some(Vec::new()))
}

/// Deletes a tree that any backend may have written to. Each backend that can
/// delete files is tried in turn.
pub(super) async fn delete_with_any_backend(engine: &Inner, path: &Path) -> Result<(), Error> {
    let mut result = remove_tree(path).map_err(Error::from);
    for backend in engine.backends.iter() {
        if result.is_ok() {
            break;
        }
        if backend.host_files().is_some() {
            result = delete(&**backend, path).await;
        }
    }
    result
}

/// The same for what a backend keeps. Without a record only the configured
/// one can be meant, or the only one there is.
async fn volumes_without_sandbox(
    engine: &Inner,
    key: &Key,
    files: FilesOnRemoval,
) -> Result<Option<Vec<String>>, Error> {
    let named = engine.named_backend(&Overrides::default())?;
    let found = match named.as_deref() {
        Some(name) => engine.backends.named(name),
        None => engine.backends.only(),
    };
    let Some(backend) = found else { return Ok(None) };
    let failed = || Error::backend(backend.name());
    let volumes = backend.volumes(&key.hash()).await.map_err(failed())?;
    if volumes.is_empty() {
        return Ok(None);
    }
    if files == FilesOnRemoval::Keep {
        return Ok(Some(volumes));
    }
    backend.remove_volumes(&key.hash(), KeptVolumes::None).await.map_err(failed())?;
    Ok(Some(Vec::new()))
}

/// Removes all instances of a sandbox, under the lock.
pub(super) async fn remove_locked(
    engine: &Inner,
    task: &TaskName,
    dir: &SandboxDir,
    files: FilesOnRemoval,
) -> Result<Removal, Error> {
    let instances = dir.instance_ids()?.len();
    let record = dir.read_record()?;
    // Asked in any case: an engine that is not there is noticed before the
    // intent is written, which would otherwise be carried out some day when
    // nobody expects it any more.
    let volumes = volumes(engine, record.as_ref()).await?;
    let (kept, kept_volumes, snapshots) = match files {
        FilesOnRemoval::Keep => (kept_files(dir), volumes, Vec::new()),
        FilesOnRemoval::Remove => {
            let snapshots = snapshot::removable_snapshots(engine, task, dir).await?;
            (Vec::new(), Vec::new(), snapshots)
        }
    };
    let instance = record.and_then(|record| record.instance).map(|instance| instance.id);
    let files = files == FilesOnRemoval::Remove;
    dir.write_intent_if_room(Intent::Remove { instance, files, problem: None })?;
    failpoint::reach("remove.intent-written");
    finish_removal(engine, task, dir, files).await?;
    Ok(Removal { instances, kept, kept_volumes, snapshots })
}

/// Carries out a removal, from whichever step it had reached. One that cannot be finished stays
/// on record, with the reason.
pub(super) async fn finish_removal(
    engine: &Inner,
    task: &TaskName,
    dir: &SandboxDir,
    files: bool,
) -> Result<(), Error> {
    let removed = removal_steps(engine, task, dir, files).await;
    if let Err(error) = &removed
        && dir.exists()
    {
        let problem = Some(error.to_string());
        let intent = Intent::Remove { instance: None, files, problem };
        if let Err(error) = dir.write_intent_if_room(intent) {
            tracing::warn!(%error, "the reason is not on record");
        }
    }
    removed
}

async fn removal_steps(
    engine: &Inner,
    task: &TaskName,
    dir: &SandboxDir,
    files: bool,
) -> Result<(), Error> {
    let record = dir.read_record()?;
    let recorded = record.as_ref().and_then(|record| record.instance(dir));
    for id in dir.instance_ids()? {
        let instance = recorded
            .clone()
            .filter(|recorded| recorded.id == id)
            .unwrap_or_else(|| unlocated(dir, id));
        let mark = InstanceMark::read(&instance.dir)?;
        let backend = reap::backend_for(engine, record.as_ref(), mark.as_ref())?;
        ask_to_end(engine, task, &*backend, &instance, StopScope::Anything).await?;
        failpoint::reach("remove.ended");
        backend.remove(&instance).await.map_err(Error::backend(backend.name()))?;
    }
    let backend = reap::backend_for(engine, record.as_ref(), None)?;
    for name in ["state", UNUSABLE_STATE] {
        delete(&*backend, &dir.path().join(name)).await?;
    }
    failpoint::reach("remove.instance-removed");
    if let Some(record) = &record {
        let kept = if files { KeptVolumes::None } else { KeptVolumes::Files };
        let removed = backend.remove_volumes(&record.key, kept).await;
        removed.map_err(Error::backend(backend.name()))?;
    } else if files {
        volumes_without_sandbox(engine, &engine.key(task), FilesOnRemoval::Remove).await?;
    }
    let keeps = !files
        && (!kept_files(dir).is_empty() || !volumes(engine, record.as_ref()).await?.is_empty());
    if !keeps {
        snapshot::remove_snapshots(engine, task, dir).await?;
        failpoint::reach("remove.snapshots-removed");
        // As long as some of them cannot be deleted the sandbox is listed, with its intent.
        for path in kept_files(dir) {
            delete(&*backend, &path).await?;
        }
        // The intent goes with the directory.
        let aside = dir.move_aside()?;
        failpoint::reach("remove.files-removed");
        if let Some(aside) = aside {
            delete(&*backend, &aside).await?;
        }
        return Ok(());
    }
    if let Some(mut record) = record {
        record.instance = None;
        match dir.write_record(&record) {
            // The record names an instance that is gone, which is seen.
            Err(error) if error.is_full() => tracing::warn!(%error, "the record is old"),
            other => other?,
        }
    }
    failpoint::reach("remove.record-written");
    dir.clear_intent()?;
    Ok(())
}

/// Returns the sandbox's files that its backend keeps.
async fn volumes(engine: &Inner, record: Option<&SandboxRecord>) -> Result<Vec<String>, Error> {
    let Some(record) = record else {
        return Ok(Vec::new());
    };
    let backend = reap::backend_for(engine, Some(record), None)?;
    backend.volumes(&record.key).await.map_err(Error::backend(backend.name()))
}

/// Deletes a tree that instances may have written to. What this user may
/// not delete is deleted from inside an instance.
pub(super) async fn delete(backend: &dyn Backend, path: &Path) -> Result<(), Error> {
    let refused = match remove_tree(path) {
        Err(StoreError::Io { source, .. })
            if source.kind() == std::io::ErrorKind::PermissionDenied =>
        {
            source
        }
        other => return Ok(other?),
    };
    // What root may not delete, root of an instance may not either.
    if !rustix::process::geteuid().is_root() {
        match backend.erase(path).await {
            Ok(()) => return Ok(remove_tree(path)?),
            Err(error) => tracing::debug!(%error, "cannot be erased from inside an instance"),
        }
    }
    let shown = path.display();
    Err(Error::backend(backend.name())(BackendError::Advised {
        problem: format!("cannot delete everything in {shown}: {refused}"),
        advice: format!(
            "a file there may be immutable (`lsattr -R {shown}`, `chattr -R -i {shown}`) or on a \
             read-only filesystem; correct that and repeat"
        ),
    }))
}

/// Lets go of this process's connection to a sandbox.
pub(super) fn forget_handle(engine: &Inner, key: &Key) {
    engine.handles().remove(key);
}

/// Returns the directories of the sandbox's own files that exist, and of copies
/// of them.
pub(super) fn kept_files(dir: &SandboxDir) -> Vec<PathBuf> {
    ["workspace", "home", "snapshots"]
        .iter()
        .map(|name| dir.path().join(name))
        .filter(|path| path.is_dir())
        .collect()
}

#[cfg(test)]
#[path = "remove_tests.rs"]
mod tests;
