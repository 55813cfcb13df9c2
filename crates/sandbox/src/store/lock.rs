//! The lock of a key: a process holds it while it changes a sandbox's instance.
//!
//! The file says which process took it last. That process may be gone and the
//! lock still be held: by a guest that it was starting, which is for the next
//! one to end.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::backend::Owner;

/// Most that is read of what a holder wrote.
const MAX_SIGNATURE: u64 = 4096;

/// A lock that could not be had.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Somebody held it for too long.
    #[error(
        "{} has been working on this sandbox for over {} s (lock: {})",
        holder.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}")),
        waited.as_secs(), path.display()
    )]
    Busy {
        /// The lock file.
        path: PathBuf,
        /// How long this process waited.
        waited: Duration,
        /// The process that holds it, where that is known and it may be alive.
        holder: Option<u32>,
    },
    /// The system refused.
    #[error("cannot lock {}: {source}", path.display())]
    Io {
        /// The lock file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// The held lock. The kernel lets go of it when the process dies, so a stale
/// lock file means nothing.
#[derive(Debug)]
pub(crate) struct KeyLock {
    file: File,
}

impl KeyLock {
    /// Waits for the lock, at most `timeout`.
    pub(crate) async fn acquire(path: &Path, timeout: Duration) -> Result<Self, LockError> {
        let started = Instant::now();
        let mut pause = Duration::from_millis(1);
        loop {
            if let Some(lock) = Self::try_acquire(path)? {
                return Ok(lock);
            }
            if started.elapsed() >= timeout {
                return Err(LockError::Busy { path: path.into(), waited: timeout, holder: None });
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(20));
        }
    }

    /// Takes the lock if it is free. A missing directory is an error of kind
    /// [`ErrorKind::NotFound`].
    pub(crate) fn try_acquire(path: &Path) -> Result<Option<Self>, LockError> {
        let failed = |source| LockError::Io { path: path.into(), source };
        loop {
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed())
                .open(path)
                .map_err(failed)?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(failed(error.into())),
            }
            // Between open and lock the sandbox may have been removed and made
            // again: then this is the lock of a file nobody else will find.
            match std::fs::symlink_metadata(path) {
                Ok(now) if same_file(&now, &file).map_err(failed)? => {
                    let lock = Self { file };
                    lock.sign();
                    return Ok(Some(lock));
                }
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(failed(error)),
            }
        }
    }

    /// Says in the file who holds it. Without that, as on a full disk, the holder
    /// is unknown and counts as alive.
    fn sign(&self) {
        static ME: OnceLock<Option<Vec<u8>>> = OnceLock::new();
        let me = ME.get_or_init(|| serde_json::to_vec(&Owner::current("").ok()?).ok());
        let bytes = me.as_deref().unwrap_or_default();
        let signed = self.file.set_len(0).and_then(|()| self.file.write_all_at(bytes, 0));
        if let Err(error) = signed {
            tracing::debug!(%error, "cannot sign the lock");
        }
    }

    /// Returns the process that took the lock at `path` last, dead or alive.
    pub(crate) fn last_holder(path: &Path) -> Option<Owner> {
        let mut bytes = Vec::new();
        File::open(path).ok()?.take(MAX_SIGNATURE).read_to_end(&mut bytes).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    /// Returns whether the lock is still the one others would find at `path`:
    /// not after its sandbox was removed.
    pub(crate) fn is_current(&self, path: &Path) -> bool {
        std::fs::symlink_metadata(path)
            .is_ok_and(|now| same_file(&now, &self.file).unwrap_or(false))
    }

    /// Returns a second handle to the same lock. The lock is free only when
    /// both are closed: a new guest holds one until it can be found, so that
    /// the death of its creator does not make it look absent.
    pub(crate) fn share(&self) -> io::Result<OwnedFd> {
        self.file.as_fd().try_clone_to_owned()
    }
}

/// Waits until no copy program of a process that died writes into a directory any
/// more: each has a shared lock on the directory that its target is in.
pub(crate) async fn copies_ended(dir: &Path, timeout: Duration) -> Result<(), LockError> {
    let failed = |source| LockError::Io { path: dir.into(), source };
    let flags = rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::NOFOLLOW;
    let opened = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(dir);
    let file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
    };
    let started = Instant::now();
    let mut pause = Duration::from_millis(1);
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::INTR) => continue,
            Err(Errno::WOULDBLOCK) => {}
            // The copy could not lock it either.
            Ok(()) | Err(Errno::NOSYS | Errno::OPNOTSUPP | Errno::NOLCK) => return Ok(()),
            Err(error) => return Err(failed(error.into())),
        }
        if started.elapsed() >= timeout {
            return Err(LockError::Busy { path: dir.into(), waited: timeout, holder: None });
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

fn same_file(now: &std::fs::Metadata, file: &File) -> io::Result<bool> {
    let held = file.metadata()?;
    Ok(now.dev() == held.dev() && now.ino() == held.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_one_holds_the_lock_and_the_next_gets_it_after() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let first = KeyLock::try_acquire(&path).unwrap().unwrap();
        assert!(KeyLock::try_acquire(&path).unwrap().is_none());
        let shared = first.share().unwrap();
        drop(first);
        assert!(KeyLock::try_acquire(&path).unwrap().is_none(), "the second handle still holds it");
        drop(shared);
        KeyLock::acquire(&path, Duration::from_secs(5)).await.unwrap();
    }

    #[tokio::test]
    async fn the_lock_of_a_removed_sandbox_is_not_taken_for_the_new_ones() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let old = KeyLock::try_acquire(&path).unwrap().unwrap();
        std::fs::remove_file(&path).unwrap();
        let new = KeyLock::try_acquire(&path).unwrap().expect("the new file is free");
        drop(old);
        assert!(KeyLock::try_acquire(&path).unwrap().is_none());
        drop(new);
    }

    #[tokio::test]
    async fn garbage_in_a_stale_lock_file_does_not_matter() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        std::fs::write(&path, [0xff; 100]).unwrap();
        assert!(KeyLock::last_holder(&path).is_none());
        assert!(KeyLock::try_acquire(&path).unwrap().is_some());
        let me = Owner::current("").unwrap();
        assert_eq!(KeyLock::last_holder(&path), Some(me), "the one that took it last");
    }

    #[tokio::test]
    async fn a_lock_that_is_never_freed_is_an_error_that_names_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let _held = KeyLock::try_acquire(&path).unwrap().unwrap();
        let error = KeyLock::acquire(&path, Duration::from_millis(30)).await.unwrap_err();
        assert!(matches!(error, LockError::Busy { .. }));
        assert!(error.to_string().contains(path.to_str().unwrap()));
    }
}
