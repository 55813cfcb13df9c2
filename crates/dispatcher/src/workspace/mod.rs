//! Where a task is worked on: nothing on the host, a directory of it, or a
//! working tree of a git repository.

mod git;
mod path;
mod record;
mod worktree;

use std::io;
use std::path::{Path, PathBuf};

pub(crate) use git::Git;
pub(crate) use worktree::{Kept, Removed};

use vestal_board::{TaskId, Workspace};

/// A place to work, ready to be used.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Place {
    /// The directory of the host; none: one inside the sandbox.
    pub path: Option<PathBuf>,
    /// The branch that is checked out there.
    pub branch: Option<String>,
}

impl Place {
    /// Returns it in words.
    pub fn name(&self) -> String {
        self.path.as_ref().map_or_else(|| "scratch".to_owned(), |path| path.display().to_string())
    }
}

/// Why there is no place to work.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    /// The path cannot be used.
    #[error("cannot work in {}: {reason}", path.display())]
    Path {
        /// The path.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// A directory or file could not be made or read.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Git refused.
    #[error("git {command} failed: {said}")]
    Git {
        /// What it was asked.
        command: String,
        /// What it said.
        said: String,
    },
    /// A task wants a working tree, and nothing says of which repository.
    #[error(
        "the task names no repository and the board has no default directory; set one with `vestal kanban boards set-default-workdir`"
    )]
    NoRepository,
}

impl WorkspaceError {
    pub(crate) fn path(path: &Path, reason: impl Into<String>) -> Self {
        Self::Path { path: path.to_owned(), reason: reason.into() }
    }

    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }
}

/// Makes the workspaces of a board's tasks.
#[derive(Debug)]
pub(crate) struct Workspaces<'a> {
    /// The board's directory, where it is written down which trees were made.
    pub(crate) board: &'a Path,
    /// The repository of tasks that name none.
    pub(crate) default_workdir: Option<&'a Path>,
    /// How git is run.
    pub(crate) git: &'a Git,
}

impl Workspaces<'_> {
    /// Makes a place to work, or finds the one that an earlier run had.
    pub(crate) async fn make(
        &self,
        task: &TaskId,
        workspace: &Workspace,
    ) -> Result<Place, WorkspaceError> {
        match workspace {
            Workspace::Scratch => Ok(Place::default()),
            Workspace::Dir { path } => {
                let path = self.or_default(path)?;
                path::make_dir(path)?;
                Ok(Place { path: Some(path.to_owned()), branch: None })
            }
            Workspace::Worktree { path, branch } => {
                worktree::make(self, task, self.or_default(path)?, branch.as_deref()).await
            }
        }
    }

    fn or_default<'p>(&'p self, path: &'p Path) -> Result<&'p Path, WorkspaceError> {
        if path.as_os_str().is_empty() {
            self.default_workdir.ok_or(WorkspaceError::NoRepository)
        } else {
            Ok(path)
        }
    }

    /// Removes the working tree of a task that is finished.
    pub(crate) async fn remove(&self, task: &TaskId) -> Result<Removed, WorkspaceError> {
        worktree::remove(self, task).await
    }

    /// Returns what removing the working tree of a task would come to.
    pub(crate) async fn would_remove(&self, task: &TaskId) -> Result<Removed, WorkspaceError> {
        worktree::would_remove(self, task).await
    }

    /// Returns the tasks that trees were made for, on this host.
    pub(crate) fn tasks_with_trees(&self) -> Result<Vec<TaskId>, WorkspaceError> {
        record::tasks(self.board)
    }
}

#[cfg(test)]
#[path = "workspace_tests.rs"]
mod tests;
