//! What a merge is asked to do, what it would do, and what is in its way.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use vestal_board::{RunId, TaskId};

use crate::diff::DiffError;
use crate::workspace::WorkspaceError;

/// How changes are merged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum MergeMethod {
    /// As one commit, with what is not committed.
    #[default]
    Squash,
    /// As a merge commit of the task's branch; what is not committed is a commit of its own.
    Merge,
    /// The branch moves on to that of the task.
    FastForward,
}

impl MergeMethod {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Squash, Self::Merge, Self::FastForward];

    /// Returns the public name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Squash => "squash",
            Self::Merge => "merge",
            Self::FastForward => "fast-forward",
        }
    }
}

impl fmt::Display for MergeMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for MergeMethod {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|method| method.as_str() == text);
        found.ok_or_else(|| {
            format!("{text:?} is not a way to merge; there are: squash, merge, fast-forward")
        })
    }
}

/// What is to be merged, and how.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MergeRequest {
    /// The branch; the one that is checked out in the repository unless given.
    pub into: Option<String>,
    /// How.
    pub method: MergeMethod,
    /// Only what there was when this attempt ended; a squash. None: what there is now.
    pub attempt: Option<RunId>,
    /// The message of the commit; the title of the task unless given.
    pub message: Option<String>,
}

/// What a merge would do, and what stands in its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergePlan {
    /// The repository.
    pub repository: PathBuf,
    /// The branch of the task.
    pub branch: String,
    /// The branch that it is merged into.
    pub into: String,
    /// The working tree that has that branch checked out.
    pub checked_out: Option<PathBuf>,
    /// How.
    pub method: MergeMethod,
    /// Commits of the task that the branch does not have.
    pub commits: u64,
    /// Whether there is something that the task has not committed.
    pub uncommitted: bool,
    /// The files that change on the branch.
    pub files: Vec<PathBuf>,
    /// What stands in the way; nothing: it can be merged.
    pub obstacles: Vec<MergeObstacle>,
}

/// Something that stands in the way of a merge. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MergeObstacle {
    /// Somebody works on it.
    #[error(
        "the task is being worked on, so what it changes is not settled; wait for it, or take it away with `vestal kanban reclaim`"
    )]
    Running,
    /// The same lines were changed on both sides.
    #[error(
        "these files conflict: {}; resolve that in the task's working tree, or send the task back", listed(.0)
    )]
    Conflicts(Vec<PathBuf>),
    /// Local changes would be overwritten.
    #[error(
        "{} has changes of its own to files that would change: {}; commit or stash them first", .tree.display(), listed(.files)
    )]
    InTheWay {
        /// The working tree that has the branch checked out.
        tree: PathBuf,
        /// The files.
        files: Vec<PathBuf>,
    },
    /// Files that are too large to be looked at would be missing.
    #[error("these files are too large, or no files, and would be left out: {}", listed(.0))]
    LeftOut(Vec<PathBuf>),
    /// A fast-forward needs commits.
    #[error(
        "the task has not committed all of its changes, so there is nothing to fast-forward to; use squash or merge"
    )]
    Uncommitted,
    /// The branch has commits that the task does not know.
    #[error(
        "the branch {into} has commits that the task's branch does not have; use squash or merge"
    )]
    Diverged {
        /// The branch.
        into: String,
    },
    /// There is nothing to be merged.
    #[error("the branch has all of it already")]
    Nothing,
    /// Git does not know who makes the commit.
    #[error(
        "git does not know who you are: {0}; tell it with `git config --global user.name NAME` and `git config --global user.email ADDRESS`"
    )]
    NoIdentity(String),
}

/// Files that are named in a message.
const NAMED: usize = 5;

fn listed(files: &[PathBuf]) -> String {
    let mut names: Vec<String> =
        files.iter().take(NAMED).map(|path| path.display().to_string()).collect();
    if files.len() > NAMED {
        names.push(format!("and {} more", files.len() - NAMED));
    }
    names.join(", ")
}

/// What was merged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Merged {
    /// As it was planned.
    pub plan: MergePlan,
    /// The commit that the branch is at now.
    pub commit: String,
}

/// Why nothing was merged. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    /// There is nothing available of the task.
    #[error(transparent)]
    Diff(#[from] DiffError),
    /// The board cannot be read.
    #[error(transparent)]
    Board(#[from] vestal_board::Error),
    /// The branch cannot be merged into.
    #[error("cannot merge into {into:?}: {reason}")]
    Branch {
        /// The branch, as it was named.
        into: String,
        /// Why.
        reason: &'static str,
    },
    /// Something stands in the way.
    #[error("cannot merge task {task} into {}: {}", .plan.into, reasons(.plan))]
    Refused {
        /// The task.
        task: TaskId,
        /// What would be done, with the obstacles.
        plan: Box<MergePlan>,
    },
}

impl From<WorkspaceError> for MergeError {
    fn from(error: WorkspaceError) -> Self {
        Self::Diff(error.into())
    }
}

fn reasons(plan: &MergePlan) -> String {
    let all: Vec<String> = plan.obstacles.iter().map(ToString::to_string).collect();
    all.join("; ")
}
