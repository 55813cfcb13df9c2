//! Starting a worker for a run that holds its task.

use std::path::{Path, PathBuf};

use vestal_board::dispatch::Spawned;
use vestal_board::verbs::RunEnd;
use vestal_board::{Board, Error, Fence, Outcome, Result, Run, RunProcess, Task};
use vestal_config::ProfileName;

use crate::dispatcher::{DispatchEvent, Dispatcher, lock};
use crate::failpoint;
use crate::launcher::{LaunchError, LaunchSpec, Launched};
use crate::stop::has_reported;
use crate::workspace::{WorkspaceDir, WorkspaceError, Workspaces};

/// A run that holds its task and needs a worker.
#[derive(Debug)]
pub(crate) struct PendingStart {
    pub(crate) board: Board,
    pub(crate) run: Run,
    pub(crate) profile: ProfileName,
}

/// Reserves a directory while a worker is started in it.
#[derive(Debug)]
struct DirLock {
    dispatcher: Dispatcher,
    path: PathBuf,
}

impl Drop for DirLock {
    fn drop(&mut self) {
        lock(&self.dispatcher.shared.locked_dirs).remove(&self.path);
    }
}

impl Dispatcher {
    /// Starts a worker. Returns `None` if it could not be started or is not wanted any more.
    pub(crate) async fn launch(&self, pending: PendingStart) -> Option<Spawned> {
        match self.try_launch(&pending).await {
            Ok(spawned) => spawned,
            Err(error) => {
                self.emit_error(Some(pending.board.slug()), &error);
                None
            }
        }
    }

    async fn try_launch(&self, pending: &PendingStart) -> Result<Option<Spawned>> {
        let PendingStart { board, run, profile } = pending;
        let mut read = board.read().await?;
        let task = read.task(&run.task_id).await?;
        drop(read);
        // The task may have been taken away since, or this process slept.
        let Some(task) = task.filter(|task| task.current_run == Some(run.id)) else {
            return Ok(None);
        };
        let (dir, launched, _dir_lock) = match self.prepare(pending, &task).await {
            Ok(launched) => launched,
            Err(error) => return self.not_started(pending, &error).await,
        };
        failpoint::reach("dispatch.launched");
        let Launched { process, child } = launched;
        self.shared.children.adopt((board.slug().to_owned(), run.id), child);
        let process =
            RunProcess { host: board.host().clone(), pid: process.pid, start: process.start };
        let fence = Fence { task: task.id.clone(), run: run.id, profile: profile.clone() };
        let noted = board.started(&fence, process.clone(), &dir.name()).await;
        match noted {
            Ok(()) => {}
            Err(Error::Fenced { .. }) => {
                let now = board.read().await?.run(run.id).await?;
                // A fast worker may report before its start is recorded.
                if !now.as_ref().is_some_and(has_reported) {
                    let host = Some(process.host.clone());
                    let run = Run { host, process: Some(process), ..run.clone() };
                    self.stop_fenced(board, run).await?;
                    return Ok(None);
                }
            }
            // The worker records its start itself.
            Err(error) => self.emit_error(Some(board.slug()), &error),
        }
        let workspace = dir.name();
        self.emit(DispatchEvent::Started {
            board: board.slug().to_owned(),
            task: task.id.clone(),
            profile: profile.to_string(),
            workspace: workspace.clone(),
        });
        Ok(Some(Spawned { task_id: task.id, assignee: profile.to_string(), workspace }))
    }

    async fn prepare(
        &self,
        pending: &PendingStart,
        task: &Task,
    ) -> std::result::Result<(WorkspaceDir, Launched, Option<DirLock>), LaunchError> {
        let PendingStart { board, run, profile } = pending;
        let default = match board.info().await.map(|info| info.workdir_on(&board.host().name)) {
            Ok(default) => default,
            Err(error) => {
                self.emit_error(Some(board.slug()), &error);
                None
            }
        };
        let workspaces = Workspaces {
            board: board.dir(),
            default_workdir: default.as_deref(),
            git: &self.shared.git,
        };
        let dir = workspaces.make(&task.id, &task.workspace).await?;
        let dir_lock = match &dir.path {
            Some(path) => Some(self.lock_dir(board, run, path).await?),
            None => None,
        };
        if dir.branch.is_some()
            && let Err(error) = workspaces.keep_state(&task.id, run.id).await
        {
            // The work can be done; only what this attempt changes cannot be distinguished later.
            tracing::warn!(task = %task.id, %error, "the state of the working tree was not kept");
        }
        failpoint::reach("dispatch.workspace-made");
        let spec = LaunchSpec {
            board: board.slug().to_owned(),
            dir: board.dir().to_owned(),
            task: task.id.clone(),
            run: run.id,
            profile: profile.clone(),
            host: board.host().name.clone(),
            tenant: task.tenant.clone(),
            workspace: dir.clone(),
            lease: self.policy().lease,
            failures: Some(self.policy().failures),
        };
        let launched = self.options().launcher.launch(&spec).await?;
        Ok((dir, launched, dir_lock))
    }

    /// Reserves a directory for a worker until its start is recorded. That two tasks name the same
    /// working tree shows only once it exists.
    async fn lock_dir(
        &self,
        board: &Board,
        run: &Run,
        path: &Path,
    ) -> std::result::Result<DirLock, WorkspaceError> {
        let refused = |why: String| WorkspaceError::Path { path: path.to_owned(), reason: why };
        if !lock(&self.shared.locked_dirs).insert(path.to_owned()) {
            return Err(refused("another task is about to start in it".to_owned()));
        }
        let dir_lock = DirLock { dispatcher: self.clone(), path: path.to_owned() };
        let live = async { board.read().await?.live_runs().await };
        let live = live.await.map_err(|error| refused(error.to_string()))?;
        let other = live.iter().find(|other| {
            other.task_id != run.task_id
                && other.host_name() == run.host_name()
                && other.workspace.as_deref().is_some_and(|used| Path::new(used) == path)
        });
        match other {
            Some(other) => Err(refused(format!("task {} is using it", other.task_id))),
            None => Ok(dir_lock),
        }
    }

    async fn not_started(
        &self,
        pending: &PendingStart,
        error: &LaunchError,
    ) -> Result<Option<Spawned>> {
        let PendingStart { board, run, .. } = pending;
        let end =
            RunEnd { outcome: Outcome::SpawnFailed, error: error.to_string(), exit_code: None };
        board.end_run(run.id, end, &self.policy().failures).await?;
        self.emit(DispatchEvent::NotStarted {
            board: board.slug().to_owned(),
            task: run.task_id.clone(),
            error: error.to_string(),
        });
        Ok(None)
    }
}
