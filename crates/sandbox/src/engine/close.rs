//! The end of a process.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;

use super::stop::Interrupt;
use super::{Engine, Inner};
use crate::sandbox::{Cleanup, Handle};

/// Longest time a process spends on its sandboxes when it ends. What is not
/// done by then the guests do themselves, when they miss their owner.
pub const CLOSE_WITHIN: Duration = Duration::from_secs(15);

impl Engine {
    /// Ends this process's part: removes what belongs to it, waits until copies
    /// that were given up are undone, lets go of the rest. Returns whether all
    /// was done within `patience`.
    pub async fn close(&self, patience: Duration) -> bool {
        let deadline = tokio::time::Instant::now() + patience;
        let handles: Vec<Arc<Handle>> =
            self.inner.handles().drain().map(|(_, handle)| handle).collect();
        for handle in handles.into_iter().filter(|handle| handle.is_owned()) {
            handle.begin_cleanup(Cleanup::Release);
        }
        let removed = tokio::time::timeout_at(deadline, self.inner.remove_all_owned()).await;
        let undone = tokio::time::timeout_at(deadline, self.inner.unfinished.write()).await;
        removed.unwrap_or(false) && undone.is_ok()
    }
}

impl Inner {
    /// Removes every instance of this process, those too that are being made
    /// and those whose removal somebody else has begun. Returns whether none is
    /// left.
    async fn remove_all_owned(self: &Arc<Self>) -> bool {
        loop {
            let owned = self.owned.all();
            if owned.is_empty() {
                return true;
            }
            let mut removals = JoinSet::new();
            for instance in owned {
                let inner = Arc::clone(self);
                removals.spawn(async move {
                    inner.remove_owned(&instance, Interrupt::Anything).await.inspect_err(|error| {
                        tracing::warn!(%error, "a sandbox of this process is not removed");
                    })
                });
            }
            if !removals.join_all().await.iter().all(Result::is_ok) {
                return false;
            }
        }
    }
}

/// The signals that ask a process to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Termination {
    /// SIGINT, as from Ctrl-C.
    Interrupt,
    /// SIGTERM.
    Terminate,
    /// SIGHUP: the terminal is gone.
    HangUp,
}

impl Termination {
    /// Returns the signal's number.
    pub const fn number(self) -> u8 {
        match self {
            Self::HangUp => 1,
            Self::Interrupt => 2,
            Self::Terminate => 15,
        }
    }
}

/// How many listen for the signals that ask this process to end.
static LISTENERS: AtomicUsize = AtomicUsize::new(0);

/// Listens for the signals that ask this process to end, from now on.
#[derive(Debug)]
pub struct Terminations {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    hang_up: tokio::signal::unix::Signal,
}

impl Terminations {
    /// Begins to listen. The signals no longer end the process by themselves.
    pub fn listen() -> std::io::Result<Self> {
        let (interrupt, terminate, hang_up) = (
            signal(SignalKind::interrupt())?,
            signal(SignalKind::terminate())?,
            signal(SignalKind::hangup())?,
        );
        LISTENERS.fetch_add(1, Ordering::Relaxed);
        Ok(Self { interrupt, terminate, hang_up })
    }

    /// Reports whether nobody else listens, so that a signal is this one's to obey.
    pub fn is_alone(&self) -> bool {
        LISTENERS.load(Ordering::Relaxed) == 1
    }

    /// Waits for the next one.
    pub async fn next(&mut self) -> Termination {
        tokio::select! {
            _ = self.interrupt.recv() => Termination::Interrupt,
            _ = self.terminate.recv() => Termination::Terminate,
            _ = self.hang_up.recv() => Termination::HangUp,
        }
    }
}

impl Drop for Terminations {
    fn drop(&mut self) {
        LISTENERS.fetch_sub(1, Ordering::Relaxed);
    }
}
