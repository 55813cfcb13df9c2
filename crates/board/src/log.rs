//! The log of a task's workers.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use crate::id::TaskId;

/// How much of a task's log is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogPolicy {
    /// The size at which it is put aside before the next worker starts.
    pub rotate_at: u64,
    /// How many of those put aside are kept.
    pub backups: u32,
}

impl Default for LogPolicy {
    fn default() -> Self {
        Self { rotate_at: 2 << 20, backups: 1 }
    }
}

/// Returns the directory of a board's logs.
pub fn log_dir(board: &Path) -> PathBuf {
    board.join("logs")
}

/// Returns the log of a task's workers, on this host.
pub fn log_path(board: &Path, task: &TaskId) -> PathBuf {
    log_dir(board).join(format!("{task}.log"))
}

/// Opens the log to write at its end; a large one is put aside before.
pub fn open(board: &Path, task: &TaskId, policy: LogPolicy) -> io::Result<File> {
    use std::os::unix::fs::DirBuilderExt as _;

    let path = log_path(board, task);
    fs::DirBuilder::new().recursive(true).mode(0o700).create(log_dir(board))?;
    match fs::symlink_metadata(&path) {
        Ok(found) if found.len() >= policy.rotate_at => rotate(&path, policy.backups)?,
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let flags = OFlags::WRONLY
        | OFlags::APPEND
        | OFlags::CREATE
        | OFlags::CLOEXEC
        | OFlags::NOFOLLOW
        | OFlags::NONBLOCK;
    let file = File::from(rustix::fs::open(&path, flags, Mode::RUSR | Mode::WUSR)?);
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    Ok(file)
}

fn rotate(path: &Path, backups: u32) -> io::Result<()> {
    let aside = |number: u32| path.with_extension(format!("log.{number}"));
    for number in (1..backups).rev() {
        match fs::rename(aside(number), aside(number + 1)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    if backups == 0 { fs::remove_file(path) } else { fs::rename(path, aside(1)) }
}

#[cfg(test)]
#[path = "log_tests.rs"]
mod tests;
