//! Waiting for whoever works on a sandbox.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use super::Inner;
use super::remove::kept_files;
use crate::store::{KeyLock, LockError, SandboxDir, StoreError};
use crate::{CopyError, Error, Progress, Task};

/// How long to wait for another process that works on the same sandbox.
pub(super) const LOCK_PATIENCE: Duration = Duration::from_mins(2);

/// The same for one that copies it: that may take as long as there are files,
/// and whoever waits should rather be told.
const COPY_PATIENCE: Duration = Duration::from_secs(30);

/// How long to wait before looking what is in the way.
const LOOK_AFTER: Duration = Duration::from_millis(500);

/// How long somebody who is copied meanwhile waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Patience {
    /// As long as a command may seem to hang.
    Bounded,
    /// As long as it takes: for those who copy themselves.
    Unbounded,
}

impl Inner {
    /// Waits for a sandbox's lock. What takes long is told, and in the end named.
    pub(super) async fn acquire(
        &self,
        task: &Task,
        dir: &SandboxDir,
        patience: Patience,
    ) -> Result<KeyLock, Error> {
        let (path, begun) = (dir.lock_file(), Instant::now());
        let mut told = false;
        loop {
            match KeyLock::acquire(&path, LOOK_AFTER).await {
                Err(LockError::Busy { .. }) => {}
                other => return Ok(other?),
            }
            // An intent that cannot be read is for its owner to mend.
            let underway = dir.read_intent().ok().flatten().and_then(|intent| intent.takes_long());
            let waited = begun.elapsed();
            match underway {
                Some(what) if waited >= COPY_PATIENCE && patience == Patience::Bounded => {
                    return Err(CopyError::Underway { task: task.to_string(), what }.into());
                }
                Some(what) if !told => {
                    told = true;
                    self.progress.tell(Progress::Starting { what: format!("waiting: {what}") });
                }
                Some(_) if patience == Patience::Unbounded => {}
                _ if waited >= LOCK_PATIENCE => {
                    return Err(LockError::Busy { path, waited: LOCK_PATIENCE }.into());
                }
                _ => {}
            }
        }
    }

    /// Locks a sandbox to be used, making its directory if need be. What a
    /// process that died had begun is dealt with; if that was a removal, the
    /// lock went with the sandbox and the next one is a new sandbox's.
    pub(super) async fn lock(&self, task: &Task, dir: &SandboxDir) -> Result<KeyLock, Error> {
        loop {
            dir.make()?;
            let lock = match self.acquire(task, dir, Patience::Bounded).await {
                // Removed between the two: the next round makes it again.
                Err(error) if is_gone(&error) => continue,
                other => other?,
            };
            dir.sweep_temporaries();
            self.recover(task, dir).await?;
            if lock.is_current(&dir.lock_file()) {
                return Ok(lock);
            }
        }
    }

    /// Locks a sandbox that has to be there, to copy it or to change all of it.
    pub(super) async fn lock_existing(
        &self,
        task: &Task,
        dir: &SandboxDir,
    ) -> Result<KeyLock, Error> {
        let absent = || Error::NoSandbox { task: task.to_string() };
        if !dir.exists() {
            return Err(absent());
        }
        let lock = match self.acquire(task, dir, Patience::Unbounded).await {
            Err(error) if is_gone(&error) => return Err(absent()),
            other => other?,
        };
        dir.sweep_temporaries();
        self.recover(task, dir).await?;
        if lock.is_current(&dir.lock_file()) { Ok(lock) } else { Err(absent()) }
    }
}

/// Returns whether the sandbox's directory went away meanwhile.
pub(super) fn is_gone(error: &Error) -> bool {
    matches!(
        error,
        Error::Lock(LockError::Io { source, .. }) if source.kind() == ErrorKind::NotFound
    )
}

impl SandboxDir {
    /// Returns whether there is nothing of a sandbox in it.
    pub(super) fn is_bare(&self) -> Result<bool, StoreError> {
        Ok(!self.has_intent()
            && self.read_record()?.is_none()
            && self.instance_ids()?.is_empty()
            && kept_files(self).is_empty())
    }

    /// Removes a directory that was made for a lock and got nothing else. Only
    /// for the holder of that lock. What somebody puts there at this moment
    /// stays.
    pub(super) fn remove_if_bare(&self) -> Result<(), StoreError> {
        if !self.is_bare()? {
            return Ok(());
        }
        let removed =
            std::fs::remove_file(self.lock_file()).and_then(|()| std::fs::remove_dir(self.path()));
        match removed {
            Err(error)
                if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::DirectoryNotEmpty) =>
            {
                Err(StoreError::io("remove", self.path(), error))
            }
            _ => Ok(()),
        }
    }

    /// Removes what somebody left who died with nothing but the lock in hand.
    pub(super) fn sweep_if_bare(&self) -> Result<(), Error> {
        if self.is_bare()?
            && let Some(_lock) = KeyLock::try_acquire(&self.lock_file())?
        {
            self.remove_if_bare()?;
        }
        Ok(())
    }
}
