//! Stopping a worker with proof that it is gone, and sweeping what it left in its sandbox.

use std::path::PathBuf;
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use tokio::task::JoinHandle;
use vestal_board::verbs::{RunEnd, steps};
use vestal_board::{Board, Error, Outcome, Result, Run, RunId, TaskId};
use vestal_config::ProfileName;
use vestal_process::{EndTimeouts, SessionEnd};

use crate::dispatcher::{DispatchEvent, Dispatcher, lock};
use crate::failpoint;
use crate::launcher::{LaunchSpec, Launcher};
use crate::liveness::{ChildState, RunKey, session_of};
use crate::workspace::WorkspaceDir;

/// How long a worker that survives SIGKILL keeps its task before it is tried again.
const HOLD: Duration = Duration::from_mins(2);
/// How long to wait for the exit code of a child that is gone.
const CODE: Duration = Duration::from_secs(1);

/// A worker to be stopped, and how its run ends.
#[derive(Debug)]
pub(crate) struct PendingStop {
    pub(crate) board: Board,
    pub(crate) run: Run,
    pub(crate) outcome: Outcome,
    pub(crate) reason: String,
    pub(crate) lock: RunLock,
}

/// Reserves a run while this process stops or sweeps its worker.
#[derive(Debug)]
pub(crate) struct RunLock {
    dispatcher: Dispatcher,
    key: RunKey,
}

impl Drop for RunLock {
    fn drop(&mut self) {
        lock(&self.dispatcher.shared.locked_runs).remove(&self.key);
    }
}

/// Reports whether a run ended with a report of its worker.
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

/// Reports whether a worker with this exit code has cleaned up after itself.
pub(crate) const fn is_tidy(code: i32) -> bool {
    matches!(code, 0 | 10)
}

/// The result of stopping a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stopped {
    /// All its processes are gone, and the board knows.
    Gone,
    /// These processes cannot be killed.
    Survived(Vec<u32>),
    /// It is on another host, or its start is not recorded. The dispatcher that started it stops it.
    Elsewhere,
}

/// Stops the worker of a run that has ended, if it is on this host, and records that it is gone.
/// Call it after taking a task from its worker; otherwise the worker continues until a dispatcher
/// finds it.
#[boxed]
pub async fn stop_worker(
    board: &Board,
    run: &Run,
    launcher: Option<&dyn Launcher>,
    timeouts: EndTimeouts,
) -> Result<Stopped> {
    let Some(session) = session_of(run, board.host()) else { return Ok(Stopped::Elsewhere) };
    let end = session.end(timeouts).await.map_err(|source| Error::Io {
        action: "stop a worker by",
        path: "/proc".into(),
        source,
    })?;
    match end {
        SessionEnd::Survived(left) => {
            Ok(Stopped::Survived(left.into_iter().map(|process| process.pid).collect()))
        }
        SessionEnd::Ended => {
            if let Some(launcher) = launcher {
                sweep(board, run, launcher).await;
            }
            board.run_gone(run.id).await?;
            Ok(Stopped::Gone)
        }
    }
}

impl Dispatcher {
    /// Reserves a run; `None` if it is reserved already.
    pub(crate) fn try_lock_run(&self, board: &Board, run: RunId) -> Option<RunLock> {
        let key = (board.slug().to_owned(), run);
        lock(&self.shared.locked_runs)
            .insert(key.clone())
            .then(|| RunLock { dispatcher: self.clone(), key })
    }

    /// Reports whether a run is reserved.
    pub(crate) fn is_run_locked(&self, board: &Board, run: RunId) -> bool {
        lock(&self.shared.locked_runs).contains(&(board.slug().to_owned(), run))
    }

    /// Stops a worker. Its run ends only after all its processes are proven gone.
    pub(crate) async fn stop(&self, pending: PendingStop) {
        let board = pending.board.clone();
        if let Err(error) = self.try_stop(pending).await {
            self.emit_error(Some(board.slug()), &error);
        }
    }

