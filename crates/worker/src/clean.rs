//! Leaving nothing behind: jobs, scratch places, sandboxes of a task's own.

use std::collections::BTreeSet;

use vestal_board::{Board, Error as BoardError, Status, Task, TaskId, Workspace};
use vestal_conversations::{ConversationId, Filter, ParentKind, Store};
use vestal_sandbox::client::Connection;
use vestal_sandbox::files::{Depth, Files};
use vestal_sandbox::job::{self, JobFilter};
use vestal_sandbox::{Engine, Error, FilesOnRemoval, Sandbox, SummaryState, Task as SandboxTask};

use crate::place::{self, PlaceError};

/// Jobs that are looked through for those of a conversation.
const JOBS: u32 = 10_000;
/// Helpers' conversations that are looked through for those of a worker.
const CONVERSATIONS: u32 = 1000;

/// Why something was left.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CleanError {
    /// The board cannot be read.
    #[error(transparent)]
    Board(#[from] BoardError),
    /// The sandbox cannot be reached.
    #[error(transparent)]
    Sandbox(#[from] Error),
    /// Nor can its files.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// The guest did not do it.
    #[error(transparent)]
    Call(#[from] vestal_sandbox::client::CallError),
    /// A directory could not be removed.
    #[error("{path}: {source}")]
    Scratch {
        /// Which.
        path: String,
        /// Why.
        source: vestal_sandbox::files::FileError,
    },
    /// The conversations cannot be read.
    #[error(transparent)]
    Conversations(#[from] vestal_conversations::Error),
}

/// Returns the names of the shells of a conversation and of its helpers.
pub(crate) async fn sessions(
    store: &Store,
    conversation: &ConversationId,
) -> Result<BTreeSet<String>, CleanError> {
    let filter = Filter { limit: CONVERSATIONS, include_delegated: true, ..Filter::default() };
    let others = store.list(&filter).await?;
    let mut family = BTreeSet::from([conversation.to_string()]);
    // Helpers may have helpers, however they are sorted.
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

/// Ends all jobs of these shells, with every process of theirs. Returns how
/// many there were.
pub(crate) async fn stop_jobs(
    connection: &Connection,
    sessions: &BTreeSet<String>,
) -> Result<usize, CleanError> {
    let jobs = job::jobs(connection, JobFilter::Running, JOBS).await?.jobs;
    let own = |session: &Option<String>| session.as_ref().is_some_and(|it| sessions.contains(it));
    let mut stopped = 0;
    for job in jobs.into_iter().filter(|job| own(&job.session)) {
        job::kill(connection, &job.id).await?;
        stopped += 1;
    }
    Ok(stopped)
}

/// Returns the sandboxes of the profile that run.
pub(crate) async fn running(engine: &Engine) -> Result<Vec<SandboxTask>, CleanError> {
    let running = |state: &SummaryState| *state == SummaryState::Running;
    let found = engine.list().await?;
    let names = found.iter().filter(|one| running(&one.state)).map(|one| one.task.parse());
    Ok(names.filter_map(Result::ok).collect())
}

/// Reports whether nobody works on a task any more, or will.
pub(crate) fn is_finished(task: &Task) -> bool {
    task.status.satisfies_children() && task.current_run.is_none()
}

/// Reports whether a task's scratch place is not needed any more: it is
/// finished, and so are the tasks that wait for it, which may look at what is there.
pub(crate) async fn is_over(board: &Board, task: &Task) -> Result<bool, CleanError> {
    if !is_finished(task) {
        return Ok(false);
    }
    if task.status == Status::Archived {
        return Ok(true);
    }
    let children = board.read().await?.children(&task.id).await?;
    Ok(children.iter().all(|child| child.status.satisfies_children()))
}

/// Removes what there is of a task in a sandbox that is not its own.
pub(crate) async fn remove_scratch(sandbox: &Sandbox, task: &TaskId) -> Result<(), CleanError> {
    let side = place::side(sandbox, task).await;
    let files = sandbox.files(None).await?;
    for path in [place::failed_side(&side), side] {
        remove(&files, &path).await?;
    }
    Ok(())
}

async fn remove(files: &Files, path: &std::path::Path) -> Result<(), CleanError> {
    if !place::is_there(files, path).await {
        return Ok(());
    }
    let failed = |source| CleanError::Scratch { path: path.display().to_string(), source };
    files.delete(path, Depth::Recursive).await.map_err(failed)
}

/// Removes the sandbox that is a task's own, with its files. A directory of the
/// host that is mounted in it is not among those.
pub(crate) async fn remove_own(engine: &Engine, task: &TaskId) -> Result<(), CleanError> {
    let name = place::own_sandbox(task);
    let mounted = format!("{name}@/");
    for found in engine.list().await? {
        if found.task != name && !found.task.starts_with(&mounted) {
            continue;
        }
        let Ok(sandbox) = found.task.parse::<SandboxTask>() else { continue };
        match engine.remove(&sandbox, FilesOnRemoval::Remove).await {
            Ok(_) | Err(Error::NoSandbox { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Removes, after a task is finished, the scratch places of tasks before it that
/// were kept for its sake, as far as they are in this sandbox.
pub(crate) async fn remove_parents_scratch(
    sandbox: &Sandbox,
    board: &Board,
    task: &Task,
) -> Result<(), CleanError> {
    let parents = board.read().await?.parents(&task.id).await?;
    for parent in parents {
        let Ok(parent) = board.get(&parent.id).await else { continue };
        if parent.workspace == Workspace::Scratch && is_over(board, &parent).await? {
            remove_scratch(sandbox, &parent.id).await?;
        }
    }
    Ok(())
}
