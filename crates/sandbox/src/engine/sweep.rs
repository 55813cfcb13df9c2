//! Let go of what idles, and remove what a failed process left: when, and in the
//! background.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::reap::{ReapReason, Reaped};
use super::remove::kept_files;
use super::{Engine, Inner, reap, remove};
use crate::sandbox::{Cleanup, Handle};
use crate::store::{KeyLock, SandboxDir, StoreError, list_dirs, list_rubbish};
use crate::{Error, Key, Overrides, TaskName};

/// Longest time between two looks at what idles.
const LONGEST_TICK: Duration = Duration::from_mins(1);

/// Shortest time between two looks at what idles.
const SHORTEST_TICK: Duration = Duration::from_millis(50);

/// The task that lets go of what idles: at most one per engine.
#[derive(Debug, Default)]
pub(crate) struct IdleReaper(OnceLock<()>);

/// Starts the idle reaper, unless it runs: it begins with the first sandbox
/// that this process holds, so no program has to think of it. It ends with
/// the engine's last clone.
pub(super) fn start_idle_reaper(engine: &Arc<Inner>) {
    let lifetime = match engine.lifetime() {
        Ok(lifetime) => lifetime,
        // A wrong setting of the reaper must not fail the use of a sandbox.
        Err(error) => return tracing::warn!(%error, "idle sandboxes are not let go of"),
    };
    if engine.idle_reaper.0.set(()).is_err() {
        return;
    }
    let tick = (lifetime / 4).clamp(SHORTEST_TICK, LONGEST_TICK);
    let inner = Arc::downgrade(engine);
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(tick).await;
            let Some(inner) = inner.upgrade() else {
                return;
            };
            Engine { inner }.release_idle(lifetime).await;
        }
    });
}

impl Engine {
    /// Lets go of every sandbox that has not been used for `lifetime` and
    /// returns how many those were. Running jobs and open calls of any process
    /// count as use.
    #[boxed]
    pub async fn release_idle(&self, lifetime: Duration) -> usize {
        let idle: Vec<Arc<Handle>> = self
            .inner
            .handles()
            .values()
            .filter(|handle| handle.idle() >= lifetime)
            .cloned()
            .collect();
        let mut released = 0;
        for handle in idle {
            released += usize::from(handle.release_idle(lifetime).await);
        }
        released
    }

    /// Ends a turn: nothing that is meant to last is touched.
    pub fn turn_ended(&self, task: &TaskName) -> Result<(), Error> {
        if !self.inner.across_processes()? && !self.inner.persistent_files()? {
            clean_up(&self.inner, task);
        }
        Ok(())
    }

    /// Closes a conversation: an instance that belongs to this process goes
    /// when nobody else in it holds the sandbox.
    pub fn conversation_closed(&self, task: &TaskName) -> Result<(), Error> {
        let in_use = {
            let handles = self.inner.handles();
            // One reference is the engine's own.
            handles.get(&self.inner.key(task)).is_some_and(|handle| Arc::strong_count(handle) > 1)
        };
        if !self.inner.across_processes()? && !in_use {
            clean_up(&self.inner, task);
        }
        Ok(())
    }
}

/// Begins the cleanup of the handle this process has, if it has one.
fn clean_up(engine: &Inner, task: &TaskName) {
    let handle = engine.handles().get(&engine.key(task)).cloned();
    if let Some(handle) = handle {
        handle.begin_cleanup(Cleanup::Release);
    }
}

/// Forgets a handle, unless another one has taken its place.
pub(crate) fn forget_handle_of(engine: &Inner, handle: &Handle) {
    let mut handles = engine.handles();
    let is_this =
        handles.get(handle.key()).is_some_and(|known| std::ptr::eq(&raw const **known, handle));
    if is_this {
        handles.remove(handle.key());
    }
}

/// Whether and how this engine has swept.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    begun: AtomicBool,
    task: Mutex<Option<JoinHandle<usize>>>,
    /// Whether the sweep still waits for its time.
    is_waiting: AtomicBool,
    /// Ends that waiting.
    now: Notify,
}

/// When a sweep begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SweepStart {
    /// At once: something is about to be made.
    AtOnce,
    /// After [`QUIET`]: a command in a sandbox that runs shares the processor with
    /// nothing, and a process that ends before then does not wait for a sweep.
    Quietly,
}

/// How long a process that attaches to a running sandbox lives before it sweeps.
const QUIET: Duration = Duration::from_secs(10);

/// How long short processes leave the sweep to each other before one of them does it.
const SWEEP_EVERY: Duration = Duration::from_mins(10);

/// The file in the home's directory `run` whose modification time is that of the last sweep.
const SWEPT: &str = "swept";

