//! What ends a process's hold on a sandbox: idleness, and the ends of turns and
//! conversations.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;

use super::{Engine, Inner};
use crate::sandbox::{Cleanup, Handle};
use crate::{Error, Task};

/// Longest time between two looks at what idles.
const LONGEST_TICK: Duration = Duration::from_mins(1);

/// Shortest time between two looks at what idles.
const SHORTEST_TICK: Duration = Duration::from_millis(50);

impl Engine {
    /// Starts the idle reaper, for a process that stays. It ends with the
    /// engine's last clone, or when the handle is aborted.
    pub fn start_idle_reaper(&self) -> Result<JoinHandle<()>, Error> {
        let lifetime = self.inner.lifetime()?;
        let tick = (lifetime / 4).clamp(SHORTEST_TICK, LONGEST_TICK);
        let engine = Arc::downgrade(&self.inner);
        Ok(tokio::spawn(async move {
            loop {
                tokio::time::sleep(tick).await;
                let Some(inner) = engine.upgrade() else {
                    return;
                };
                Self { inner }.release_idle(lifetime).await;
            }
        }))
    }

    /// Lets go of every sandbox this process has not used for `lifetime` and
    /// returns how many those were. A running job, here or anybody's, is use.
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
            released += usize::from(handle.release_idle().await);
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
