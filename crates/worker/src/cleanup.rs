//! Cleaning up: jobs, scratch directories and sandboxes of a task, after its own worker or one that died.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use vestal_board::{Board, Error as BoardError, RunId, Status, Task, TaskId, TaskWorkspace};
use vestal_config::Settings;
use vestal_conversations::{ConversationFilter, ConversationId, ConversationStore, ParentKind};
use vestal_sandbox::client::Connection;
use vestal_sandbox::files::{Depth, Files};
use vestal_sandbox::job::{self, JobFilter};
use vestal_sandbox::{
    Engine, Error, Error as SandboxError, FilesOnRemoval, Sandbox, SummaryState, TaskName,
};

use crate::log::TaskLog;
use crate::workspace::{self, WorkDirError};

/// The most jobs of a sandbox that are searched.
const JOBS: u32 = 10_000;
/// The most delegated conversations that are searched.
const CONVERSATIONS: u32 = 1000;

/// Why something could not be cleaned up.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CleanupError {
    /// The board cannot be read.
    #[error(transparent)]
    Board(#[from] BoardError),
    /// The sandbox cannot be reached.
    #[error(transparent)]
    Sandbox(#[from] Error),
    /// The sandbox's files cannot be reached.
    #[error(transparent)]
    WorkDir(#[from] WorkDirError),
    /// The guest refused.
    #[error(transparent)]
    Call(#[from] vestal_sandbox::client::CallError),
    /// A directory could not be removed.
    #[error("cannot remove {path}: {source}")]
    Scratch {
        path: String,
        /// Why.
        source: vestal_sandbox::files::FileError,
    },
    /// The conversations cannot be read.
    #[error(transparent)]
    Conversations(#[from] vestal_conversations::Error),
}

/// Returns the shell sessions of a conversation and of all conversations it delegated to.
pub(crate) async fn shell_sessions(
    store: &ConversationStore,
    conversation: &ConversationId,
) -> Result<BTreeSet<String>, CleanupError> {
    let filter = ConversationFilter {
        limit: CONVERSATIONS,
        include_delegated: true,
        ..ConversationFilter::default()
    };
    let others = store.list(&filter).await?;
    let mut family = BTreeSet::from([conversation.to_string()]);
    // Delegated conversations may delegate in turn, in any order of the list.
    loop {
        let before = family.len();
        for other in &others {
            let parent = other.conversation.parent.as_ref();
            let parent = parent.filter(|parent| parent.kind == ParentKind::Delegation);
            let parent = parent.and_then(|parent| parent.id.as_ref());
            if parent.is_some_and(|parent| family.contains(parent.as_str())) {
                family.insert(other.conversation.id.to_string());
            }
        }
        if family.len() == before {
            return Ok(family.into_iter().map(|id| format!("c-{id}")).collect());
        }
    }
}

/// Kills all jobs of these shell sessions and returns how many there were.
pub(crate) async fn stop_jobs(
    connection: &Connection,
    sessions: &BTreeSet<String>,
) -> Result<usize, CleanupError> {
    let jobs = job::jobs(connection, JobFilter::Running, JOBS).await?.jobs;
    let own = |session: &Option<String>| session.as_ref().is_some_and(|it| sessions.contains(it));
    let mut stopped = 0;
    for job in jobs.into_iter().filter(|job| own(&job.session)) {
        job::kill(connection, &job.id).await?;
        stopped += 1;
    }
    Ok(stopped)
}

/// Returns the profile's running sandboxes.
pub(crate) async fn running(engine: &Engine) -> Result<Vec<TaskName>, CleanupError> {
    let running = |state: &SummaryState| *state == SummaryState::Running;
    let found = engine.list().await?;
    let names = found.iter().filter(|one| running(&one.state)).map(|one| one.task.parse());
    Ok(names.filter_map(Result::ok).collect())
}

/// Reports whether a task is finished and no run holds it.
pub(crate) fn is_finished(task: &Task) -> bool {
    task.status.satisfies_children() && task.current_run.is_none()
}

/// Reports whether a task's scratch directory is not needed any more: the task is finished, and so
/// are its children, which may read it.
pub(crate) async fn is_scratch_unused(board: &Board, task: &Task) -> Result<bool, CleanupError> {
    if !is_finished(task) {
        return Ok(false);
    }
    if task.status == Status::Archived {
        return Ok(true);
    }
    let children = board.read().await?.children(&task.id).await?;
    Ok(children.iter().all(|child| child.status.satisfies_children()))
}

/// Removes the directories of a task in a shared sandbox.
pub(crate) async fn remove_scratch(sandbox: &Sandbox, task: &TaskId) -> Result<(), CleanupError> {
    let task_dir = workspace::task_dir(sandbox, task).await;
    let files = sandbox.files(None).await?;
    for path in [workspace::failed_dir(&task_dir), task_dir] {
        remove(&files, &path).await?;
    }
    Ok(())
}

async fn remove(files: &Files, path: &std::path::Path) -> Result<(), CleanupError> {
    if !workspace::is_there(files, path).await {
        return Ok(());
    }
    let failed = |source| CleanupError::Scratch { path: path.display().to_string(), source };
    files.delete(path, Depth::Recursive).await.map_err(failed)
}

/// Removes a task's own sandbox with its files. Mounted directories of the host stay.
pub(crate) async fn remove_own_sandbox(engine: &Engine, task: &TaskId) -> Result<(), CleanupError> {
    let name = workspace::own_sandbox(task);
    let mounted = format!("{name}@/");
    for found in engine.list().await? {
        if found.task != name && !found.task.starts_with(&mounted) {
            continue;
        }
        let Ok(sandbox) = found.task.parse::<TaskName>() else { continue };
        match engine.remove(&sandbox, FilesOnRemoval::Remove).await {
            Ok(_) | Err(Error::NoSandbox { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Removes the scratch directories of parents that were kept for a task which is finished now, as
/// far as they are in this sandbox.
pub(crate) async fn remove_parents_scratch(
    sandbox: &Sandbox,
    board: &Board,
    task: &Task,
) -> Result<(), CleanupError> {
    let parents = board.read().await?.parents(&task.id).await?;
    for parent in parents {
        let Ok(parent) = board.get(&parent.id).await else { continue };
        if parent.workspace == TaskWorkspace::Scratch && is_scratch_unused(board, &parent).await? {
            remove_scratch(sandbox, &parent.id).await?;
        }
    }
    Ok(())
}

/// What a sweep needs.
pub struct SweepParts {
    /// The board.
    pub board: Board,
    /// The task.
    pub task: TaskId,
    /// The run whose worker is gone.
    pub run: RunId,
    /// The settings of the profile.
    pub settings: Arc<Settings>,
    /// The engine of the worker's sandboxes.
    pub engine: Engine,
    /// The log of the task's workers.
    pub log: TaskLog,
}

/// Why a sweep could not clean up everything.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct SweepError(#[from] CleanupError);

/// Cleans up after a worker that died: kills its jobs, and removes the sandbox or scratch directory
/// of its task if that is finished. It can be repeated.
#[boxed]
pub async fn sweep(parts: SweepParts) -> Result<(), SweepError> {
    Ok(sweep_all(&parts).await?)
}

async fn sweep_all(parts: &SweepParts) -> Result<(), CleanupError> {
    let SweepParts { board, engine, log, .. } = parts;
    let run = board.read().await?.run(parts.run).await?;
    let conversation = run.and_then(|run| run.session_id);
    let conversation = conversation.and_then(|id| id.parse::<ConversationId>().ok());
    if let Some(conversation) = conversation {
        let stopped = stop_remaining_jobs(parts, &conversation).await?;
        if stopped > 0 {
            log.write(&format!("run {}: stopped {stopped} jobs of the dead worker", parts.run));
        }
    }
    let (finished, over) = match board.get(&parts.task).await {
        Ok(task) => (is_finished(&task), is_scratch_unused(board, &task).await?),
        // A deleted task needs nothing any more.
        Err(BoardError::NotFound { .. }) => (true, true),
        Err(error) => return Err(error.into()),
    };
    if finished {
        remove_own_sandbox(engine, &parts.task).await?;
    }
    if !over {
        return Ok(());
    }
    let shared = TaskName::default_task();
    match engine.inspect(&engine.scoped(&shared)?).await {
        Err(SandboxError::NoSandbox { .. }) => Ok(()),
        Err(error) => Err(error.into()),
        Ok(_) => {
            let sandbox = Box::pin(engine.sandbox(&shared)).await?;
            remove_scratch(&sandbox, &parts.task).await
        }
    }
}

/// Kills the jobs of a conversation in all running sandboxes.
async fn stop_remaining_jobs(
    parts: &SweepParts,
    conversation: &ConversationId,
) -> Result<usize, CleanupError> {
    let path = parts.settings.home().dir().join("state.db");
    let Some(store) = ConversationStore::open_existing(path).await? else { return Ok(0) };
    let sessions = shell_sessions(&store, conversation).await?;
    let mut stopped = 0;
    for sandbox in running(&parts.engine).await? {
        match parts.engine.observe(&sandbox).await {
            Ok(connection) => stopped += stop_jobs(&connection, &sessions).await?,
            // The sandbox stopped meanwhile, and its jobs with it.
            Err(SandboxError::Stopped { .. } | SandboxError::NoSandbox { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    store.close().await?;
    Ok(stopped)
}
