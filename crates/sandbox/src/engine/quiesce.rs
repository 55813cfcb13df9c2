//! Keep a sandbox still while it is copied, and copy its directories.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use vestal_wire::{HostRole, JobInfo, JobState};

use super::attach::{GREETING_SOON, greet};
use super::list::in_memory;
use super::lock::{LockedSandbox, unlocated};
use super::remove::StopScope;
use super::{Inner, bring_up, disk, reap, remove};
use crate::backend::{
    Backend, BackendError, Confinement, CopiedPart, CopyTotals, Instance, InstanceState,
};
use crate::job::{self, JobFilter};
use crate::store::{InstanceMark, SandboxDir, SandboxRecord};
use crate::{CopyError, Error, Key, Overrides, Progress, ProgressSink, WhileBusy};

/// Most jobs that are looked at for processes they left behind.
const MAX_LISTED: u32 = 1000;

/// The trees of a sandbox's files in its directory.
pub(super) const TREES: [&str; 2] = ["workspace", "home"];

/// A sandbox of which nothing runs, for as long as its lock is held.
#[derive(Debug)]
pub(super) struct Quiesced {
    pub(super) record: SandboxRecord,
    pub(super) backend: Arc<dyn Backend>,
    /// Its instance, if it has one that could be started.
    pub(super) instance: Option<Instance>,
    /// Whether it ran before.
    pub(super) ran: bool,
}

impl Quiesced {
    /// Starts a sandbox again that ran before it was to be copied and was not. It was stopped for
    /// nothing. A failure is only logged: its next use starts it, or says why not.
    pub(super) async fn put_back(self, engine: &Inner, locked: LockedSandbox<'_>) {
        if !self.ran {
            return;
        }
        let LockedSandbox { key, dir, lock } = locked;
        let asked = Overrides::default();
        if let Err(error) = bring_up::attach_locked(engine, key, dir, lock, &asked).await {
            tracing::warn!(task = %key.task(), %error, "stopped for the copy, and not started again");
        }
    }
}

/// Refuses sandboxes that end with a process: no later process could use a
/// copy of them.
pub(super) fn refuse_owned(engine: &Inner, key: &Key) -> Result<(), Error> {
    if engine.across_processes()? {
        return Ok(());
    }
    Err(CopyError::Owned { task: key.task().to_string() }.into())
}

/// Returns the record of a sandbox that has files of its own, and its
/// backend.
pub(super) async fn copyable(
    engine: &Inner,
    key: &Key,
    dir: &SandboxDir,
) -> Result<(SandboxRecord, Arc<dyn Backend>), Error> {
    refuse_owned(engine, key)?;
    let task = || key.task().to_string();
    let record = dir.record_of(key)?.ok_or_else(|| Error::NoSandbox { task: task() })?;
    let backend = Arc::clone(engine.backend(key.task(), &record.backend)?);
    if backend.copies().is_none() {
        let (task, backend_name) = (task(), record.backend.clone());
        return Err(match backend.confinement() {
            Confinement::None => CopyError::HostsFiles { task, backend: backend_name },
            Confinement::Contained | Confinement::Remote => {
                CopyError::Unsupported { task, backend: backend_name }
            }
        }
        .into());
    }
    let volumes = backend.volumes(&record.key).await;
    let volumes = volumes.map_err(Error::backend(backend.name()))?;
    if !volumes.is_empty() && !copies_files(&*backend) {
        return Err(CopyError::InVolumes { task: task(), volumes }.into());
    }
    Ok((record, backend))
}

/// Returns whether copies hold the files that the backend itself keeps.
pub(super) fn copies_files(backend: &dyn Backend) -> bool {
    backend.copies().is_some_and(|copies| copies.copied_part() == CopiedPart::Files)
}

/// Makes a sandbox stand still whose files are to be copied, under its lock.
pub(super) async fn quiesce_to_copy(
    engine: &Inner,
    key: &Key,
    dir: &SandboxDir,
    busy: WhileBusy,
) -> Result<Quiesced, Error> {
    let (record, backend) = copyable(engine, key, dir).await?;
    if record.instance.as_ref().is_some_and(|instance| in_memory(&instance.spec)) {
        return Err(CopyError::InMemory { task: key.task().to_string() }.into());
    }
    disk::check_room(copied_trees(&record, dir, &*backend), dir.path().to_owned()).await?;
    quiesce(engine, key, dir, record, busy).await
}