impl Engine {
    /// Ends the part of a process in sweeping that is about to end itself. A sweep
    /// that is under way is waited for. One that waits for its time is left to
    /// another process, unless none has swept for a while. Returns how many
    /// instances were removed.
    #[boxed]
    pub async fn finish_sweep(&self) -> usize {
        let inner = &self.inner;
        if inner.sweep.is_waiting.load(Ordering::Acquire) && !is_sweep_due(inner) {
            return 0;
        }
        self.orphans_swept().await
    }

    /// Waits for the sweep that the first use of a backend set off, and returns
    /// how many instances it removed; 0 if there was none.
    #[boxed]
    pub async fn orphans_swept(&self) -> usize {
        self.inner.sweep.now.notify_one();
        let task = self.inner.sweep.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        match task {
            Some(task) => task.await.unwrap_or(0),
            None => 0,
        }
    }
}

/// Sets off the sweep, once in the life of the engine and only where it is
/// allowed. The caller neither waits for it nor fails with it.
pub(super) fn sweep_once(
    engine: &Arc<Inner>,
    in_use: &Key,
    overrides: &Overrides,
    begin: SweepStart,
) {
    let allowed = engine.orphan_reaper().unwrap_or_else(|error| {
        tracing::warn!(%error, "leftovers are not removed");
        false
    });
    if !allowed || engine.sweep.begun.swap(true, Ordering::AcqRel) {
        return;
    }
    let inner = Arc::clone(engine);
    let in_use = in_use.clone();
    // Only the backend that is about to be used is asked for more.
    let recorded = engine.dir(&in_use).read_record().ok().flatten().map(|record| record.backend);
    let used = recorded.or_else(|| engine.named_backend(overrides).ok().flatten());
    engine.sweep.is_waiting.store(begin == SweepStart::Quietly, Ordering::Release);
    let task = tokio::spawn(async move {
        if begin == SweepStart::Quietly {
            // Until the time is up, or until `finish_sweep` waits for it.
            drop(timeout(QUIET, inner.sweep.now.notified()).await);
            inner.sweep.is_waiting.store(false, Ordering::Release);
        }
        if let Err(error) = reap_leftovers(&inner, Some(&in_use), false).await {
            tracing::debug!(%error, "leftovers stay");
        }
        let wanted = used.as_deref().unwrap_or_default();
        let mut swept = match reap::reap(&inner, Some(&in_use), Some(wanted), false).await {
            Ok(pruned) => pruned.reaped.len(),
            Err(error) => {
                tracing::debug!(%error, "the orphan reaper gave up");
                0
            }
        };
        if let Some(backend) = used.as_deref().and_then(|name| inner.backends.named(name)) {
            let marked = reap::reap_marked(&inner, &**backend, Some(&in_use), false).await;
            swept += marked.map_or(0, |reaped| reaped.len());
        }
        note_sweep(&inner);
        swept
    });
    *engine.sweep.task.lock().unwrap_or_else(PoisonError::into_inner) = Some(task);
}

/// Reports whether no process has swept for a while. A time in the future is
/// that of a clock that was wrong.
fn is_sweep_due(engine: &Inner) -> bool {
    let last =
        fs::metadata(engine.settings.home().run_dir().join(SWEPT)).and_then(|file| file.modified());
    let age = last.ok().and_then(|last| last.elapsed().ok());
    age.is_none_or(|age| age > SWEEP_EVERY)
}

/// Writes down that a sweep has ended, for [`is_sweep_due`].
fn note_sweep(engine: &Inner) {
    if let Err(error) = fs::write(engine.settings.home().run_dir().join(SWEPT), "") {
        tracing::debug!(%error, "the time of the sweep is not kept");
    }
}

/// Removes what processes that died have left beside the sandboxes: places
/// of trials, half of what was being removed, and directories of sandboxes
/// that were never made.
pub(super) async fn reap_leftovers(
    engine: &Inner,
    spare: Option<&Key>,
    dry_run: bool,
) -> Result<Vec<Reaped>, Error> {
    let spared = spare.map(|key| engine.dir(key));
    let mut reaped = Vec::new();
    for path in list_rubbish(&engine.sandboxes) {
        if !dry_run && let Err(error) = remove::delete_with_any_backend(engine, &path).await {
            tracing::warn!(path = %path.display(), %error, "cannot be removed");
            continue;
        }
        reaped.push(leftover(&path));
    }
    for dir in list_dirs(&engine.sandboxes)? {
        if spared.as_ref() == Some(&dir) {
            continue;
        }
        match reap_empty(engine, &dir, dry_run).await {
            Ok(hollow) => reaped.extend(hollow),
            Err(error) => tracing::debug!(dir = %dir.path().display(), %error, "left alone"),
        }
    }
    Ok(reaped)
}

