//! One dispatcher of a host decides at a time.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::Duration;

use crate::{Error, Result};

/// How long to wait before the lock is tried again. Whoever has it keeps it for
/// the time of a plan and a short transaction.
const AGAIN: Duration = Duration::from_millis(5);

/// The right to decide what is started on this host, so that caps over several
/// boards hold. The system takes it back from a process that dies.
#[derive(Debug)]
pub(crate) struct HostLock {
    _file: File,
}

/// What to do when another dispatcher has the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Held {
    /// Wait so long for it.
    Wait(Duration),
    /// Leave it.
    Leave,
}

impl HostLock {
    /// Takes the lock; nothing, where another dispatcher has it.
    pub(crate) async fn take(path: &Path, held: Held) -> Result<Option<Self>> {
        let failed = |source| Error::Io { action: "lock", path: path.to_owned(), source };
        let file = open(path).map_err(failed)?;
        let patience = match held {
            Held::Wait(patience) => patience,
            Held::Leave => Duration::ZERO,
        };
        let deadline = tokio::time::Instant::now() + patience;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Some(Self { _file: file })),
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(failed(error)),
            }
            if tokio::time::Instant::now() >= deadline {
                return Ok(None);
            }
            tokio::time::sleep(AGAIN).await;
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
