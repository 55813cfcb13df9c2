//! One dispatcher of a host decides at a time, as far as that can be had.
//!
//! The lock only keeps dispatchers out of each other's way. No cap depends on it:
//! what was claimed is counted again before it is started. So whoever finds the
//! lock in the hands of a process that does not come back goes on without it.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::Duration;

use vestal_board::{Error, Result};
use vestal_process::{Lock, lock_holder};

/// How long to wait before the lock is tried again. Whoever has it keeps it for
/// the time of a plan and a short transaction.
const AGAIN: Duration = Duration::from_millis(5);

/// How long a lock is held before it is worth to look at who holds it.
const SUSPECT: Duration = Duration::from_millis(50);

/// Whether to decide what is started on this host.
#[derive(Debug)]
pub(crate) enum Turn {
    /// Nobody else of this host decides while this is there. The system takes the
    /// lock back from a process that dies.
    Mine {
        /// What is locked.
        _file: File,
    },
    /// Whoever has the lock does not come back with it.
    Unguarded,
    /// Another dispatcher decides.
    Others,
}

/// What to do when another dispatcher has the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Held {
    /// Wait so long for it.
    Wait(Duration),
    /// Leave it.
    Leave,
}

impl Turn {
    /// Takes the lock, or finds out whether to go on without it.
    pub(crate) async fn take(path: &Path, held: Held) -> Result<Self> {
        let failed = |source| Error::Io { action: "lock", path: path.to_owned(), source };
        let file = open(path).map_err(failed)?;
        let begun = tokio::time::Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Self::Mine { _file: file }),
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(failed(error)),
            }
            match held {
                Held::Leave if is_stopped(path) => return Ok(Self::Unguarded),
                Held::Leave => return Ok(Self::Others),
                Held::Wait(patience) => {
                    let waited = begun.elapsed();
                    if waited >= patience || waited >= SUSPECT && is_stopped(path) {
                        return Ok(Self::Unguarded);
                    }
                }
            }
            tokio::time::sleep(AGAIN).await;
        }
    }
}

/// Reports whether the process that locked a file is stopped. Where the system
/// does not say, it is not.
fn is_stopped(path: &Path) -> bool {
    match lock_holder(path, Lock::Whole) {
        Ok(holder) => holder.is_some_and(vestal_process::is_stopped),
        Err(error) => {
            tracing::debug!(%error, "it is not known who holds the lock");
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
