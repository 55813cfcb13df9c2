//! Deletes files and whole trees, and empties directories.
//!
//! A tree is deleted from inside: every step is relative to an open directory and
//! follows no link, so nothing outside the tree can be hit, whatever is moved or
//! swapped meanwhile. `erase` continues after a failure and reports what is left.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, chmod, fchmod, fstat, lstat, openat, stat, statat,
    unlinkat,
};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use vestal_wire::{Fault, FaultCode, FileReply};

use super::metadata::{FileId, permissions};
use super::paths::{component, split};
use super::perform::{OpError, OrFault, PathRoots, check, failed, refused};
use super::tree::{DIRECTORY, TreeCursor, each_entry};

/// How often a directory is emptied again if others keep filling it.
const ATTEMPTS: u32 = 16;

/// Permissions that the owner of a directory needs to delete its entries.
const OWNER: u32 = 0o700;

/// Whether a directory is deleted with its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DeleteDepth {
    /// It must be empty.
    One,
    /// Its content is deleted too.
    All,
}

impl From<bool> for DeleteDepth {
    fn from(recursive: bool) -> Self {
        if recursive { Self::All } else { Self::One }
    }
}

/// Deletes the file or directory at `path`.
pub(super) fn delete(
    path: &Path,
    depth: DeleteDepth,
    roots: &PathRoots,
    cancelled: &AtomicBool,
) -> Result<FileReply, Fault> {
    if path.parent().is_none() || holds_home(path, roots) {
        let why = "it is or contains the root or the home of the sandbox";
        return Err(refused(FaultCode::Invalid, "delete", path, why));
    }
    let (parent, name) = split(path, "delete")?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let parent = openat(CWD, parent, flags, Mode::empty()).or_fault("delete", path)?;
    match depth {
        DeleteDepth::One => delete_one(parent.as_fd(), &name).or_fault("delete", path)?,
        DeleteDepth::All => delete_tree(parent.as_fd(), &name, path, cancelled)?,
    }
    Ok(FileReply::Done)
}

/// Returns whether deleting `path` would delete the root or the home. Compares
/// files rather than paths.
fn holds_home(path: &Path, roots: &PathRoots) -> bool {
    let Ok(found) = lstat(path) else {
        return false;
    };
    let doomed = FileId::of(&found);
    let home = std::fs::canonicalize(&roots.home).unwrap_or_else(|_| roots.home.clone());
    home.ancestors()
        .chain([Path::new("/")])
        .any(|kept| stat(kept).is_ok_and(|kept| FileId::of(&kept) == doomed))
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

/// A directory being deleted.
struct DeleteFrame {
    name: CString,
    below: Vec<CString>,
    attempts: u32,
}

/// Deletes `name` in `parent` with its content. `path` is used in faults.
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
        cursor: TreeCursor::new(start).or_fault("delete", path)?,
        path: path.parent().unwrap_or(path).to_path_buf(),
        cancelled,
    };
    emptying.run(name)
}

struct Emptying<'a> {
    cursor: TreeCursor,
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
            let Some(DeleteFrame { name, attempts, .. }) = frames.pop() else {
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

    /// Enters a directory and deletes all entries except directories. Returns
    /// `None`, without entering, if the directory no longer exists.
    fn enter(&mut self, name: CString, attempts: u32) -> Result<Option<DeleteFrame>, Fault> {
        self.path.push(component(&name));
        if let Err(errno) = self.cursor.enter(&name) {
            let gone = match errno {
                // Whatever replaced it is deleted when its parent is read again.
                Errno::NOENT | Errno::NOTDIR | Errno::LOOP => true,
                // An unreadable directory may still be empty.
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
                    Err(OpError::Fault(failed("delete", &path, errno)))
                }
            }
        })
        .map_err(|error: OpError| error.into_fault("delete", &self.path))?;
        Ok(Some(DeleteFrame { name, below, attempts }))
    }
}

