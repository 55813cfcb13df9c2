//! Files that dispatchers of a host lock: the one they hold while they decide, and the one that
//! shows that a dispatcher watches. The system releases both when the process dies.
//!
//! The lock of a decision is an optimisation: no cap depends on it, because claims are counted again
//! before workers start. So a dispatcher that finds it held by a stopped process continues without it.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use vestal_board::boards::{Boards, Slug};
use vestal_board::{Error, Result};
use vestal_process::{Lock, lock_holder};

/// Pause between attempts. A lock is held for the time of a plan and a short transaction.
const AGAIN: Duration = Duration::from_millis(5);

/// How long to wait before checking whether the holder is stopped.
const SUSPECT: Duration = Duration::from_millis(50);

/// The result of taking the lock.
#[derive(Debug)]
pub(crate) enum DispatchLock {
    /// This process holds the lock. The system releases it when the process dies.
    Held { _file: File },
    /// The holder is stopped or too slow; continue without the lock.
    Bypassed,
    /// Another dispatcher holds the lock.
    HeldByOther,
}

/// What to do if another dispatcher holds the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IfHeld {
    /// Wait this long, then continue without it.
    Wait(Duration),
    /// Give up.
    Skip,
}

impl DispatchLock {
    /// Takes the lock.
    pub(crate) async fn take(path: &Path, if_held: IfHeld) -> Result<Self> {
        let failed = |source| Error::Io { action: "lock", path: path.to_owned(), source };
        let file = open(path).map_err(failed)?;
        let begun = tokio::time::Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Self::Held { _file: file }),
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(failed(error)),
            }
            match if_held {
                IfHeld::Skip if is_stopped(path) => return Ok(Self::Bypassed),
                IfHeld::Skip => return Ok(Self::HeldByOther),
                IfHeld::Wait(timeout) => {
                    let waited = begun.elapsed();
                    if waited >= timeout || waited >= SUSPECT && is_stopped(path) {
                        return Ok(Self::Bypassed);
                    }
                }
            }
            tokio::time::sleep(AGAIN).await;
        }
    }
}

/// Reports whether the process that locked a file is known to be stopped.
fn is_stopped(path: &Path) -> bool {
    match lock_holder(path, Lock::Whole) {
        Ok(holder) => holder.is_some_and(vestal_process::is_stopped),
        Err(error) => {
            tracing::debug!(%error, "cannot find out who holds the lock");
            false
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    if let Some(dir) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    }
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

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
            let file = open(&path)?;
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