/// Returns the directories that a copy of a sandbox copies on this machine.
fn copied_trees(record: &SandboxRecord, dir: &SandboxDir, backend: &dyn Backend) -> Vec<PathBuf> {
    let mut trees = Vec::new();
    if backend.host_files().is_some() {
        trees.extend(TREES.map(|name| dir.path().join(name)));
    }
    // Where the system is in the instance's directory.
    if backend.declaration().adopt_copy.is_some()
        && let Some(instance) = record.instance(dir)
    {
        trees.push(instance.dir.join("layers"));
    }
    trees
}

/// Makes a sandbox stand still, under its lock.
pub(super) async fn quiesce(
    engine: &Inner,
    key: &Key,
    dir: &SandboxDir,
    record: SandboxRecord,
    busy: WhileBusy,
) -> Result<Quiesced, Error> {
    let task = key.task();
    let backend = Arc::clone(engine.backend(task, &record.backend)?);
    let failed = || Error::backend(backend.name());
    refuse_others(engine, key, dir, &record).await?;
    let Some(mut instance) = record.instance(dir) else {
        return Ok(Quiesced { record, backend, instance: None, ran: false });
    };
    let state = backend.state(&instance).await.map_err(failed())?;
    let runs = match state {
        // Its files can be copied all the same where they are none of it.
        InstanceState::Absent if copies_files(&*backend) => false,
        InstanceState::Absent | InstanceState::Broken { .. } => {
            return Ok(Quiesced { record, backend, instance: None, ran: false });
        }
        InstanceState::Stopped { .. } => false,
        InstanceState::Running => true,
        // It has to go on to be able to end in order.
        InstanceState::Paused => {
            instance.locator = backend.locate(&instance).await.map_err(failed())?;
            true
        }
    };
    if runs {
        let interrupt = match busy {
            WhileBusy::Refuse => StopScope::Nothing,
            WhileBusy::Stop => StopScope::Anything,
        };
        report_processes(engine, &*backend, &instance, interrupt).await;
        remove::stop_locked(engine, task, dir, &*backend, &instance, interrupt).await?;
    }
    Ok(Quiesced { record, backend, instance: Some(instance), ran: runs })
}

/// Reports the processes that ended jobs left behind. They keep nobody from
/// stopping the sandbox and end with it, so this is announced before. A guest that
/// does not tell at once has nothing to tell.
async fn report_processes(
    engine: &Inner,
    backend: &dyn Backend,
    instance: &Instance,
    interrupt: StopScope,
) {
    let listed = async {
        let connection = greet(backend, instance, HostRole::Observer).await.ok()?;
        job::jobs(&connection, JobFilter::Running, MAX_LISTED).await.ok()
    };
    let listed = tokio::time::timeout(GREETING_SOON, listed).await;
    let jobs = listed.ok().flatten().map(|list| list.jobs).unwrap_or_default();
    let has_ended = |job: &JobInfo| matches!(job.state, JobState::Ended(_));
    // With a job that runs nothing is stopped, and nothing ended.
    if interrupt == StopScope::Nothing && !jobs.iter().all(has_ended) {
        return;
    }
    let left = jobs.into_iter().filter(|job| has_ended(job) && job.processes > 0);
    let (mut processes, mut commands) = (0, Vec::new());
    for job in left {
        processes += u64::from(job.processes);
        commands.push(job.summary);
    }
    if processes > 0 {
        engine.progress.report(Progress::EndingProcesses { processes, commands });
    }
}

/// Refuses a sandbox whose files an instance uses that belongs to another
/// process: it is not ours to stop.
async fn refuse_others(
    engine: &Inner,
    key: &Key,
    dir: &SandboxDir,
    record: &SandboxRecord,
) -> Result<(), Error> {
    let recorded = record.instance.as_ref().map(|instance| &*instance.id);
    for id in dir.instance_ids()? {
        let other = unlocated(dir, id);
        let mark = InstanceMark::read(&other.dir)?;
        let Some(owner) = mark.as_ref().and_then(|mark| mark.owner.as_ref()) else {
            continue;
        };
        if recorded == Some(&*other.id) {
            continue;
        }
        let backend = reap::backend_for(engine, Some(record), mark.as_ref())?;
        let state = backend.state(&other).await.map_err(Error::backend(backend.name()))?;
        if matches!(state, InstanceState::Running | InstanceState::Paused) {
            return Err(Error::Busy {
                task: key.task().to_string(),
                reason: format!(
                    "process {} has an instance of its own that works on the same files",
                    owner.process.pid
                ),
            });
        }
    }
    Ok(())
}

