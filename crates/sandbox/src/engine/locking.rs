//! Waiting for whoever works on a sandbox.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use super::Inner;
use super::recover::unlocated;
use super::remove::kept_files;
use super::stop::END_PATIENCE;
use crate::backend::Owner;
use crate::store::{InstanceMark, KeyLock, LockError, SandboxDir, StoreError};
use crate::{CopyError, Error, Progress, Task};

/// How long to wait for another process that works on the same sandbox.
pub(super) const LOCK_PATIENCE: Duration = Duration::from_mins(2);

/// The same for one that copies it: that may take as long as there are files,
/// and whoever waits should rather be told.
const COPY_PATIENCE: Duration = Duration::from_secs(30);

/// How long to wait before looking what is in the way.
const LOOK_AFTER: Duration = Duration::from_millis(500);

/// How long a guest may hold the lock whose starter is dead: as long as one may
/// take to come up, and some.
const ORPHAN_PATIENCE: Duration = Duration::from_secs(75);

/// How long somebody who is copied meanwhile waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Patience {
    /// As long as a command may seem to hang.
    Bounded,
    /// The same, but not for a guest whose starter is dead: it is to end anyway.
    Ending,
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
        let (mut told, mut orphaned) = (false, None);
        loop {
            match KeyLock::acquire(&path, LOOK_AFTER).await {
                Err(LockError::Busy { .. }) => {}
                other => return Ok(other?),
            }
            let holder = KeyLock::last_holder(&path);
            let is_alive = holder.as_ref().is_some_and(Owner::may_be_alive);
            if is_alive {
                orphaned = None;
            } else {
                let since = *orphaned.get_or_insert_with(Instant::now);
                // Who has just taken it is a moment later on record. On a full
                // disk nobody is, and only who ends the sandbox anyway may guess.
                let enough = match (patience, &holder) {
                    (Patience::Ending, Some(_)) => LOOK_AFTER,
                    (Patience::Ending, None) | (_, Some(_)) => ORPHAN_PATIENCE,
                    (_, None) => Duration::MAX,
                };
                if since.elapsed() >= enough {
                    self.end_holders(dir, patience).await?;
                }
            }
            // An intent that cannot be read is for its owner to mend.
            let underway = dir.read_intent().ok().flatten().and_then(|intent| intent.takes_long());
            let waited = begun.elapsed();
            match underway {
                Some(what) if waited >= COPY_PATIENCE && patience != Patience::Unbounded => {
                    return Err(CopyError::Underway { task: task.to_string(), what }.into());
                }
                Some(what) if !told => {
                    told = true;
                    self.progress.tell(Progress::Starting { what: format!("waiting: {what}") });
                }
                Some(_) if patience == Patience::Unbounded => {}
                _ if waited >= LOCK_PATIENCE => {
                    let holder = holder.filter(|_| is_alive).map(|holder| holder.process.pid);
                    return Err(LockError::Busy { path, waited: LOCK_PATIENCE, holder }.into());
                }
                _ => {}
            }
        }
    }

    /// Ends the guests that may hold a sandbox's lock whose taker is dead: those
    /// that it was starting or, where the sandbox is to end, all. Somebody
    /// else may do the same at this moment.
    async fn end_holders(&self, dir: &SandboxDir, patience: Patience) -> Result<(), Error> {
        let record = dir.read_record()?;
        let starting = dir.read_intent()?.and_then(|intent| intent.starting().map(str::to_owned));
        let recorded = record.as_ref().and_then(|record| record.instance(dir));
        for id in dir.instance_ids()? {
            if patience != Patience::Ending && starting.as_ref() != Some(&id) {
                continue;
            }
            let known = recorded.clone().filter(|recorded| recorded.id == id);
            let instance = known.unwrap_or_else(|| unlocated(dir, id));
            let mark = InstanceMark::read(&instance.dir)?;
            let backend = self.backend_for(record.as_ref(), mark.as_ref())?;
            tracing::warn!(instance = instance.id, "its starter is dead and it keeps the lock");
            let ended = backend.end(&instance, END_PATIENCE).await;
            ended.map_err(Error::backend(backend.name()))?;
        }
        Ok(())
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
}