/// Removes everything in a directory except mounts, without following links.
/// Reports each entry that cannot be removed, and returns their number.
pub(crate) fn erase(path: &Path, report: &mut dyn FnMut(&str)) -> Result<u64, Fault> {
    let root = openat(CWD, path, DIRECTORY, Mode::empty()).or_fault("empty", path)?;
    let cursor = TreeCursor::new(root).or_fault("empty", path)?;
    let mut erasing = Erasing { cursor, path: path.to_path_buf(), report, kept: 0 };
    let mut frames =
        vec![EraseFrame { name: CString::default(), below: erasing.remove_files(), kept: 0 }];
    while let Some(frame) = frames.last_mut() {
        if let Some(name) = frame.below.pop() {
            frames.extend(erasing.enter(name));
            continue;
        }
        let Some(frame) = frames.pop() else {
            break;
        };
        if !frames.is_empty() {
            erasing.leave(&frame)?;
        }
    }
    Ok(erasing.kept)
}

/// A directory being emptied.
struct EraseFrame {
    name: CString,
    below: Vec<CString>,
    /// Number of entries kept when the directory was entered.
    kept: u64,
}

struct Erasing<'a> {
    cursor: TreeCursor,
    path: PathBuf,
    report: &'a mut dyn FnMut(&str),
    kept: u64,
}

impl Erasing<'_> {
    /// Removes all entries of the current directory except subdirectories, which
    /// it returns.
    fn remove_files(&mut self) -> Vec<CString> {
        let here = self.cursor.here();
        if let Ok(stat) = fstat(here)
            && stat.st_mode & OWNER != OWNER
        {
            // A failure is ignored: removing may work without it.
            fchmod(here, Mode::from_raw_mode(permissions(&stat) | OWNER)).ok();
        }
        let (mut below, mut left) = (Vec::new(), Vec::new());
        let listed = each_entry(here, |name, listed| {
            if listed == FileType::Directory {
                below.push(name.to_owned());
                return Ok::<(), Errno>(());
            }
            match unlinkat(here, name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(Errno::ISDIR) => below.push(name.to_owned()),
                Err(errno) => left.push((name.to_owned(), errno)),
            }
            Ok(())
        });
        for (name, errno) in left {
            self.keep(&name, errno);
        }
        if let Err(errno) = listed {
            self.keep(c"", errno);
        }
        below
    }

    /// Enters a directory and removes its entries except subdirectories.
    fn enter(&mut self, name: CString) -> Option<EraseFrame> {
        let mut entered = self.cursor.enter_unmounted(&name);
        if entered == Err(Errno::ACCESS) && self.allow_owner(&name).is_ok() {
            entered = self.cursor.enter_unmounted(&name);
        }
        match entered {
            Ok(()) => {
                self.path.push(component(&name));
                let kept = self.kept;
                Some(EraseFrame { below: self.remove_files(), name, kept })
            }
            Err(Errno::NOENT) => None,
            Err(Errno::XDEV) => {
                self.keep(&name, Errno::XDEV);
                None
            }
            Err(errno) => {
                // A directory that cannot be entered may be empty, or replaced by
                // a file.
                let here = self.cursor.here();
                let removed = unlinkat(here, &name, AtFlags::REMOVEDIR)
                    .or_else(|_| unlinkat(here, &name, AtFlags::empty()));
                if removed.is_err() {
                    self.keep(&name, errno);
                }
                None
            }
        }
    }

    /// Gives the owner of a directory access to it.
    fn allow_owner(&self, name: &CStr) -> Result<(), Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = openat(self.cursor.here(), name, flags, Mode::empty())?;
        let mode = permissions(&fstat(&directory)?) | OWNER;
        let handle = format!("/proc/self/fd/{}", directory.as_fd().as_raw_fd());
        chmod(handle, Mode::from_raw_mode(mode))
    }

    /// Leaves a directory and removes it.
    fn leave(&mut self, frame: &EraseFrame) -> Result<(), Fault> {
        self.cursor.leave().or_fault("leave", &self.path)?;
        self.path.pop();
        match unlinkat(self.cursor.here(), &frame.name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => {}
            // The entries still in it have been reported.
            Err(Errno::NOTEMPTY | Errno::EXIST) if self.kept > frame.kept => {}
            Err(errno) => self.keep(&frame.name, errno),
        }
        Ok(())
    }

    fn keep(&mut self, name: &CStr, errno: Errno) {
        self.kept += 1;
        let path = self.path.join(component(name));
        let fault = match errno {
            Errno::XDEV => {
                let why = "something else is mounted there";
                refused(vestal_wire::FaultCode::Busy, "delete", &path, why)
            }
            errno => failed("delete", &path, errno),
        };
        (self.report)(&fault.message);
    }
}

#[cfg(test)]
#[path = "delete_tests.rs"]
mod tests;
