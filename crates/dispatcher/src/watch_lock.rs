//! Files that dispatchers of a host lock: the one they hold while they decide, and the one that
//! shows that a dispatcher watches. The system releases both when the process dies.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::PathBuf;

use vestal_board::boards::{Boards, Slug};
use vestal_board::{Error, Result};

/// Returns the file that dispatchers of this host lock while they decide. One machine may be
/// several hosts of a board, which decide independently.
pub fn host_lock_path(boards: &Boards) -> PathBuf {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' };
    let host: String = boards.host().name.as_str().chars().map(plain).collect();
    boards.root().join(format!(".dispatch-{host}.lock"))
}

/// Shows that a dispatcher watches, for as long as it is held.
#[derive(Debug)]
pub struct WatchLock {
    _file: File,
}

impl WatchLock {
    /// Takes the lock, for one board or for all. Any number of processes may hold it.
    pub fn take(boards: &Boards, only: Option<&Slug>) -> Result<Self> {
        let path = watch_path(boards, only);
        let taken = || -> io::Result<File> {
            DirBuilder::new().recursive(true).mode(0o700).create(boards.root())?;
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false).mode(0o600);
            let file = options.open(&path)?;
            file.lock_shared()?;
            Ok(file)
        };
        let failed = |source| Error::Io { action: "lock", path: path.clone(), source };
        Ok(Self { _file: taken().map_err(failed)? })
    }
}

fn watch_path(boards: &Boards, only: Option<&Slug>) -> PathBuf {
    let name = match only {
        Some(slug) => format!(".watching-{slug}.lock"),
        None => ".watching.lock".to_owned(),
    };
    boards.root().join(name)
}

/// Reports whether a dispatcher on this machine watches the board. The answer is yes where it
/// cannot be found out.
pub fn is_watched(boards: &Boards, slug: &Slug) -> bool {
    let held = |path: PathBuf| match File::open(path) {
        // The lock is released at once, when the file is closed.
        Ok(file) => match file.try_lock() {
            Ok(()) => false,
            Err(TryLockError::WouldBlock | TryLockError::Error(_)) => true,
        },
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    };
    held(watch_path(boards, None)) || held(watch_path(boards, Some(slug)))
}
