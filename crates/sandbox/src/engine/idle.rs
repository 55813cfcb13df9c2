//! What ends a process's hold on a sandbox: idleness, and the ends of turns and
//! conversations.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::{Engine, Inner};
use crate::sandbox::{Cleanup, Handle};
use crate::{Error, Task};

/// Longest time between two looks at what idles.
const LONGEST_TICK: Duration = Duration::from_mins(1);

/// Shortest time between two looks at what idles.
const SHORTEST_TICK: Duration = Duration::from_millis(50);

/// The task that lets go of what idles: at most one per engine.
#[derive(Debug, Default)]
pub(crate) struct IdleReaper(OnceLock<()>);

impl Inner {
    /// Starts the idle reaper, unless it runs: it begins with the first sandbox
    /// that this process holds, so no program has to think of it. It ends with
    /// the engine's last clone.
    pub(super) fn start_idle_reaper(self: &Arc<Self>) {
        let lifetime = match self.lifetime() {
            Ok(lifetime) => lifetime,
            // Whoever asks for the sandbox is not to fail because of it.
            Err(error) => return tracing::warn!(%error, "idle sandboxes are not let go of"),
        };
        if self.idle_reaper.0.set(()).is_err() {
            return;
        }
        let tick = (lifetime / 4).clamp(SHORTEST_TICK, LONGEST_TICK);
        let inner = Arc::downgrade(self);
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
}

impl Engine {
    /// Lets go of every sandbox that has not been used for `lifetime` and
    /// returns how many those were. A running job or an open call, here or
    /// anybody's, is use.
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
    pub fn turn_ended(&self, task: &Task) -> Result<(), Error> {
        if !self.inner.across_processes()? && !self.inner.persistent_files()? {
            self.inner.clean_up(task);
        }
        Ok(())
    }

    /// Closes a conversation: an instance that belongs to this process goes
    /// when nobody else in it holds the sandbox.
    pub fn conversation_closed(&self, task: &Task) -> Result<(), Error> {
        let in_use = {
            let handles = self.inner.handles();
            // One reference is the engine's own.
            handles.get(&self.inner.key(task)).is_some_and(|handle| Arc::strong_count(handle) > 1)
        };
        if !self.inner.across_processes()? && !in_use {
            self.inner.clean_up(task);
        }
        Ok(())
    }
}

impl Inner {
    /// Begins the cleanup of the handle this process has, if it has one.
    fn clean_up(&self, task: &Task) {
        let handle = self.handles().get(&self.key(task)).cloned();
        if let Some(handle) = handle {
            handle.begin_cleanup(Cleanup::Release);
        }
    }

    /// Forgets a handle, unless another one has taken its place.
    pub(crate) fn forget_handle_of(&self, handle: &Handle) {
        let mut handles = self.handles();
        let is_this =
            handles.get(handle.key()).is_some_and(|known| std::ptr::eq(&raw const **known, handle));
        if is_this {
            handles.remove(handle.key());
        }
    }
}
