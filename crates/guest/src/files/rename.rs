//! Renames, across filesystems by copying.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::AtomicBool;

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, fstat, linkat, openat, renameat,
    renameat_with, statat, unlinkat,
};
use rustix::io::Errno;
use vestal_wire::{Fault, FaultCode, FileReply};

use super::copy::copy_tree;
use super::delete::delete_tree;
use super::fault::{OrFault, failed, refused, shown};
use super::metadata::Identity;
use super::path::split;
use super::spool::with_fresh_name;

/// What to do about a file that has the new name already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Overwrite {
    /// Fails.
    Never,
    /// Replaces it.
    Allowed,
}

impl From<bool> for Overwrite {
    fn from(allowed: bool) -> Self {
        if allowed { Self::Allowed } else { Self::Never }
    }
}

/// A name in an open directory.
struct Spot<'p> {
    dir: OwnedFd,
    name: CString,
    path: &'p Path,
}

impl<'p> Spot<'p> {
    fn open(path: &'p Path) -> Result<Self, Fault> {
        let (parent, name) = split(path, "move")?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = openat(CWD, parent, flags, Mode::empty()).or_fault("move to or from", path)?;
        Ok(Self { dir, name, path })
    }

    fn exists(&self) -> bool {
        statat(&self.dir, &self.name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }
}

/// Gives what is at `from` the name `to`.
pub(super) fn rename(
    from: &Path,
    to: &Path,
    overwrite: Overwrite,
    cancelled: &AtomicBool,
) -> Result<FileReply, Fault> {
    let (source, goal) = (Spot::open(from)?, Spot::open(to)?);
    let source_end = (source.dir.as_fd(), source.name.as_c_str());
    let moved = match overwrite {
        Overwrite::Allowed => renameat(&source.dir, &source.name, &goal.dir, &goal.name),
        Overwrite::Never => rename_to_free(source_end, (goal.dir.as_fd(), &goal.name)),
    };
    match moved {
        Ok(()) => {}
        Err(Errno::XDEV) => carry(&source, &goal, overwrite, cancelled)?,
        Err(Errno::INVAL) => return Err(into_itself(&source, &goal)),
        Err(errno @ (Errno::EXIST | Errno::NOTEMPTY | Errno::ISDIR | Errno::NOTDIR)) => {
            return Err(failed("move", from, errno).onto(to));
        }
        Err(errno) => return Err(failed("move", from, errno)),
    }
    Ok(FileReply::Done)
}

/// Says in a fault where the move went, when that is what is wrong.
trait Onto {
    fn onto(self, to: &Path) -> Self;
}

impl Onto for Fault {
    fn onto(mut self, to: &Path) -> Self {
        self.message = format!("{} (at {})", self.message, shown(to));
        self
    }
}

fn into_itself(source: &Spot<'_>, goal: &Spot<'_>) -> Fault {
    let why = format!("{} is inside of it", shown(goal.path));
    refused(FaultCode::Invalid, "move", source.path, &why)
}

type End<'a> = (std::os::fd::BorrowedFd<'a>, &'a CStr);

/// Renames where nothing has the new name.
fn rename_to_free((from_dir, from): End<'_>, (to_dir, to): End<'_>) -> Result<(), Errno> {
    match renameat_with(from_dir, from, to_dir, to, RenameFlags::NOREPLACE) {
        // It means a directory moved into itself too, which the other ways find as well.
        Err(Errno::INVAL | Errno::NOSYS) => {}
        done => return done,
    }
    let found = statat(from_dir, from, AtFlags::SYMLINK_NOFOLLOW)?;
    if FileType::from_raw_mode(found.st_mode) == FileType::RegularFile {
        linkat(from_dir, from, to_dir, to, AtFlags::empty())?;
        return unlinkat(from_dir, from, AtFlags::empty());
    }
    match statat(to_dir, to, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(_) => Err(Errno::EXIST),
        Err(Errno::NOENT) => renameat(from_dir, from, to_dir, to),
        Err(errno) => Err(errno),
    }
}

/// Moves to another filesystem: a copy is made beside the goal, takes its name
/// in one step, and only then the original goes. Up to that step nothing is
/// changed but the copy, which goes again when it fails.
fn carry(
    source: &Spot<'_>,
    goal: &Spot<'_>,
    overwrite: Overwrite,
    cancelled: &AtomicBool,
) -> Result<(), Fault> {
    if overwrite == Overwrite::Never && goal.exists() {
        return Err(failed("move", source.path, Errno::EXIST).onto(goal.path));
    }
    if is_inside(goal, source)? {
        return Err(into_itself(source, goal));
    }
    let staged =
        with_fresh_name(|name| match statat(&goal.dir, &name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => Err(Errno::EXIST),
            Err(Errno::NOENT) => Ok(name),
            Err(errno) => Err(errno),
        })
        .or_fault("move to", goal.path)?;
    let copied = copy_tree(
        (source.dir.as_fd(), &source.name, source.path),
        (goal.dir.as_fd(), &staged),
        cancelled,
    )
    .and_then(|()| {
        let end = (goal.dir.as_fd(), staged.as_c_str());
        match overwrite {
            Overwrite::Allowed => renameat(&goal.dir, &staged, &goal.dir, &goal.name),
            Overwrite::Never => rename_to_free(end, (goal.dir.as_fd(), &goal.name)),
        }
        .map_err(|errno| failed("move", source.path, errno).onto(goal.path))
    });
    // From here on nobody can stop it half-way.
    let go_on = AtomicBool::new(false);
    if let Err(fault) = copied {
        // The first fault is the one to tell.
        delete_tree(goal.dir.as_fd(), &staged, goal.path, &go_on).ok();
        return Err(fault);
    }
    delete_tree(source.dir.as_fd(), &source.name, source.path, &go_on).map_err(|mut fault| {
        fault.message =
            format!("it was copied to {} whole, but {}", shown(goal.path), fault.message);
        fault
    })
}

/// Tells whether the goal lies inside of the source, by climbing up from it.
fn is_inside(goal: &Spot<'_>, source: &Spot<'_>) -> Result<bool, Fault> {
    let found = statat(&source.dir, &source.name, AtFlags::SYMLINK_NOFOLLOW)
        .or_fault("move", source.path)?;
    let source = Identity::of(&found);
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let climb = || -> Result<bool, Errno> {
        let mut here = openat(&goal.dir, c".", flags, Mode::empty())?;
        let mut identity = Identity::of(&fstat(&here)?);
        loop {
            if identity == source {
                return Ok(true);
            }
            here = openat(&here, c"..", flags, Mode::empty())?;
            let above = Identity::of(&fstat(&here)?);
            if above == identity {
                return Ok(false);
            }
            identity = above;
        }
    };
    climb().or_fault("move to", goal.path)
}

#[cfg(test)]
#[path = "rename_tests.rs"]
mod tests;
