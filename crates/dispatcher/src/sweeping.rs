//! Cleaning up in the sandbox what a worker left that is gone.

use std::path::PathBuf;
use std::time::Duration;

use tokio::task::JoinHandle;
use vestal_board::{Board, Result, Run, RunId, TaskId};
use vestal_config::ProfileName;

use crate::dispatcher::Dispatcher;
use crate::launch::{Launcher, Order};
use crate::stopping::Begun;
use crate::workspace::Place;

/// How long it may take before it counts as failed.
const PATIENCE: Duration = Duration::from_mins(2);
/// What matters only to a worker at work.
const NO_LEASE: Duration = Duration::ZERO;

/// A worker that is gone and may have left something.
#[derive(Debug)]
pub(crate) struct Sweeping {
    pub(crate) board: Board,
    pub(crate) run: Run,
    pub(crate) begun: Begun,
}

impl Dispatcher {
    /// Has cleaned up what a worker left, and writes down that it is gone.
    pub(crate) async fn clean_up(&self, sweeping: Sweeping) {
        let Sweeping { board, run, begun } = sweeping;
        sweep(&board, &run, &*self.options().launcher).await;
        if let Err(error) = board.run_gone(run.id).await {
            self.tell_trouble(Some(board.slug()), &error);
        }
        drop(begun);
    }
}

/// Has cleaned up what a worker left. It returns as soon as that is under way,
/// with what waits for its end: it goes on even if this process ends. That it
/// fails is no reason to hold the task back.
pub(crate) async fn sweep(
    board: &Board,
    run: &Run,
    launcher: &dyn Launcher,
) -> Option<JoinHandle<()>> {
    let order = match order(board, run).await {
        Ok(Some(order)) => order,
        Ok(None) => return None,
        Err(error) => {
            tracing::warn!(%error, task = %run.task_id, "cannot clean up behind a worker");
            return None;
        }
    };
    sweep_as(&order, launcher).await
}

/// As [`sweep`], by an order.
pub(crate) async fn sweep_as(order: &Order, launcher: &dyn Launcher) -> Option<JoinHandle<()>> {
    let task = order.task.clone();
    let mut child = match launcher.sweep(order).await {
        Ok(child) => child,
        Err(error) => {
            tracing::warn!(%error, %task, "cannot clean up behind a worker");
            return None;
        }
    };
    Some(tokio::spawn(async move {
        match tokio::time::timeout(PATIENCE, child.wait()).await {
            Ok(Ok(status)) if status.success() => {}
            Ok(Ok(status)) => tracing::warn!(%task, %status, "cleaning up behind a worker failed"),
            Ok(Err(error)) => tracing::warn!(%task, %error, "cleaning up behind a worker failed"),
            Err(_) => {
                tracing::warn!(%task, "cleaning up behind a worker takes too long");
                if let Err(error) = child.kill().await {
                    tracing::warn!(%task, %error, "cannot end what cleans up behind a worker");
                }
            }
        }
    }))
}

async fn order(board: &Board, run: &Run) -> Result<Option<Order>> {
    let Some(profile) = run.profile.clone() else { return Ok(None) };
    let task = board.read().await?.task(&run.task_id).await?;
    let path = run.workspace.as_ref().map(PathBuf::from).filter(|path| path.is_absolute());
    let tenant = task.and_then(|task| task.tenant);
    let order = bare_order(board, run.task_id.clone(), run.id, profile);
    Ok(Some(Order { tenant, place: Place { path, branch: None }, ..order }))
}

/// Returns an order to clean up, of which no more is known than whose it is.
pub(crate) fn bare_order(board: &Board, task: TaskId, run: RunId, profile: ProfileName) -> Order {
    Order {
        board: board.slug().to_owned(),
        dir: board.dir().to_owned(),
        task,
        run,
        profile,
        host: board.host().name.clone(),
        tenant: None,
        place: Place::default(),
        lease: NO_LEASE,
        failures: None,
    }
}
