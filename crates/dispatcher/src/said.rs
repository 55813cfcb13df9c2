//! What a dispatcher tells whoever watches it.

use std::fmt;
use std::path::PathBuf;

use vestal_board::{Outcome, TaskId};

/// Something that a dispatcher did or found, as it happens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
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
    /// A worker ended, after it had said what came of its task.
    Finished {
        /// The board.
        board: String,
        /// The task.
        task: TaskId,
        /// How its run ended.
        outcome: Outcome,
    },
    /// A run ended without a word of its worker, and the books were put right.
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
    /// A worker does not go, not even killed; it keeps its task.
    Survived {
        /// The board.
        board: String,
        /// The task.
        task: TaskId,
        /// What is left of it.
        pids: Vec<u32>,
    },
    /// Tasks wait for a profile that does not exist. It is said once.
    UnknownProfile {
        /// Its name.
        name: String,
    },
    /// What is not needed any more was removed.
    Collected {
        /// The board.
        board: String,
        /// What.
        what: crate::gc::Collected,
    },
    /// A working tree of a finished task was left alone. It is said once.
    KeptTree {
        /// The tree.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// Something does not work; it is tried again. It is said once.
    Trouble {
        /// The board, where it is about one.
        board: Option<String>,
        /// What.
        what: String,
    },
}

impl fmt::Display for Said {
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
                write!(f, "{board}: the worker of {task} does not go (processes {pids:?})")
            }
            Self::UnknownProfile { name } => {
                write!(f, "there is no profile {name}; its tasks wait to be claimed by hand")
            }
            Self::Collected { board, what } => write!(f, "{board}: removed {what}"),
            Self::KeptTree { path, reason } => write!(f, "kept {}: {reason}", path.display()),
            Self::Trouble { board: Some(board), what } => write!(f, "{board}: {what}"),
            Self::Trouble { board: None, what } => f.write_str(what),
        }
    }
}
