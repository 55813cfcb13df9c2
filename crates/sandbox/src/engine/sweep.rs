//! When the orphan reaper sweeps: once in the life of an engine, and never in the way
//! of a short command.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::{Engine, Inner};
use crate::{Key, Overrides};

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
pub(super) enum Begin {
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
    pub async fn finish_sweep(&self) -> usize {
        let inner = &self.inner;
        if inner.sweep.is_waiting.load(Ordering::Acquire) && !inner.is_sweep_due() {
            return 0;
        }
        self.orphans_swept().await
    }

    /// Waits for the sweep that the first use of a backend set off, and returns
    /// how many instances it removed; 0 if there was none.
    pub async fn orphans_swept(&self) -> usize {
        self.inner.sweep.now.notify_one();
        let task = self.inner.sweep.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        match task {
            Some(task) => task.await.unwrap_or(0),
            None => 0,
        }
    }
}

impl Inner {
    /// Sets off the sweep, once in the life of the engine and only where it is
    /// allowed. Whoever calls this neither waits for it nor fails with it.
    pub(super) fn sweep_once(self: &Arc<Self>, in_use: &Key, overrides: &Overrides, begin: Begin) {
        let allowed = self.orphan_reaper().unwrap_or_else(|error| {
            tracing::warn!(%error, "leftovers are not removed");
            false
        });
        if !allowed || self.sweep.begun.swap(true, Ordering::AcqRel) {
            return;
        }
        let inner = Arc::clone(self);
        let in_use = in_use.clone();
        // Only the backend that is about to be used is asked for more.
        let recorded = self.dir(&in_use).read_record().ok().flatten().map(|record| record.backend);
        let used = recorded.or_else(|| self.named_backend(overrides).ok().flatten());
        self.sweep.is_waiting.store(begin == Begin::Quietly, Ordering::Release);
        let task = tokio::spawn(async move {
            if begin == Begin::Quietly {
                // Whichever comes first: its time, or somebody who waits for it.
                drop(timeout(QUIET, inner.sweep.now.notified()).await);
                inner.sweep.is_waiting.store(false, Ordering::Release);
            }
            if let Err(error) = inner.reap_leftovers(Some(&in_use), false).await {
                tracing::debug!(%error, "leftovers stay");
            }
            let wanted = used.as_deref().unwrap_or_default();
            let mut swept = match inner.reap(Some(&in_use), Some(wanted), false).await {
                Ok(pruned) => pruned.reaped.len(),
                Err(error) => {
                    tracing::debug!(%error, "the orphan reaper gave up");
                    0
                }
            };
            for backend in
                inner.backends.iter().filter(|found| used.as_deref() == Some(found.name()))
            {
                let marked = inner.reap_marked(&**backend, Some(&in_use), false).await;
                swept += marked.map_or(0, |reaped| reaped.len());
            }
            inner.note_sweep();
            swept
        });
        *self.sweep.task.lock().unwrap_or_else(PoisonError::into_inner) = Some(task);
    }

    /// Reports whether no process has swept for a while. A time in the future is
    /// that of a clock that was wrong.
    fn is_sweep_due(&self) -> bool {
        let last = fs::metadata(self.settings.home().run_dir().join(SWEPT))
            .and_then(|file| file.modified());
        let age = last.ok().and_then(|last| last.elapsed().ok());
        age.is_none_or(|age| age > SWEEP_EVERY)
    }

    /// Writes down that a sweep has ended, for [`Inner::is_sweep_due`].
    fn note_sweep(&self) {
        if let Err(error) = fs::write(self.settings.home().run_dir().join(SWEPT), "") {
            tracing::debug!(%error, "the time of the sweep is not kept");
        }
    }
}
