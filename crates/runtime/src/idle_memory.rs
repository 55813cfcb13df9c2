//! Memory of a service that has nothing to do.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::AbortHandle;

/// How long nothing happens before memory is given back.
const QUIET: Duration = Duration::from_secs(3);

/// Gives the memory back that a service does not need while it idles, each time it begins to: what was
/// mapped of the program for its start or for work, and what is free of the heap. Cloning gives the same
/// one; it ends with the last.
#[derive(Debug, Clone)]
pub struct IdleMemory(Arc<Watched>);

#[derive(Debug)]
struct Watched {
    activity: Arc<Activity>,
    task: AbortHandle,
}

#[derive(Debug, Default)]
struct Activity {
    was_used: AtomicBool,
    again: Notify,
}

impl IdleMemory {
    /// Begins, within a runtime. The start of the service counts as use, and nothing is given back while
    /// `is_busy` says that work goes on.
    pub fn start(is_busy: impl Fn() -> bool + Send + 'static) -> Self {
        Self::releasing(is_busy, || {
            if let Err(error) = vestal_stage::memory::release_unused() {
                tracing::debug!(%error, "unused memory is kept");
            }
        })
    }

    fn releasing(
        is_busy: impl Fn() -> bool + Send + 'static,
        release: impl Fn() + Send + 'static,
    ) -> Self {
        let activity = Arc::<Activity>::default();
        let watching = Arc::clone(&activity);
        let task = tokio::spawn(async move {
            loop {
                // A look every three seconds, and none once it idles.
                loop {
                    tokio::time::sleep(QUIET).await;
                    if !watching.was_used.swap(false, Ordering::Relaxed) && !is_busy() {
                        break;
                    }
                }
                release();
                watching.again.notified().await;
            }
        });
        Self(Arc::new(Watched { activity, task: task.abort_handle() }))
    }

    /// Says that the service does something. It costs next to nothing.
    pub fn used(&self) {
        if !self.0.activity.was_used.swap(true, Ordering::Relaxed) {
            self.0.activity.again.notify_one();
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn memory_is_given_back_when_nothing_happens_any_more_and_not_again_until_something_did()
    {
        let count = Arc::new(AtomicUsize::new(0));
        let counting = Arc::clone(&count);
        let busy = Arc::new(AtomicBool::new(false));
        let is_busy = Arc::clone(&busy);
        let memory = IdleMemory::releasing(
            move || is_busy.load(Ordering::Relaxed),
            move || {
                counting.fetch_add(1, Ordering::Relaxed);
            },
        );
        let released = || count.load(Ordering::Relaxed);
        let second = Duration::from_secs(1);
        for _ in 0..10 {
            memory.used();
            tokio::time::sleep(second).await;
        }
        assert_eq!(released(), 0, "it was in use all the time");
        tokio::time::sleep(second * 60).await;
        let idle = released();
        assert!((1..=2).contains(&idle), "given back {idle} times");
        tokio::time::sleep(second * 3600).await;
        assert_eq!(released(), idle, "nothing has happened since");
        busy.store(true, Ordering::Relaxed);
        memory.used();
        tokio::time::sleep(second * 60).await;
        assert_eq!(released(), idle, "its work goes on");
        busy.store(false, Ordering::Relaxed);
        tokio::time::sleep(second * 60).await;
        assert!(released() > idle);
    }
}
