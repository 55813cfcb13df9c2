//! Starting a worker.

use std::path::{Path, PathBuf};

use vestal_board::dispatch::Spawned;
use vestal_board::verbs::RunEnd;
use vestal_board::{Board, Error, Fence, Outcome, Process, Result, Run, Task};
use vestal_config::ProfileName;

use crate::dispatcher::{Dispatcher, lock};
use crate::failpoint;
use crate::launch::{LaunchError, Launched, Order};
use crate::said::Said;
use crate::stopping::has_reported;
use crate::workspace::{Place, WorkspaceError, Workspaces};

/// A worker to be started for a run that holds its task.
#[derive(Debug)]
pub(crate) struct Launching {
    pub(crate) board: Board,
    pub(crate) run: Run,
    pub(crate) profile: ProfileName,
}

/// A directory that a worker is being started in.
#[derive(Debug)]
struct Taken {
    dispatcher: Dispatcher,
    path: PathBuf,
}

impl Drop for Taken {
    fn drop(&mut self) {
        lock(&self.dispatcher.shared.taken).remove(&self.path);
    }
}

impl Dispatcher {
    /// Starts a worker; nothing, where it could not be started or is not wanted
    /// any more.
    pub(crate) async fn launch(&self, launching: Launching) -> Option<Spawned> {
        match self.try_launch(&launching).await {
            Ok(spawned) => spawned,
            Err(error) => {
                self.tell_trouble(Some(launching.board.slug()), &error);
                None
            }
        }
    }

    async fn try_launch(&self, launching: &Launching) -> Result<Option<Spawned>> {
        let Launching { board, run, profile } = launching;
        let mut read = board.read().await?;
        let task = read.task(&run.task_id).await?;
        drop(read);
        // It may have been taken away since, or this process slept meanwhile.
        let Some(task) = task.filter(|task| task.current_run == Some(run.id)) else {
            return Ok(None);
        };
        let (place, launched, _taken) = match self.prepare(launching, &task).await {
            Ok(launched) => launched,
            Err(error) => return self.not_started(launching, &error).await,
        };
        failpoint::reach("dispatch.launched");
        let Launched { process, child } = launched;
        self.shared.children.adopt((board.slug().to_owned(), run.id), child);
        let process =
            Process { host: board.host().clone(), pid: process.pid, start: process.start };
        let fence = Fence { task: task.id.clone(), run: run.id, profile: profile.clone() };
        let noted = board.started(&fence, process.clone(), &place.name()).await;
        match noted {
            Ok(()) => {}
            Err(Error::Fenced { .. }) => {
                let now = board.read().await?.run(run.id).await?;
                // A fast worker has reported before its start was noted.
                if !now.as_ref().is_some_and(has_reported) {
                    let host = Some(process.host.clone());
                    let run = Run { host, process: Some(process), ..run.clone() };
                    self.stop_fenced(board, run).await?;
                    return Ok(None);
                }
            }
            // The worker writes down itself that it was started.
            Err(error) => self.tell_trouble(Some(board.slug()), &error),
        }
        let workspace = place.name();
        self.tell(Said::Started {
            board: board.slug().to_owned(),
            task: task.id.clone(),
            profile: profile.to_string(),
            workspace: workspace.clone(),
        });
        Ok(Some(Spawned { task_id: task.id, assignee: profile.to_string(), workspace }))
    }

    async fn prepare(
        &self,
        launching: &Launching,
        task: &Task,
    ) -> std::result::Result<(Place, Launched, Option<Taken>), LaunchError> {
        let Launching { board, run, profile } = launching;
        let default = match self.default_workdir(board).await {
            Ok(default) => default,
            Err(error) => {
                self.tell_trouble(Some(board.slug()), &error);
                None
            }
        };
        let workspaces = Workspaces {
            board: board.dir(),
            default_workdir: default.as_deref(),
            git: &self.shared.git,
        };
        let place = workspaces.make(&task.id, &task.workspace).await?;
        let taken = match &place.path {
            Some(path) => Some(self.take_place(board, run, path).await?),
            None => None,
        };
        failpoint::reach("dispatch.workspace-made");
        let order = Order {
            board: board.slug().to_owned(),
            dir: board.dir().to_owned(),
            task: task.id.clone(),
            run: run.id,
            profile: profile.clone(),
            host: board.host().name.clone(),
            tenant: task.tenant.clone(),
            place: place.clone(),
            lease: self.policy().lease,
            failures: Some(self.policy().failures),
        };
        let launched = self.options().launcher.launch(&order).await?;
        Ok((place, launched, taken))
    }

    /// Takes a directory for a worker, until its start is written down. Two
    /// tasks may name one working tree, which only shows when it is there.
    async fn take_place(
        &self,
        board: &Board,
        run: &Run,
        path: &Path,
    ) -> std::result::Result<Taken, WorkspaceError> {
        let refused = |why: String| WorkspaceError::Path { path: path.to_owned(), reason: why };
        if !lock(&self.shared.taken).insert(path.to_owned()) {
            return Err(refused("another task is about to be at work in it".to_owned()));
        }
        let taken = Taken { dispatcher: self.clone(), path: path.to_owned() };
        let live = async { board.read().await?.live_runs().await };
        let live = live.await.map_err(|error| refused(error.to_string()))?;
        let other = live.iter().find(|other| {
            other.task_id != run.task_id
                && other.host_name() == run.host_name()
                && other.workspace.as_deref().is_some_and(|used| Path::new(used) == path)
        });
        match other {
            Some(other) => Err(refused(format!("{} is at work in it", other.task_id))),
            None => Ok(taken),
        }
    }

    async fn not_started(
        &self,
        launching: &Launching,
        error: &LaunchError,
    ) -> Result<Option<Spawned>> {
        let Launching { board, run, .. } = launching;
        let end =
            RunEnd { outcome: Outcome::SpawnFailed, error: error.to_string(), exit_code: None };
        board.end_run(run.id, end, &self.policy().failures).await?;
        self.tell(Said::NotStarted {
            board: board.slug().to_owned(),
            task: run.task_id.clone(),
            error: error.to_string(),
        });
        Ok(None)
    }
}