/// Copies those trees of a sandbox's files that are there.
pub(super) async fn copy_trees(
    engine: &Inner,
    backend: &dyn Backend,
    from: &Path,
    to: &Path,
    counter: &CopyCounter,
) -> Result<(), Error> {
    copy_trees_each(engine, backend, from, &|name| to.join(name), counter).await
}

/// The same, each tree to a place of its own. A sandbox that has no files in
/// directories of this machine has no such trees.
pub(super) async fn copy_trees_each(
    engine: &Inner,
    backend: &dyn Backend,
    from: &Path,
    place: &(dyn Fn(&str) -> PathBuf + Sync),
    counter: &CopyCounter,
) -> Result<(), Error> {
    let Some(files) = backend.host_files() else {
        return Ok(());
    };
    for name in TREES {
        let (source, target) = (from.join(name), place(name));
        if is_dir(&source) {
            let copied = files.copy(&source, &target, &engine.progress).await;
            counter.add(copied.map_err(|error| full_or(&target, backend, error))?);
        }
    }
    Ok(())
}

/// Returns whether there is a directory itself, not a link to one.
pub(super) fn is_dir(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir())
}

/// Returns what went wrong with a copy, a full disk by its name.
pub(super) fn full_or(to: &Path, backend: &dyn Backend, error: BackendError) -> Error {
    if error.is_out_of_space() {
        return CopyError::NoSpace { path: to.into(), problem: error.to_string() }.into();
    }
    Error::backend(backend.name())(error)
}

/// Makes sure that what was written below `path` outlives a power cut.
pub(super) async fn settle(path: PathBuf) -> Result<(), Error> {
    let shown = path.clone();
    let sync = move || -> std::io::Result<()> {
        let dir = std::fs::File::open(&path)?;
        rustix::fs::syncfs(&dir)?;
        Ok(())
    };
    let synced = tokio::task::spawn_blocking(sync).await;
    let synced = synced.unwrap_or_else(|error| Err(std::io::Error::other(error)));
    Ok(synced.map_err(|error| crate::store::StoreError::io("write out", shown, error))?)
}

/// Counts what is copied, also where only the progress tells.
#[derive(Debug, Clone, Default)]
pub(super) struct CopyCounter(Arc<Mutex<CopyCount>>);

#[derive(Debug, Default)]
struct CopyCount {
    done: CopyTotals,
    /// What is being copied, and how far that is.
    current: Option<(String, CopyTotals)>,
}

impl CopyCount {
    fn finish_current(&mut self) {
        if let Some((_, copied)) = self.current.take() {
            self.add(copied);
        }
    }

    fn add(&mut self, copied: CopyTotals) {
        self.done.files = self.done.files.saturating_add(copied.files);
        self.done.bytes = self.done.bytes.saturating_add(copied.bytes);
    }
}

impl CopyCounter {
    /// Adds a copy that is done.
    pub(super) fn add(&self, copied: CopyTotals) {
        self.counted().add(copied);
    }

    /// Returns a sink that passes on its events and counts copies.
    pub(super) fn listen(&self, to: &ProgressSink) -> ProgressSink {
        let (counter, to) = (self.clone(), to.clone());
        ProgressSink::new(move |progress| {
            if let Progress::Copying { what, files, bytes, .. } = &progress {
                counter.hear(what, CopyTotals { files: *files, bytes: *bytes });
            }
            to.report(progress);
        })
    }

    fn hear(&self, what: &str, copied: CopyTotals) {
        let mut counted = self.counted();
        // Another copy begins where the name changes or the count falls back.
        let goes_on = counted.current.as_ref().is_some_and(|(name, before)| {
            name == what && before.files <= copied.files && before.bytes <= copied.bytes
        });
        if !goes_on {
            counted.finish_current();
        }
        counted.current = Some((what.to_owned(), copied));
    }

    /// Returns what was copied so far.
    pub(super) fn total(&self) -> CopyTotals {
        let mut counted = self.counted();
        counted.finish_current();
        counted.done
    }

    fn counted(&self) -> std::sync::MutexGuard<'_, CopyCount> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_counted_once_each_however_often_they_tell() {
        let (counter, sink) = (CopyCounter::default(), ProgressSink::default());
        counter.add(CopyTotals { files: 1, bytes: 10 });
        let listening = counter.listen(&sink);
        let report = |what: &str, files, bytes| {
            listening.report(Progress::Copying { what: what.into(), files, bytes, total: None });
        };
        report("usr", 1, 5);
        report("usr", 2, 7);
        report("etc", 3, 3);
        report("etc", 1, 1);
        assert_eq!(counter.total(), CopyTotals { files: 1 + 2 + 3 + 1, bytes: 10 + 7 + 3 + 1 });
    }
}