    async fn try_stop(&self, pending: PendingStop) -> Result<()> {
        let PendingStop { board, run, outcome, reason, lock } = pending;
        let slug = board.slug().to_owned();
        let end = match session_of(&run, board.host()) {
            Some(session) => session.end(self.options().timeouts).await.map_err(|source| {
                Error::Io { action: "stop a worker by", path: "/proc".into(), source }
            })?,
            None => SessionEnd::Ended,
        };
        if let SessionEnd::Survived(left) = end {
            let mut tx = board.write().await?;
            let first = steps::defer_in(&mut *tx, run.id, HOLD).await?;
            tx.commit().await?;
            if first {
                let pids = left.into_iter().map(|process| process.pid).collect();
                self.emit(DispatchEvent::Survived { board: slug, task: run.task_id, pids });
            }
            return Ok(());
        }
        failpoint::reach("dispatch.stopped");
        let exit_code = self.code_of(&board, run.id).await;
        if !exit_code.is_some_and(is_tidy) {
            sweep(&board, &run, &*self.options().launcher).await;
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
        drop(lock);
        self.emit(if ended {
            DispatchEvent::Ended { board: slug, task: run.task_id, outcome, reason }
        } else {
            DispatchEvent::Stopped { board: slug, task: run.task_id }
        });
        Ok(())
    }

    /// Stops a worker whose run ended while it was started.
    pub(crate) async fn stop_fenced(&self, board: &Board, run: Run) -> Result<()> {
        let Some(_lock) = self.try_lock_run(board, run.id) else { return Ok(()) };
        let launcher = &*self.options().launcher;
        stop_worker(board, &run, Some(launcher), self.options().timeouts).await?;
        Ok(())
    }

    /// Returns the exit code of a child that is gone.
    async fn code_of(&self, board: &Board, run: RunId) -> Option<i32> {
        let key = (board.slug().to_owned(), run);
        let deadline = tokio::time::Instant::now() + CODE;
        loop {
            match self.shared.children.state(&key) {
                ChildState::Ended(code) => return Some(code),
                ChildState::Running if tokio::time::Instant::now() < deadline => {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
                ChildState::Running | ChildState::NotOurs => return None,
            }
        }
    }

    /// Sweeps after a worker and records that it is gone.
    pub(crate) async fn clean_up(&self, pending: PendingSweep) {
        let PendingSweep { board, run, lock } = pending;
        sweep(&board, &run, &*self.options().launcher).await;
        if let Err(error) = board.run_gone(run.id).await {
            self.emit_error(Some(board.slug()), &error);
        }
        drop(lock);
    }
}

/// How long a sweep may take.
const SWEEP_WITHIN: Duration = Duration::from_mins(2);
/// A sweep holds no lease.
const NO_LEASE: Duration = Duration::ZERO;

/// A worker that is gone and may have left something in its sandbox.
#[derive(Debug)]
pub(crate) struct PendingSweep {
    pub(crate) board: Board,
    pub(crate) run: Run,
    pub(crate) lock: RunLock,
}

/// Starts a process that cleans up what a worker left, and returns a handle that waits for it. The
/// process goes on even if this one ends. A failure is logged; it does not hold the task back.
pub(crate) async fn sweep(
    board: &Board,
    run: &Run,
    launcher: &dyn Launcher,
) -> Option<JoinHandle<()>> {
    let spec = match spec(board, run).await {
        Ok(Some(spec)) => spec,
        Ok(None) => return None,
        Err(error) => {
            tracing::warn!(%error, task = %run.task_id, "cannot start cleaning up after a worker");
            return None;
        }
    };
    sweep_as(&spec, launcher).await
}

/// Sweeps as [`sweep`] does, for a given spec.
pub(crate) async fn sweep_as(spec: &LaunchSpec, launcher: &dyn Launcher) -> Option<JoinHandle<()>> {
    let task = spec.task.clone();
    let mut child = match launcher.sweep(spec).await {
        Ok(child) => child,
        Err(error) => {
            tracing::warn!(%error, %task, "cannot start cleaning up after a worker");
            return None;
        }
    };
    Some(tokio::spawn(async move {
        match tokio::time::timeout(SWEEP_WITHIN, child.wait()).await {
            Ok(Ok(status)) if status.success() => {}
            Ok(Ok(status)) => tracing::warn!(%task, %status, "cleaning up after a worker failed"),
            Ok(Err(error)) => tracing::warn!(%task, %error, "cleaning up after a worker failed"),
            Err(_) => {
                tracing::warn!(%task, "cleaning up after a worker takes too long; killing it");
                if let Err(error) = child.kill().await {
                    tracing::warn!(%task, %error, "cannot kill the process that cleans up after a worker");
                }
            }
        }
    }))
}

async fn spec(board: &Board, run: &Run) -> Result<Option<LaunchSpec>> {
    let Some(profile) = run.profile.clone() else { return Ok(None) };
    let task = board.read().await?.task(&run.task_id).await?;
    let path = run.workspace.as_ref().map(PathBuf::from).filter(|path| path.is_absolute());
    let tenant = task.and_then(|task| task.tenant);
    let spec = bare_spec(board, run.task_id.clone(), run.id, profile);
    Ok(Some(LaunchSpec { tenant, workspace: WorkspaceDir { path, branch: None }, ..spec }))
}

/// Returns an order to clean up, of which no more is known than whose it is.
pub(crate) fn bare_spec(
    board: &Board,
    task: TaskId,
    run: RunId,
    profile: ProfileName,
) -> LaunchSpec {
    LaunchSpec {
        board: board.slug().to_owned(),
        dir: board.dir().to_owned(),
        task,
        run,
        profile,
        host: board.host().name.clone(),
        tenant: None,
        workspace: WorkspaceDir::default(),
        lease: NO_LEASE,
        failures: None,
    }
}
