//! Writing what a task changed as a patch that `git apply` takes.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use async_recursion::async_recursion as boxed;
use vestal_board::{Board, TaskId};
use vestal_config::Environment;

use crate::diff::{DiffError, DiffRange, diff};

/// What becomes of a file that is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnExisting {
    /// It stays, and nothing is written.
    Refuse,
    /// The patch takes its place.
    Replace,
}

/// A patch that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportedPatch {
    /// The file.
    pub path: PathBuf,
    /// What the patch applies to: a commit, or a kept state.
    pub base: String,
    /// Files that it changes.
    pub files: u64,
    /// How large it is.
    pub bytes: u64,
    /// Changed files that are not in it, because they are large or no files.
    pub left_out: Vec<PathBuf>,
}

/// Why no patch was written.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// There is nothing available of the task.
    #[error(transparent)]
    Diff(#[from] DiffError),
    /// Nothing was changed.
    #[error("task {task} has changed nothing, so there is no patch")]
    Nothing {
        /// The task.
        task: TaskId,
    },
    /// The patch is too large.
    #[error("the changes of task {task} are too large for a patch; they are on the branch {branch} in {}", tree.display())]
    TooLarge {
        /// The task.
        task: TaskId,
        /// Its branch.
        branch: String,
        /// Its working tree.
        tree: PathBuf,
    },
    /// A file is in its place.
    #[error("{} exists already, so nothing was written", .0.display())]
    Exists(PathBuf),
    /// The file could not be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Writes what a task changed into a file, which only its owner can read.
#[boxed]
pub async fn export(
    board: &Board,
    task: &TaskId,
    range: DiffRange,
    path: &Path,
    existing: OnExisting,
    environment: &Environment,
) -> Result<ExportedPatch, ExportError> {
    let found = diff(board, task, range, environment).await?;
    if found.files.is_empty() {
        return Err(ExportError::Nothing { task: task.clone() });
    }
    let Some(patch) = found.patch else {
        let (branch, tree) = (found.branch, found.tree);
        return Err(ExportError::TooLarge { task: task.clone(), branch, tree });
    };
    write(path, &patch, existing)?;
    Ok(ExportedPatch {
        path: path.to_owned(),
        base: found.base,
        files: found.files.len() as u64,
        bytes: patch.len() as u64,
        left_out: found.left_out,
    })
}

/// Writes beside the file first: nobody sees half of a patch.
fn write(path: &Path, patch: &[u8], existing: OnExisting) -> Result<(), ExportError> {
    let failed = |source| ExportError::Write { path: path.to_owned(), source };
    if existing == OnExisting::Refuse && fs::symlink_metadata(path).is_ok() {
        return Err(ExportError::Exists(path.to_owned()));
    }
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut aside = tempfile::Builder::new();
    let aside = aside.prefix(".vestal-patch-").make_in(dir, |path| {
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
    });
    let mut aside = aside.map_err(failed)?;
    aside.write_all(patch).and_then(|()| aside.as_file().sync_all()).map_err(failed)?;
    let kept = match existing {
        OnExisting::Refuse => aside.persist_noclobber(path),
        OnExisting::Replace => aside.persist(path),
    };
    match kept {
        Ok(_) => Ok(()),
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {
            Err(ExportError::Exists(path.to_owned()))
        }
        Err(error) => Err(failed(error.error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_there_is_replaced_only_if_asked() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("task.patch");
        write(&path, b"one", OnExisting::Refuse).unwrap();
        let refused = write(&path, b"two", OnExisting::Refuse);
        assert!(matches!(refused, Err(ExportError::Exists(_))), "{refused:?}");
        assert_eq!(fs::read(&path).unwrap(), b"one");
        write(&path, b"three", OnExisting::Replace).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"three");
        let names: Vec<_> = fs::read_dir(dir.path()).unwrap().collect();
        assert_eq!(names.len(), 1, "nothing is left beside it: {names:?}");
    }
}
