//! Empties a directory as far as that is possible.
//!
//! Unlike a deletion it goes on after a failure: what is left is told, and all
//! the rest is gone.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, chmod, fchmod, fstat, openat, unlinkat};
use rustix::io::Errno;
use vestal_wire::Fault;

use super::fault::{OrFault, failed, refused};
use super::metadata::permissions;
use super::path::component;
use super::tree::{Cursor, DIRECTORY, each_entry};

/// What the owner of a directory needs to take out what is in it.
const OWNER: u32 = 0o700;

/// Removes everything in a directory but what is mounted there, and follows no
/// link. Each thing that cannot be removed is told; the number of them comes
/// back.
pub(crate) fn erase(path: &Path, tell: &mut dyn FnMut(&str)) -> Result<u64, Fault> {
    let root = openat(CWD, path, DIRECTORY, Mode::empty()).or_fault("empty", path)?;
    let cursor = Cursor::new(root).or_fault("empty", path)?;
    let mut erasing = Erasing { cursor, path: path.to_path_buf(), tell, kept: 0 };
    let mut frames = vec![Frame { name: CString::default(), below: erasing.sweep(), kept: 0 }];
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

/// A directory on the way down.
struct Frame {
    name: CString,
    below: Vec<CString>,
    /// How much had been kept when it was entered.
    kept: u64,
}

struct Erasing<'a> {
    cursor: Cursor,
    path: PathBuf,
    tell: &'a mut dyn FnMut(&str),
    kept: u64,
}

impl Erasing<'_> {
    /// Removes all in the directory the cursor is in but directories, which it
    /// returns.
    fn sweep(&mut self) -> Vec<CString> {
        let here = self.cursor.here();
        if let Ok(stat) = fstat(here)
            && stat.st_mode & OWNER != OWNER
        {
            // Whoever may not do this may perhaps do without.
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

    /// Goes into a directory and removes what can be removed at once.
    fn enter(&mut self, name: CString) -> Option<Frame> {
        let mut entered = self.cursor.enter_unmounted(&name);
        if entered == Err(Errno::ACCESS) && self.open_up(&name).is_ok() {
            entered = self.cursor.enter_unmounted(&name);
        }
        match entered {
            Ok(()) => {
                self.path.push(component(&name));
                let kept = self.kept;
                Some(Frame { below: self.sweep(), name, kept })
            }
            Err(Errno::NOENT) => None,
            Err(Errno::XDEV) => {
                self.keep(&name, Errno::XDEV);
                None
            }
            Err(errno) => {
                // What cannot be entered can still be empty, or no directory by now.
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

    /// Lets the owner of a directory into it.
    fn open_up(&self, name: &CStr) -> Result<(), Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = openat(self.cursor.here(), name, flags, Mode::empty())?;
        let mode = permissions(&fstat(&directory)?) | OWNER;
        let handle = format!("/proc/self/fd/{}", directory.as_fd().as_raw_fd());
        chmod(handle, Mode::from_raw_mode(mode))
    }

    /// Goes back out of a directory and removes it.
    fn leave(&mut self, frame: &Frame) -> Result<(), Fault> {
        self.cursor.leave().or_fault("leave", &self.path)?;
        self.path.pop();
        match unlinkat(self.cursor.here(), &frame.name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => {}
            // What is still in it has been told.
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
        (self.tell)(&fault.message);
    }
}

#[cfg(test)]
#[path = "erase_tests.rs"]
mod tests;
