//! Stopping a worker, with proof.

use std::time::Duration;

use vestal_board::verbs::{RunEnd, steps};
use vestal_board::{Board, Error, Outcome, Result, Run, RunId};
use vestal_process::{End, Patience};

use crate::dispatcher::{Dispatcher, lock};
use crate::launch::Launcher;
use crate::life::{Parental, RunKey, session_of};
use crate::said::Said;
use crate::{failpoint, sweeping};

/// How long a worker that does not go keeps its task before it is tried again.
const HOLD: Duration = Duration::from_mins(2);
/// How long to wait for the exit code of a child that is gone.
const CODE: Duration = Duration::from_secs(1);

/// A worker to be stopped, and what becomes of its run.
#[derive(Debug)]
pub(crate) struct Stopping {
    pub(crate) board: Board,
    pub(crate) run: Run,
    pub(crate) outcome: Outcome,
    pub(crate) reason: String,
    pub(crate) begun: Begun,
}

/// A run that this process is at work on; for as long as this is there nothing
/// else is begun with it.
#[derive(Debug)]
pub(crate) struct Begun {
    dispatcher: Dispatcher,
    key: RunKey,
}

impl Drop for Begun {
    fn drop(&mut self) {
        lock(&self.dispatcher.shared.stopping).remove(&self.key);
    }
}

/// Reports whether a run ended as a worker ends it that did what it was to do.
pub(crate) fn has_reported(run: &Run) -> bool {
    matches!(
        run.outcome,
        Some(
            Outcome::Completed
                | Outcome::Submitted
                | Outcome::ChangesRequested
                | Outcome::Blocked
                | Outcome::Scheduled
        )
    )
}

/// Reports whether a worker that ends so has cleaned up behind itself.
pub(crate) const fn is_tidy(code: i32) -> bool {
    matches!(code, 0 | 10)
}

/// What came of stopping a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stopped {
    /// Nothing of it is left, and the board knows.
    Gone,
    /// These processes do not go.
    Survived(Vec<u32>),
    /// It is not on this host, or it is not known that it was started: whoever
    /// starts or has it sees to it.
    Elsewhere,
}

/// Stops the worker of a run that has ended, if it is on this host, and writes
/// down that it is gone. Whoever takes a task from its worker calls this, so
/// that the worker does not go on until a dispatcher finds it.
pub async fn stop_worker(
    board: &Board,
    run: &Run,
    launcher: Option<&dyn Launcher>,
    patience: Patience,
) -> Result<Stopped> {
    let Some(session) = session_of(run, board.host()) else { return Ok(Stopped::Elsewhere) };
    let end = session.end(patience).await.map_err(|source| Error::Io {
        action: "stop a worker by",
        path: "/proc".into(),
        source,
    })?;
    match end {
        End::Survived(left) => {
            Ok(Stopped::Survived(left.into_iter().map(|process| process.pid).collect()))
        }
        End::Ended => {
            if let Some(launcher) = launcher {
                sweeping::sweep(board, run, launcher).await;
            }
            board.run_gone(run.id).await?;
            Ok(Stopped::Gone)
        }
    }
}

impl Dispatcher {
    /// Marks a run as one that this process is at work on; nothing, where it
    /// already is.
    pub(crate) fn begin(&self, board: &Board, run: RunId) -> Option<Begun> {
        let key = (board.slug().to_owned(), run);
        lock(&self.shared.stopping)
            .insert(key.clone())
            .then(|| Begun { dispatcher: self.clone(), key })
    }

    /// Reports whether this process is at work on a run.
    pub(crate) fn is_begun(&self, board: &Board, run: RunId) -> bool {
        lock(&self.shared.stopping).contains(&(board.slug().to_owned(), run))
    }

    /// Stops a worker. Its run ends only after the proof that nothing of it is
    /// left.
    pub(crate) async fn stop(&self, stopping: Stopping) {
        let board = stopping.board.clone();
        if let Err(error) = self.try_stop(stopping).await {
            self.tell_trouble(Some(board.slug()), &error);
        }
    }

    async fn try_stop(&self, stopping: Stopping) -> Result<()> {
        let Stopping { board, run, outcome, reason, begun } = stopping;
        let slug = board.slug().to_owned();
        let end = match session_of(&run, board.host()) {
            Some(session) => session.end(self.options().patience).await.map_err(|source| {
                Error::Io { action: "stop a worker by", path: "/proc".into(), source }
            })?,
            None => End::Ended,
        };
        if let End::Survived(left) = end {
            let mut tx = board.write().await?;
            let first = steps::defer_in(&mut *tx, run.id, HOLD).await?;
            tx.commit().await?;
            if first {
                let pids = left.into_iter().map(|process| process.pid).collect();
                self.tell(Said::Survived { board: slug, task: run.task_id, pids });
            }
            return Ok(());
        }
        failpoint::reach("dispatch.stopped");
        let exit_code = self.code_of(&board, run.id).await;
        if !exit_code.is_some_and(is_tidy) {
            sweeping::sweep(&board, &run, &*self.options().launcher).await;
        }
        let mut tx = board.write().await?;
        let mut ended = false;
        if run.is_open() {
            let end = RunEnd { outcome, error: reason.clone(), exit_code };
            let moved = steps::end_run_in(&mut *tx, run.id, &end, &self.policy().failures).await?;
            ended = moved.ended.is_some();
        }
        steps::gone_in(&mut *tx, run.id).await?;
        tx.commit().await?;
        drop(begun);
        self.tell(if ended {
            Said::Ended { board: slug, task: run.task_id, outcome, reason }
        } else {
            Said::Stopped { board: slug, task: run.task_id }
        });
        Ok(())
    }

    /// Stops a worker that was started for a run which had ended meanwhile.
    pub(crate) async fn stop_fenced(&self, board: &Board, run: Run) -> Result<()> {
        let Some(_begun) = self.begin(board, run.id) else { return Ok(()) };
        let launcher = &*self.options().launcher;
        stop_worker(board, &run, Some(launcher), self.options().patience).await?;
        Ok(())
    }

    /// Returns the exit code of a child that is gone.
    async fn code_of(&self, board: &Board, run: RunId) -> Option<i32> {
        let key = (board.slug().to_owned(), run);
        let deadline = tokio::time::Instant::now() + CODE;
        loop {
            match self.shared.children.know(&key) {
                Parental::Ended(code) => return Some(code),
                Parental::Waiting if tokio::time::Instant::now() < deadline => {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
                Parental::Waiting | Parental::Stranger => return None,
            }
        }
    }
}
