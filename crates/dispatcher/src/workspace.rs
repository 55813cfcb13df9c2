//! Where a task is worked on: in its sandbox, in a directory of the host, or in a git working tree.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};
use vestal_board::{TaskId, TaskWorkspace};
use vestal_config::{Environment, too_wide};

use crate::git::{GIT_TIMEOUT, Git};
use crate::worktree::root_for;

/// The directory that a worker gets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkspaceDir {
    /// A directory of the host; `None` for one inside the sandbox.
    pub path: Option<PathBuf>,
    /// The branch that is checked out there.
    pub branch: Option<String>,
}

impl WorkspaceDir {
    /// Returns the path, or `scratch`.
    pub fn name(&self) -> String {
        self.path.as_ref().map_or_else(|| "scratch".to_owned(), |path| path.display().to_string())
    }
}

/// Why a workspace cannot be used.
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
    /// The directory is not there.
    #[error("cannot work in {}: there is no such directory", path.display())]
    Missing {
        /// The path.
        path: PathBuf,
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
    #[error("git {command} failed: {stderr}")]
    Git {
        /// Where it was run.
        command: String,
        /// What it printed, or how it ended.
        stderr: String,
    },
    /// Git printed more than is read.
    #[error("git in {} printed more than {most} bytes", dir.display())]
    TooMuch {
        /// Where it was run.
        dir: PathBuf,
        /// What is read at most.
        most: u64,
    },
    /// A task needs a working tree, and no repository is named.
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
    /// Creates the workspace of a task, or finds the one of an earlier run.
    pub(crate) async fn make(
        &self,
        task: &TaskId,
        workspace: &TaskWorkspace,
    ) -> Result<WorkspaceDir, WorkspaceError> {
        match workspace {
            TaskWorkspace::Scratch => Ok(WorkspaceDir::default()),
            TaskWorkspace::Dir { path } => {
                let path = self.or_default(path)?;
                make_dir(path)?;
                Ok(WorkspaceDir { path: Some(path.to_owned()), branch: None })
            }
            TaskWorkspace::Worktree { path, branch } => {
                self.make_tree(task, self.or_default(path)?, branch.as_deref()).await
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

    /// Returns the tasks that have working trees on this host.
    pub(crate) fn tasks_with_trees(&self) -> Result<Vec<TaskId>, WorkspaceError> {
        recorded_tasks(self.board)
    }
}

/// Refuses the workspace of a task that is to be made, if no worker could begin in it: a directory
/// that is not there, one of the system, a place in no repository. Nothing is made.
pub async fn check_workspace(
    workspace: &TaskWorkspace,
    default_workdir: Option<&Path>,
    environment: &Environment,
) -> Result<(), WorkspaceError> {
    let git = Git::new(environment, GIT_TIMEOUT);
    let workspaces = Workspaces { board: Path::new(""), default_workdir, git: &git };
    match workspace {
        TaskWorkspace::Scratch => Ok(()),
        TaskWorkspace::Dir { path } => {
            let path = workspaces.or_default(path)?;
            check_path(path)?;
            if let Some(reason) = too_wide(path, environment.user_home().as_deref()) {
                return Err(WorkspaceError::path(path, reason));
            }
            match fs::metadata(path) {
                Ok(found) if found.is_dir() => Ok(()),
                Ok(_) => Err(WorkspaceError::path(path, "it is not a directory")),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    Err(WorkspaceError::Missing { path: path.to_owned() })
                }
                Err(error) => Err(WorkspaceError::io("look at", path)(error)),
            }
        }
        TaskWorkspace::Worktree { path, .. } => {
            let path = workspaces.or_default(path)?;
            check_path(path)?;
            root_for(&workspaces, path).await.map(drop)
        }
    }
}

/// Refuses a path that is not absolute, has `.` or `..` in it, or leads through a symbolic link.
/// Otherwise two tasks could share a directory unnoticed, and a planted link could send a worker to
/// any directory.
pub(crate) fn check_path(path: &Path) -> Result<(), WorkspaceError> {
    if !path.is_absolute() {
        return Err(WorkspaceError::path(path, "the path is not absolute"));
    }
    let plain = path
        .components()
        .all(|component| matches!(component, Component::RootDir | Component::Normal(_)));
    if !plain || path.as_os_str().as_encoded_bytes().windows(3).any(|part| part == b"/./") {
        return Err(WorkspaceError::path(path, "the path has . or .. in it"));
    }
    if path.parent().is_none() {
        return Err(WorkspaceError::path(path, "it is the root directory"));
    }
    let mut existing = path;
    let real = loop {
        match fs::canonicalize(existing) {
            Ok(real) => break real,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // A dangling link exists all the same.
                if fs::symlink_metadata(existing).is_ok() {
                    return Err(WorkspaceError::path(
                        path,
                        format!("{} is a dangling symbolic link", existing.display()),
                    ));
                }
                existing = existing
                    .parent()
                    .ok_or_else(|| WorkspaceError::path(path, "no part of it exists"))?;
            }
            Err(error) => return Err(WorkspaceError::io("look at", existing)(error)),
        }
    };
    if real != existing {
        return Err(WorkspaceError::path(
            path,
            format!(
                "{} leads through a symbolic link to {}; use that path",
                existing.display(),
                real.display()
            ),
        ));
    }
    Ok(())
}

/// Creates a directory unless it exists.
pub(crate) fn make_dir(path: &Path) -> Result<(), WorkspaceError> {
    check_path(path)?;
    fs::create_dir_all(path).map_err(WorkspaceError::io("make", path))?;
    // Again: a link may have been planted meanwhile.
    check_path(path)?;
    if path.is_dir() { Ok(()) } else { Err(WorkspaceError::path(path, "it is not a directory")) }
}

const VERSION: u64 = 1;
const SUFFIX: &str = ".json";

/// A working tree that was created, or is about to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WorktreeRecord {
    version: u64,
    /// The repository's own working tree.
    pub(crate) repository: PathBuf,
    pub(crate) tree: PathBuf,
    pub(crate) branch: String,
    /// Whether the branch was made for the task.
    pub(crate) made_branch: bool,
    /// The commit that the tree began with; records of earlier versions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) base: Option<String>,
}

