//! What can go wrong.

use std::io;
use std::path::PathBuf;

use vestal_config::ProfileName;

use crate::boards::BoardsError;
use crate::host::HostName;
use crate::id::{InvalidId, RunId, TaskId};
use crate::status::Status;

/// Why a board did not do what it was asked. Unless it says otherwise, nothing
/// was changed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no such task.
    #[error("there is no task {wanted:?}")]
    NotFound {
        /// What was looked for.
        wanted: String,
    },
    /// Several tasks begin like that.
    #[error("{wanted:?} may mean {} tasks: {}", candidates.len(), candidates.iter().map(TaskId::as_str).collect::<Vec<_>>().join(", "))]
    Ambiguous {
        /// What was looked for.
        wanted: String,
        /// Some of those it may mean.
        candidates: Vec<TaskId>,
    },
    /// A text that names no task.
    #[error(transparent)]
    InvalidId(#[from] InvalidId),
    /// What was given cannot be taken.
    #[error("{what} {reason}")]
    Invalid {
        /// What: `the title`, `--max-runtime`, …
        what: String,
        /// Why, to be read after it: `is empty`.
        reason: String,
    },
    /// Something about a board as such.
    #[error(transparent)]
    Boards(#[from] BoardsError),
    /// The task is not in a state for this.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A worker that does not hold its task any more asked for a change.
    #[error(
        "run {run} does not hold task {task} any more{}; nothing it does counts, so stop", successor(*now)
    )]
    Fenced {
        /// The task.
        task: TaskId,
        /// The run that asked.
        run: RunId,
        /// The run that holds it now, if one does.
        now: Option<RunId>,
    },
    /// A file or directory could not be made or read.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried: `make`, `read`, …
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// What is stored does not read as what it should be.
    #[error("{what} is unreadable: {reason}")]
    Unreadable {
        /// What.
        what: String,
        /// Why.
        reason: String,
    },
    /// The system has no randomness to give.
    #[error("failed to name a task: {0}")]
    Name(io::Error),
    /// The file of the board cannot be used.
    #[error(transparent)]
    Database(#[from] vestal_database::Error),
}

/// Why a task cannot go where somebody wants it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The verb means nothing for a task of this status.
    #[error("cannot {verb} {task}: it is {status}")]
    Status {
        /// The verb.
        verb: &'static str,
        /// The task.
        task: TaskId,
        /// Where it stands.
        status: Status,
    },
    /// Somebody else holds it.
    #[error("cannot {verb} {task}: {owner} holds it (run {run})")]
    Held {
        /// The verb.
        verb: &'static str,
        /// The task.
        task: TaskId,
        /// The run.
        run: RunId,
        /// Who.
        owner: String,
    },
    /// It waits for other tasks.
    #[error("cannot {verb} {task}: it waits for {}", names(parents))]
    UnfinishedParents {
        /// The verb.
        verb: &'static str,
        /// The task.
        task: TaskId,
        /// Those it waits for, or some of them.
        parents: Vec<TaskId>,
    },
    /// It is said to wait for other tasks, but is linked to none that is not done.
    #[error("{task} waits for no other task; link it to the one it needs first")]
    NothingToWaitFor {
        /// The task.
        task: TaskId,
    },
    /// A task cannot wait for itself, not even by way of others.
    #[error("{child} cannot wait for {parent}: {parent} waits for {child}{}", if parent == child { " (they are the same)" } else { "" })]
    Cycle {
        /// What would be waited for.
        parent: TaskId,
        /// What would wait.
        child: TaskId,
    },
    /// A directory is used by one task at a time.
    #[error("cannot {verb} {task}: {by} is at work in {path}")]
    WorkspaceBusy {
        /// The verb.
        verb: &'static str,
        /// The task.
        task: TaskId,
        /// Who uses it.
        by: TaskId,
        /// The directory.
        path: String,
    },
    /// Its directory is on another host.
    #[error("cannot {verb} {task}: its directory is on {host}")]
    OtherHost {
        /// The verb.
        verb: &'static str,
        /// The task.
        task: TaskId,
        /// The host.
        host: HostName,
    },
    /// A worker may change its own task only.
    #[error("cannot {verb} {task}: a worker may change its own task only")]
    NotYours {
        /// The verb.
        verb: &'static str,
        /// The task.
        task: TaskId,
    },
    /// A worker named tasks that it did not make.
    #[error("these are not tasks that were made in this run: {}", names(tasks))]
    Phantoms {
        /// Which.
        tasks: Vec<TaskId>,
    },
    /// A worker makes too many tasks.
    #[error("a run may make {limit} tasks, and this one did")]
    TooMany {
        /// How many it may.
        limit: u32,
    },
    /// Workers whose workers make tasks would never come to an end.
    #[error(
        "tasks may be made by workers {limit} deep, and this would be deeper; finish, and let a person decide"
    )]
    TooDeep {
        /// How deep.
        limit: u32,
    },
    /// There is no such profile.
    #[error("there is no profile {name}")]
    NoProfile {
        /// The name.
        name: ProfileName,
    },
}

fn names(tasks: &[TaskId]) -> String {
    tasks.iter().map(TaskId::as_str).collect::<Vec<_>>().join(", ")
}

fn successor(now: Option<RunId>) -> String {
    now.map_or_else(String::new, |run| format!(": run {run} does"))
}
