//! Where homes of this machine's user have moved to.
//!
//! A home that is used at another place than it was marked at leaves a note, so
//! that an old backup put at its former place is not taken for it. One small
//! file for each home that ever moved; the directory's lock makes processes
//! take turns in deciding which of two homes is which.
//!
//! A sandbox in which the user's home is mounted does not see the directory. Links
//! on the way to it are not followed: one may be older than the cover.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FlockOperation, Mode, OFlags, flock, mkdirat, openat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::{StoreError, read_versioned, write_versioned};
use crate::key::HomeId;

const VERSION: u64 = 1;

/// Names of the directories that lead from the user's home to the notes.
const WAY: [&str; 4] = [".local", "state", "vestal", "homes"];

#[derive(Debug, Serialize, Deserialize)]
struct Note {
    version: u64,
    path: PathBuf,
}

/// The directory of the notes.
#[derive(Debug, Clone)]
pub(crate) struct HomeNotes {
    user_home: PathBuf,
}

/// What to do about a directory that is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Missing {
    Fail,
    Make,
}

impl HomeNotes {
    /// Returns the notes in the home directory of the machine's user.
    pub(crate) fn of_user(user_home: &Path) -> Self {
        Self { user_home: user_home.to_owned() }
    }

    /// Returns the directory's path.
    pub(crate) fn path(&self) -> PathBuf {
        WAY.iter().fold(self.user_home.clone(), |dir, name| dir.join(name))
    }

    /// Opens the directory without following a link below the user's home.
    fn open(&self, missing: Missing) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let home = openat(CWD, &self.user_home, flags, Mode::empty())?;
        let step = |dir: OwnedFd, name: &&str| -> io::Result<OwnedFd> {
            let open = || openat(&dir, *name, flags | OFlags::NOFOLLOW, Mode::empty());
            match open() {
                Err(Errno::NOENT) if missing == Missing::Make => {
                    match mkdirat(&dir, *name, Mode::RWXU) {
                        Ok(()) | Err(Errno::EXIST) => Ok(open()?),
                        Err(error) => Err(error.into()),
                    }
                }
                other => Ok(other?),
            }
        };
        WAY.iter().try_fold(home, step)
    }

    /// Returns where a home was last seen after a move. A note that cannot be
    /// read tells as little as an absent one.
    pub(super) fn place(&self, id: &HomeId) -> Option<PathBuf> {
        let name = file_name(id)?;
        let dir = self.open(Missing::Fail).ok()?;
        let note: Option<Note> = read_versioned(&within(&dir, &name), VERSION).ok().flatten();
        note.map(|note| note.path)
    }

    /// Notes where a home is now.
    pub(super) fn put(&self, id: &HomeId, place: &Path) -> Result<(), StoreError> {
        let Some(name) = file_name(id) else { return Ok(()) };
        let unusable = |error| StoreError::io("open", self.path(), error);
        let dir = self.open(Missing::Make).map_err(unusable)?;
        let note = Note { version: VERSION, path: place.to_owned() };
        write_versioned(&within(&dir, &name), &note)
    }

    /// Waits for the lock of all notes, which ends with the file.
    pub(super) fn lock(&self, patience: Duration) -> io::Result<File> {
        let dir = File::from(self.open(Missing::Make)?);
        let begun = Instant::now();
        loop {
            match flock(&dir, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(dir),
                Err(Errno::WOULDBLOCK | Errno::INTR) if begun.elapsed() < patience => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                Err(Errno::WOULDBLOCK) => return Err(ErrorKind::TimedOut.into()),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Returns the name of a home's file; none for an id that was not made by us.
fn file_name(id: &HomeId) -> Option<String> {
    let id = id.as_str();
    let plain = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
    plain.then(|| format!("{id}.json"))
}

/// Returns the path of a file in an open directory.
fn within(dir: &OwnedFd, name: &str) -> PathBuf {
    Path::new("/proc/self/fd").join(dir.as_raw_fd().to_string()).join(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_neither_read_nor_written_through_a_link() {
        let root = tempfile::tempdir().unwrap();
        let place = Path::new("/where/the/home/is");
        let id = HomeId("a1".to_owned());
        let planted = HomeNotes::of_user(&root.path().join("planted"));
        std::fs::create_dir(&planted.user_home).unwrap();
        planted.put(&id, place).unwrap();
        assert_eq!(planted.place(&id).as_deref(), Some(place));
        for depth in 0..WAY.len() {
            let user = HomeNotes::of_user(&root.path().join(depth.to_string()));
            let way = |home: &Path, names: &[&str]| home.join(names.join("/"));
            let above = way(&user.user_home, &WAY[..depth]);
            std::fs::create_dir_all(&above).unwrap();
            let target = way(&planted.user_home, &WAY[..=depth]);
            std::os::unix::fs::symlink(target, above.join(WAY[depth])).unwrap();
            assert_eq!(user.place(&id), None, "{}", WAY[depth]);
            user.put(&id, Path::new("/elsewhere")).unwrap_err();
            user.lock(Duration::ZERO).unwrap_err();
        }
        assert_eq!(planted.place(&id).as_deref(), Some(place));
    }
}