impl WorktreeRecord {
    pub(crate) fn new(
        repository: PathBuf,
        tree: PathBuf,
        branch: String,
        made_branch: bool,
        base: Option<String>,
    ) -> Self {
        Self { version: VERSION, repository, tree, branch, made_branch, base }
    }

    pub(crate) fn read(board: &Path, task: &TaskId) -> Result<Option<Self>, WorkspaceError> {
        let path = record_path(board, task);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(WorkspaceError::io("read", &path)(error)),
        };
        let record: Self = serde_json::from_slice(&text)
            .map_err(|error| WorkspaceError::io("read", &path)(error.into()))?;
        if record.version > VERSION {
            let newer = io::Error::other("it was written by a newer vestal");
            return Err(WorkspaceError::io("read", &path)(newer));
        }
        Ok(Some(record))
    }

    /// Writes the record by rename, before the tree is created.
    pub(crate) fn write(&self, board: &Path, task: &TaskId) -> Result<(), WorkspaceError> {
        use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};

        let path = record_path(board, task);
        let write = || {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(record_dir(board))?;
            let aside = path.with_extension("new");
            let mut file = fs::OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(&aside)?;
            file.write_all(&serde_json::to_vec(self)?)?;
            file.sync_all()?;
            fs::rename(&aside, &path)
        };
        write().map_err(WorkspaceError::io("write", &path))
    }

    pub(crate) fn forget(board: &Path, task: &TaskId) -> Result<(), WorkspaceError> {
        let path = record_path(board, task);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(WorkspaceError::io("remove", &path)(error))
            }
            _ => Ok(()),
        }
    }
}

/// Returns the tasks that have a record.
pub(crate) fn recorded_tasks(board: &Path) -> Result<Vec<TaskId>, WorkspaceError> {
    let dir = record_dir(board);
    let entries = match fs::read_dir(&dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(WorkspaceError::io("read", &dir)(error)),
    };
    let mut tasks = Vec::new();
    for entry in entries {
        let entry = entry.map_err(WorkspaceError::io("read", &dir))?;
        let name = entry.file_name();
        let task = name.to_str().and_then(|name| name.strip_suffix(SUFFIX));
        tasks.extend(task.and_then(|task| task.parse::<TaskId>().ok()));
    }
    tasks.sort();
    Ok(tasks)
}

fn record_dir(board: &Path) -> PathBuf {
    board.join("worktrees")
}

fn record_path(board: &Path, task: &TaskId) -> PathBuf {
    record_dir(board).join(format!("{task}{SUFFIX}"))
}

#[cfg(test)]
#[path = "workspace_tests.rs"]
pub(crate) mod tests;
