//! Work that is undone when nobody waits for it any more.

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::Inner;
use crate::store::SandboxDir;
use crate::{CopyError, Error, Task};

/// Tells a piece of work whether somebody still waits for it.
#[derive(Debug)]
pub(super) struct Attended(oneshot::Receiver<Infallible>);

impl Inner {
    /// Does work in a task of its own. When the caller goes away the work is
    /// told, and has the time to undo what it has begun: [`super::Engine::close`]
    /// waits for that.
    pub(super) async fn attended<T, Work>(
        self: &Arc<Self>,
        work: impl FnOnce(Arc<Self>, Attended) -> Work,
    ) -> Result<T, Error>
    where
        T: Send + 'static,
        Work: Future<Output = Result<T, Error>> + Send + 'static,
    {
        let unfinished = Arc::clone(&self.unfinished).read_owned().await;
        let (waiting, gone) = oneshot::channel();
        let work = work(Arc::clone(self), Attended(gone));
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
}

impl Attended {
    /// Does a part of the work that may be cut off anywhere.
    pub(super) async fn or_leave<T>(
        &mut self,
        task: &Task,
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
        task: &Task,
        dir: &SandboxDir,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let done = self.or_leave(task, work).await;
        if done.is_err()
            && let Err(left) = inner.finish(task, dir).await
        {
            // The intent stays, and with it the duty.
            tracing::warn!(dir = %dir.path().display(), %left, "left for later");
        }
        done
    }
}
