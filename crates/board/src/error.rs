//! Errors of a board.

use std::io;
use std::path::PathBuf;

use vestal_config::ProfileName;

use crate::boards::BoardsError;
use crate::id::{HostName, InvalidTaskId, RunId, TaskId};
use crate::task::Status;

/// An error of a board. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no such task.
    #[error("there is no task {wanted:?}")]
    NotFound {
        /// What was looked for.
        wanted: String,
    },
    /// Several tasks match.
    #[error("{wanted:?} may mean {} tasks: {}", candidates.len(), candidates.iter().map(TaskId::as_str).collect::<Vec<_>>().join(", "))]
    Ambiguous {
        /// What was looked for.
        wanted: String,
        /// Some of the matches.
        candidates: Vec<TaskId>,
    },
    /// A text that is not a task id.
    #[error(transparent)]
    InvalidId(#[from] InvalidTaskId),
    /// An argument is invalid.
    #[error("{what} {reason}")]
    Invalid {
        /// What: `the title`, `--max-runtime`, …
        what: String,
        /// Why, to be read after it: `is empty`.
        reason: String,
    },
    /// An error about boards.
    #[error(transparent)]
    Boards(#[from] BoardsError),
    /// The state of the task does not allow this.
    #[error(transparent)]
    Refused(#[from] BoardRefusal),
    /// A worker that does not hold its task any more tried to change it.
    #[error(
        "run {run} does not hold task {task} any more{}; its changes are refused, so stop", successor(*now)
    )]
    Fenced {
        /// The task.
        task: TaskId,
        /// The run that asked.
        run: RunId,
        /// The run that holds it now, if one does.
        now: Option<RunId>,
    },
    /// A file or directory could not be created or read.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried: `make`, `read`, …
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Stored data cannot be parsed.
    #[error("{what} is unreadable: {reason}")]
    Unreadable {
        /// What.
        what: String,
        /// Why.
        reason: String,
    },
    /// The system provides no randomness.
    #[error("cannot generate a task id: {0}")]
    Name(io::Error),
    /// The database of the board cannot be used.
    #[error(transparent)]
    Database(#[from] vestal_database::Error),
}

/// Why a task cannot be changed as asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BoardRefusal {
    /// The status of the task does not allow it.
    #[error("cannot {verb} {task}: it is {status}")]
    Status {
        /// The verb.
        verb: &'static str,
        /// The task.
        task: TaskId,
        /// Where it stands.
        status: Status,
    },
    /// Another run holds it.
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
    /// It waits for its parents.
    #[error("cannot {verb} {task}: it waits for {}", names(parents))]
    UnfinishedParents {
        /// The verb.
        verb: &'static str,
        /// The task.
        task: TaskId,
        /// The parents, or some of them.
        parents: Vec<TaskId>,
    },
    /// It is to wait for its parents, but has no unfinished one.
    #[error("{task} waits for no other task; link it to the one it needs first")]
    NothingToWaitFor {
        /// The task.
        task: TaskId,
    },
    /// A task cannot wait for itself, directly or through others.
    #[error("{child} cannot wait for {parent}: {parent} waits for {child}{}", if parent == child { " (they are the same)" } else { "" })]
    Cycle {
        /// What would be waited for.
        parent: TaskId,
        /// What would wait.
        child: TaskId,
    },
    /// A directory is used by one task at a time.
    #[error("cannot {verb} {task}: task {by} is using {path}")]
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
    /// A worker named tasks that it did not create.
    #[error("these tasks were not created by this run: {}", names(tasks))]
    Phantoms {
        /// Which.
        tasks: Vec<TaskId>,
    },
    /// A worker creates too many tasks.
    #[error("a run may create at most {limit} tasks; this one has reached the limit")]
    TooMany {
        /// How many it may.
        limit: u32,
    },
    /// Tasks that create tasks would never end.
    #[error(
        "workers may create tasks at most {limit} levels deep; finish this task and let a person create further ones"
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
