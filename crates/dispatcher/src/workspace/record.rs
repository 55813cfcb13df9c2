//! Which working trees this host made, so that they can be removed without a
//! look at every task.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use vestal_board::TaskId;

use super::WorkspaceError;

const VERSION: u64 = 1;
const SUFFIX: &str = ".json";

/// A working tree that was made, or is about to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    version: u64,
    /// The repository's own working tree.
    pub(super) repository: PathBuf,
    /// The tree.
    pub(super) tree: PathBuf,
    /// The branch in it.
    pub(super) branch: String,
    /// Whether the branch was made for the task.
    pub(super) made_branch: bool,
}

impl Record {
    pub(super) fn new(
        repository: PathBuf,
        tree: PathBuf,
        branch: String,
        made_branch: bool,
    ) -> Self {
        Self { version: VERSION, repository, tree, branch, made_branch }
    }

    pub(super) fn read(board: &Path, task: &TaskId) -> Result<Option<Self>, WorkspaceError> {
        let path = path(board, task);
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

    /// Writes it by rename, before the tree is made.
    pub(super) fn write(&self, board: &Path, task: &TaskId) -> Result<(), WorkspaceError> {
        use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};

        let path = path(board, task);
        let write = || {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(dir(board))?;
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

    pub(super) fn forget(board: &Path, task: &TaskId) -> Result<(), WorkspaceError> {
        let path = path(board, task);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(WorkspaceError::io("remove", &path)(error))
            }
            _ => Ok(()),
        }
    }
}

/// Returns the tasks that have a record.
pub(super) fn tasks(board: &Path) -> Result<Vec<TaskId>, WorkspaceError> {
    let dir = dir(board);
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

fn dir(board: &Path) -> PathBuf {
    board.join("worktrees")
}

fn path(board: &Path, task: &TaskId) -> PathBuf {
    dir(board).join(format!("{task}{SUFFIX}"))
}
