//! One process at a time is at work in a conversation.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::Result;
use crate::error::Error;
use crate::id::ConversationId;
use crate::store::Store;

/// The right to run turns in a conversation, until it is dropped. The kernel
/// takes it back when the process dies, however it does.
#[derive(Debug)]
#[must_use = "the lease ends when it is dropped"]
pub struct Lease {
    file: File,
    path: PathBuf,
}

impl Store {
    /// Takes a conversation for this process, or says who has it. It does not
    /// wait; within a process, too, only one has it.
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
            Attempt::Locked => {
                file.set_len(0)?;
                writeln!(file, "{}", std::process::id())?;
                return Ok(Some(file));
            }
            Attempt::Held => return Ok(None),
            Attempt::Stale => {}
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

/// What came of trying to lock a file.
#[derive(Debug, PartialEq, Eq)]
enum Attempt {
    /// It is locked, for this process.
    Locked,
    /// Somebody else has it locked.
    Held,
    /// Its last holder removed it after it was opened: nobody else would find
    /// a lock on it.
    Stale,
}

fn attempt(file: &File, path: &Path) -> io::Result<Attempt> {
    loop {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) if is_at(file, path)? => return Ok(Attempt::Locked),
            Ok(()) => return Ok(Attempt::Stale),
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(Attempt::Held),
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

/// Returns who wrote its number into the lock, for people to read; nothing is
/// decided by it.
fn holder(path: &Path) -> Option<u32> {
    let mut text = String::new();
    File::open(path).ok()?.take(16).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

impl Drop for Lease {
    fn drop(&mut self) {
        // Removed while it is still held, so that it is this one and no other's.
        if is_at(&self.file, &self.path).unwrap_or(false)
            && let Err(error) = std::fs::remove_file(&self.path)
        {
            tracing::debug!(%error, path = %self.path.display(), "cannot remove a lock");
        }
    }
}

#[cfg(test)]
#[path = "lease_tests.rs"]
mod tests;
