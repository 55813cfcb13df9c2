//! Events that a dispatcher reports to its host.

use std::fmt;
use std::path::PathBuf;

use vestal_board::{Outcome, TaskId};

/// Something that a dispatcher did or found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DispatchEvent {
    /// A worker was started.
    Started {
        /// The board.
        board: String,
        /// The task.
        task: TaskId,
        /// The profile that works.
        profile: String,
        /// Where.
        workspace: String,
    },
    /// A worker could not be started.
    NotStarted {
        /// The board.
        board: String,
        /// The task.
        task: TaskId,
        /// Why.
        error: String,
    },
    /// A worker exited after it had reported.
    Finished {
        /// The board.
        board: String,
        /// The task.
        task: TaskId,
        /// How its run ended.
        outcome: Outcome,
    },
    /// A run ended without a report of its worker, and the board was corrected.
    Ended {
        /// The board.
        board: String,
        /// The task.
        task: TaskId,
        /// How.
        outcome: Outcome,
        /// Why.
        reason: String,
    },
    /// A worker whose run had ended was stopped.
    Stopped {
        /// The board.
        board: String,
        /// The task.
        task: TaskId,
    },
    /// A worker survived SIGKILL; it keeps its task.
    Survived {
        /// The board.
        board: String,
        /// The task.
        task: TaskId,
        /// Its remaining processes.
        pids: Vec<u32>,
    },
    /// Tasks are assigned to a profile that does not exist. Emitted once.
    UnknownProfile {
        /// Its name.
        name: String,
    },
    /// A clean-up removed something.
    Collected {
        /// The board.
        board: String,
        /// What.
        what: crate::gc::CollectedLeftovers,
    },
    /// The working tree of a finished task was kept. Emitted once.
    KeptTree {
        /// The tree.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// Something failed and is tried again. Emitted once.
    Problem {
        /// The board, where it is about one.
        board: Option<String>,
        /// What.
        what: String,
    },
}

impl fmt::Display for DispatchEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Started { board, task, profile, workspace } => {
                write!(f, "{board}: started {task} as {profile} @ {workspace}")
            }
            Self::NotStarted { board, task, error } => {
                write!(f, "{board}: could not start {task}: {error}")
            }
            Self::Finished { board, task, outcome } => write!(f, "{board}: {task} {outcome}"),
            Self::Ended { board, task, outcome, reason } => {
                write!(f, "{board}: {task} {outcome}: {reason}")
            }
            Self::Stopped { board, task } => write!(f, "{board}: stopped the worker of {task}"),
            Self::Survived { board, task, pids } => {
                write!(f, "{board}: the worker of {task} cannot be killed (processes {pids:?})")
            }
            Self::UnknownProfile { name } => {
                write!(f, "profile {name} does not exist; its tasks wait to be claimed by hand")
            }
            Self::Collected { board, what } => write!(f, "{board}: removed {what}"),
            Self::KeptTree { path, reason } => write!(f, "kept {}: {reason}", path.display()),
            Self::Problem { board: Some(board), what } => write!(f, "{board}: {what}"),
            Self::Problem { board: None, what } => f.write_str(what),
        }
    }
}
