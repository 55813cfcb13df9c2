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
mod tests {
    use std::io::Write as _;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn task() -> TaskId {
        "t_0123456789ab".parse().unwrap()
    }

    fn write(board: &Path, policy: LogPolicy, text: &str) {
        open(board, &task(), policy).unwrap().write_all(text.as_bytes()).unwrap();
    }

    fn read(path: &Path) -> Option<String> {
        fs::read_to_string(path).ok()
    }

    #[test]
    fn a_log_is_continued_and_private() {
        let dir = tempfile::tempdir().unwrap();
        let path = log_path(dir.path(), &task());
        write(dir.path(), LogPolicy::default(), "one ");
        write(dir.path(), LogPolicy::default(), "two");
        assert_eq!(read(&path).as_deref(), Some("one two"));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(
            fs::metadata(path.parent().unwrap()).unwrap().permissions().mode() & 0o777,
            0o700
        );
    }

    #[test]
    fn a_large_log_is_put_aside_and_only_so_many_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = log_path(dir.path(), &task());
        let policy = LogPolicy { rotate_at: 3, backups: 2 };
        for text in ["one", "two", "three", "four"] {
            write(dir.path(), policy, text);
        }
        assert_eq!(read(&path).as_deref(), Some("four"));
        assert_eq!(read(&path.with_extension("log.1")).as_deref(), Some("three"));
        assert_eq!(read(&path.with_extension("log.2")).as_deref(), Some("two"));
        assert_eq!(read(&path.with_extension("log.3")), None);

        write(dir.path(), LogPolicy { rotate_at: 3, backups: 0 }, "five");
        assert_eq!(read(&path).as_deref(), Some("five"));
        assert_eq!(read(&path.with_extension("log.1")).as_deref(), Some("three"));
    }

    #[test]
    fn a_log_that_is_a_link_or_no_file_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = log_path(dir.path(), &task());
        fs::create_dir(log_dir(dir.path())).unwrap();
        let other = dir.path().join("other");
        fs::write(&other, "").unwrap();
        std::os::unix::fs::symlink(&other, &path).unwrap();
        assert!(open(dir.path(), &task(), LogPolicy::default()).is_err());
        fs::remove_file(&path).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &path,
            rustix::fs::FileType::Fifo,
            Mode::RUSR | Mode::WUSR,
            0,
        )
        .unwrap();
        assert!(open(dir.path(), &task(), LogPolicy::default()).is_err());
    }
}
