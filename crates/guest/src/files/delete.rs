//! Deletes files and whole trees.
//!
//! A tree is taken apart from inside: every step is relative to an open
//! directory and follows no link, so that nothing outside of the tree can be
//! hit, whatever is moved or swapped meanwhile.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, lstat, openat, stat, statat, unlinkat};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use vestal_wire::{Fault, FaultCode, FileReply};

use super::fault::{OrFault, Stop, check, failed, refused};
use super::metadata::Identity;
use super::path::{component, split};
use super::perform::Places;
use super::tree::{Cursor, each_entry};

/// How often a directory is emptied again that others keep filling.
const ATTEMPTS: u32 = 16;

/// How much goes with a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Depth {
    /// Nothing: it must be empty.
    One,
    /// All that is in it.
    All,
}

impl From<bool> for Depth {
    fn from(recursive: bool) -> Self {
        if recursive { Self::All } else { Self::One }
    }
}

/// Deletes what is at `path`.
pub(super) fn delete(
    path: &Path,
    depth: Depth,
    places: &Places,
    cancelled: &AtomicBool,
) -> Result<FileReply, Fault> {
    if path.parent().is_none() || holds_home(path, places) {
        let why = "the root and the home of the sandbox, and what holds them, are kept";
        return Err(refused(FaultCode::Invalid, "delete", path, why));
    }
    let (parent, name) = split(path, "delete")?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let parent = openat(CWD, parent, flags, Mode::empty()).or_fault("delete", path)?;
    match depth {
        Depth::One => delete_one(parent.as_fd(), &name).or_fault("delete", path)?,
        Depth::All => delete_tree(parent.as_fd(), &name, path, cancelled)?,
    }
    Ok(FileReply::Done)
}

/// Tells whether the root or the home would go with `path`, by what it is
/// rather than by how it is written.
fn holds_home(path: &Path, places: &Places) -> bool {
    let Ok(found) = lstat(path) else {
        return false;
    };
    let doomed = Identity::of(&found);
    let home = std::fs::canonicalize(&places.home).unwrap_or_else(|_| places.home.clone());
    home.ancestors()
        .chain([Path::new("/")])
        .any(|kept| stat(kept).is_ok_and(|kept| Identity::of(&kept) == doomed))
}

fn delete_one(parent: BorrowedFd<'_>, name: &CStr) -> Result<(), Errno> {
    match unlinkat(parent, name, AtFlags::empty()) {
        Err(Errno::ISDIR | Errno::PERM) if is_directory(parent, name) => {
            unlinkat(parent, name, AtFlags::REMOVEDIR)
        }
        done => done,
    }
}

fn is_directory(parent: BorrowedFd<'_>, name: &CStr) -> bool {
    statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Directory)
}

/// A directory on the way down.
struct Frame {
    name: CString,
    below: Vec<CString>,
    attempts: u32,
}

/// Deletes `name` in `parent` with all that is in it. `path` is for faults.
pub(super) fn delete_tree(
    parent: BorrowedFd<'_>,
    name: &CStr,
    path: &Path,
    cancelled: &AtomicBool,
) -> Result<(), Fault> {
    match delete_one(parent, name) {
        Err(Errno::NOTEMPTY | Errno::EXIST) => {}
        done => return done.or_fault("delete", path),
    }
    let start = fcntl_dupfd_cloexec(parent, 0).or_fault("delete", path)?;
    let mut emptying = Emptying {
        cursor: Cursor::new(start).or_fault("delete", path)?,
        path: path.parent().unwrap_or(path).to_path_buf(),
        cancelled,
    };
    emptying.run(name)
}

struct Emptying<'a> {
    cursor: Cursor,
    path: PathBuf,
    cancelled: &'a AtomicBool,
}

impl Emptying<'_> {
    fn run(&mut self, name: &CStr) -> Result<(), Fault> {
        let mut frames = Vec::from_iter(self.enter(name.to_owned(), ATTEMPTS)?);
        while let Some(frame) = frames.last_mut() {
            if let Some(below) = frame.below.pop() {
                frames.extend(self.enter(below, ATTEMPTS)?);
                continue;
            }
            let Some(Frame { name, attempts, .. }) = frames.pop() else {
                break;
            };
            self.cursor.leave().or_fault("delete", &self.path)?;
            match unlinkat(self.cursor.here(), &name, AtFlags::REMOVEDIR) {
                Ok(()) | Err(Errno::NOENT) => {
                    self.path.pop();
                }
                Err(Errno::NOTEMPTY | Errno::EXIST) if attempts > 0 => {
                    self.path.pop();
                    frames.extend(self.enter(name, attempts - 1)?);
                }
                Err(errno) => return Err(failed("delete", &self.path, errno)),
            }
        }
        Ok(())
    }

    /// Goes into a directory and deletes all in it but directories. Returns
    /// `None`, outside of it, when there is no such directory any more.
    fn enter(&mut self, name: CString, attempts: u32) -> Result<Option<Frame>, Fault> {
        self.path.push(component(&name));
        if let Err(errno) = self.cursor.enter(&name) {
            let gone = match errno {
                // Whatever was swapped in goes when its directory is looked at again.
                Errno::NOENT | Errno::NOTDIR | Errno::LOOP => true,
                // What cannot be read can still be empty.
                Errno::ACCESS => unlinkat(self.cursor.here(), &name, AtFlags::REMOVEDIR).is_ok(),
                _ => false,
            };
            if !gone {
                return Err(failed("delete", &self.path, errno));
            }
            self.path.pop();
            return Ok(None);
        }
        let mut below = Vec::new();
        let here = self.cursor.here();
        each_entry(here, |entry, listed| {
            check(self.cancelled)?;
            if listed == FileType::Directory {
                below.push(entry.to_owned());
                return Ok(());
            }
            match unlinkat(here, entry, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => Ok(()),
                Err(Errno::ISDIR) => {
                    below.push(entry.to_owned());
                    Ok(())
                }
                Err(errno) => {
                    let path = self.path.join(component(entry));
                    Err(Stop::Fault(failed("delete", &path, errno)))
                }
            }
        })
        .map_err(|stop: Stop| stop.into_fault("delete", &self.path))?;
        Ok(Some(Frame { name, below, attempts }))
    }
}

#[cfg(test)]
#[path = "delete_tests.rs"]
mod tests;
