//! Leases: one process at a time runs turns in a conversation.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::Result;
use crate::conversation::ConversationId;
use crate::error::Error;
use crate::store::ConversationStore;

/// The right to run turns in a conversation, until it is dropped. It is a file lock, so the kernel
/// releases it when the process dies.
#[derive(Debug)]
#[must_use = "the lease ends when it is dropped"]
pub struct Lease {
    file: File,
    path: PathBuf,
}

impl ConversationStore {
    /// Takes the lease of a conversation, or fails at once with the process that has it. Within a
    /// process, too, only one can have it.
    pub fn lease(&self, id: &ConversationId) -> Result<Lease> {
        let dir = self.path().parent().unwrap_or(Path::new("")).join("run");
        let path = dir.join(format!("conv-{id}.lock"));
        match acquire(&dir, &path) {
            Ok(Some(file)) => Ok(Lease { file, path }),
            Ok(None) => Err(Error::Busy { id: id.clone(), pid: holder(&path) }),
            Err(source) => Err(Error::Io { path, source }),
        }
    }
}

fn acquire(dir: &Path, path: &Path) -> io::Result<Option<File>> {
    loop {
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        let mut file = open(path)?;
        match attempt(&file, path)? {
            LockAttempt::Locked => {
                let written =
                    file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
                if let Err(error) = written {
                    // On a full disk. While the lock is held it is nobody else's.
                    std::fs::remove_file(path).ok();
                    return Err(error);
                }
                return Ok(Some(file));
            }
            LockAttempt::Held => return Ok(None),
            LockAttempt::Stale => {}
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed())
        .open(path)
}

/// The result of trying to lock a file.
#[derive(Debug, PartialEq, Eq)]
enum LockAttempt {
    /// This process holds the lock.
    Locked,
    /// Another holder has it.
    Held,
    /// Its last holder removed the file after it was opened, so a lock on it means nothing.
    Stale,
}

fn attempt(file: &File, path: &Path) -> io::Result<LockAttempt> {
    loop {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) if is_at(file, path)? => return Ok(LockAttempt::Locked),
            Ok(()) => return Ok(LockAttempt::Stale),
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(LockAttempt::Held),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let held = file.metadata()?;
    match std::fs::symlink_metadata(path) {
        Ok(now) => Ok(now.dev() == held.dev() && now.ino() == held.ino()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns the pid written into the lock file, for messages only.
fn holder(path: &Path) -> Option<u32> {
    let mut text = String::new();
    File::open(path).ok()?.take(16).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

impl Drop for Lease {
    fn drop(&mut self) {
        // Removed while the lock is held, so that it cannot be the file of another holder.
        if is_at(&self.file, &self.path).unwrap_or(false)
            && let Err(error) = std::fs::remove_file(&self.path)
        {
            tracing::debug!(%error, path = %self.path.display(), "cannot remove a lock");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_one_has_a_conversation_and_the_next_gets_it_after() {
        let dir = tempfile::tempdir().unwrap();
        let store = ConversationStore::open(dir.path().join("state.db")).await.unwrap();
        let id: ConversationId = "a".parse().unwrap();
        let other: ConversationId = "b".parse().unwrap();
        let held = store.lease(&id).unwrap();
        let elsewhere = store.lease(&other).unwrap();
        match store.clone().lease(&id) {
            Err(Error::Busy { pid, .. }) => assert_eq!(pid, Some(std::process::id())),
            other => panic!("{other:?}"),
        }
        drop(held);
        drop(store.lease(&id).unwrap());
        drop(elsewhere);
        assert_eq!(std::fs::read_dir(dir.path().join("run")).unwrap().count(), 0);
    }

    #[test]
    fn a_lock_whose_file_was_removed_meanwhile_is_not_taken_for_the_lock() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let early = open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(attempt(&early, &path).unwrap(), LockAttempt::Stale);
        let current = acquire(dir.path(), &path).unwrap().unwrap();
        assert_eq!(attempt(&early, &path).unwrap(), LockAttempt::Stale);
        assert_eq!(attempt(&open(&path).unwrap(), &path).unwrap(), LockAttempt::Held);
        // The end of the early one leaves the other's file alone.
        drop(Lease { file: early, path: path.clone() });
        assert!(is_at(&current, &path).unwrap());
    }
}