/// Removes the directory of a sandbox that was never made, or of which
/// nothing is left that anybody could want.
async fn reap_empty(
    engine: &Inner,
    dir: &SandboxDir,
    dry_run: bool,
) -> Result<Option<Reaped>, Error> {
    if !dir.has_no_content()? {
        return Ok(None);
    }
    let Some(_lock) = KeyLock::try_acquire(&dir.lock_file())? else {
        return Ok(None);
    };
    if !dir.has_no_content()? {
        return Ok(None);
    }
    if !dry_run && let Some(aside) = dir.move_aside()? {
        remove::delete_with_any_backend(engine, &aside).await?;
    }
    Ok(Some(leftover(dir.path())))
}

/// Returns directories that have files and belong to no sandbox that is known,
/// because it was never quite made or its record is gone. They may be
/// somebody's work, so only a person may decide to remove them.
pub(super) fn unrecorded(engine: &Inner) -> Result<Vec<PathBuf>, Error> {
    let mut found = Vec::new();
    for dir in list_dirs(&engine.sandboxes)? {
        // An unreadable record is reported where the sandbox is used.
        if dir.is_unrecorded().unwrap_or(false) && !dir.has_no_content().unwrap_or(true) {
            found.push(dir.path().to_owned());
        }
    }
    Ok(found)
}

impl SandboxDir {
    /// Returns whether nothing says whose it is.
    fn is_unrecorded(&self) -> Result<bool, StoreError> {
        Ok(!self.has_intent() && self.read_record()?.is_none() && self.instance_ids()?.is_empty())
    }

    /// Returns whether there is nothing in it that anybody could want: a creation
    /// that failed may leave the directories of files that never were.
    fn has_no_content(&self) -> Result<bool, StoreError> {
        let is_empty =
            |path: &PathBuf| fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
        Ok(self.is_unrecorded()? && kept_files(self).iter().all(is_empty))
    }
}

/// Describes a directory that no sandbox belongs to.
fn leftover(path: &Path) -> Reaped {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
    Reaped { task: name.unwrap_or_default(), instance: None, reason: ReapReason::Unfinished }
}

#[cfg(test)]
mod tests {
    use vestal_config::{Environment, Home, Settings};

    use crate::{Engine, ReapReason, Reaped};

    #[tokio::test]
    async fn what_a_failed_creation_left_goes_and_files_without_a_record_are_named() {
        let home = tempfile::tempdir().unwrap();
        let env = Environment::from_pairs([("HOME", home.path())]);
        let settings = Settings::load(&crate::schema(), Home::at(home.path()), env, Vec::new());
        let engine = Engine::with_backends(settings, Vec::new()).unwrap();
        let (failed, files) =
            (engine.sandboxes_dir().join("failed"), engine.sandboxes_dir().join("files"));
        for dir in [&failed, &files] {
            for name in ["workspace", "home", "state", "instances"] {
                std::fs::create_dir_all(dir.join(name)).unwrap();
            }
        }
        std::fs::write(files.join("home/.profile"), "").unwrap();
        for dry_run in [true, false] {
            let pruned = engine.prune_with_report(dry_run).await.unwrap();
            let tasks: Vec<&str> = pruned.reaped.iter().map(|reaped| &*reaped.task).collect();
            assert_eq!(tasks, ["failed"]);
            assert_eq!(pruned.unrecorded, std::slice::from_ref(&files));
            assert_eq!(failed.exists(), dry_run);
        }
        assert!(files.join("home/.profile").exists());
    }

    #[tokio::test]
    async fn a_directory_of_a_snapshot_that_is_none_is_reported_and_removed() {
        let home = tempfile::tempdir().unwrap();
        let env = Environment::from_pairs([("HOME", home.path())]);
        let settings = Settings::load(&crate::schema(), Home::at(home.path()), env, Vec::new());
        let engine = Engine::with_backends(settings, Vec::new()).unwrap();
        let sandbox = engine.sandboxes_dir().join("web");
        let (half, whole) = (sandbox.join("snapshots/half"), sandbox.join("snapshots/whole"));
        for dir in [&half, &whole] {
            std::fs::create_dir_all(dir.join("workspace")).unwrap();
        }
        std::fs::write(whole.join("snapshot.json"), "{}").unwrap();
        for dry_run in [true, false] {
            let pruned = engine.prune_with_report(dry_run).await.unwrap();
            let reason = ReapReason::Unfinished;
            let expected = Reaped { task: "web".to_owned(), instance: None, reason };
            assert_eq!(pruned.reaped, [expected]);
            assert_eq!(half.exists(), dry_run);
        }
        assert!(whole.exists());
        assert_eq!(engine.prune(true).await.unwrap(), []);
    }
}
