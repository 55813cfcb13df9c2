//! Where homes of this machine's user have moved to.
//!
//! A home that is used at another place than it was marked at leaves a note, so
//! that an old backup put at its former place is not taken for it. One small
//! file for each home that ever moved; the directory's lock makes processes
//! take turns in deciding which of two homes is which.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::{StoreError, make_private_dir, read_versioned, write_versioned};
use crate::key::HomeId;

const VERSION: u64 = 1;

#[derive(Debug, Serialize, Deserialize)]
struct Note {
    version: u64,
    path: PathBuf,
}

/// The directory of the notes.
#[derive(Debug, Clone)]
pub(crate) struct HomeNotes {
    dir: PathBuf,
}

impl HomeNotes {
    /// Returns the notes in the home directory of the machine's user.
    pub(crate) fn of_user(user_home: &Path) -> Self {
        Self { dir: user_home.join(".local/state/vestal/homes") }
    }

    /// Returns where a home was last seen after a move. A note that cannot be
    /// read tells as little as an absent one.
    pub(super) fn place(&self, id: &HomeId) -> Option<PathBuf> {
        let note: Option<Note> = read_versioned(&self.file(id)?, VERSION).ok().flatten();
        note.map(|note| note.path)
    }

    /// Notes where a home is now.
    pub(super) fn put(&self, id: &HomeId, place: &Path) -> Result<(), StoreError> {
        let Some(file) = self.file(id) else { return Ok(()) };
        make_private_dir(&self.dir)?;
        write_versioned(&file, &Note { version: VERSION, path: place.to_owned() })
    }

    /// Waits for the lock of all notes, which ends with the file.
    pub(super) fn lock(&self, patience: Duration) -> io::Result<File> {
        make_private_dir(&self.dir).map_err(io::Error::other)?;
        let dir = File::open(&self.dir)?;
        let begun = Instant::now();
        loop {
            match flock(&dir, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(dir),
                Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR)
                    if begun.elapsed() < patience =>
                {
                    std::thread::sleep(Duration::from_millis(20));
                }
                Err(rustix::io::Errno::WOULDBLOCK) => return Err(ErrorKind::TimedOut.into()),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Returns the file of a home; none for an id that was not made by us.
    fn file(&self, id: &HomeId) -> Option<PathBuf> {
        let id = id.as_str();
        let plain = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
        plain.then(|| self.dir.join(format!("{id}.json")))
    }
}
