//! Renames files, and copies them to move across filesystems.

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
use super::metadata::FileId;
use super::paths::split;
use super::perform::{OrFault, failed, refused, shown};
use super::spool::with_fresh_name;

/// What to do if the new name exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IfExists {
    /// Fail.
    Never,
    /// Replace it.
    Allowed,
}

impl From<bool> for IfExists {
    fn from(allowed: bool) -> Self {
        if allowed { Self::Allowed } else { Self::Never }
    }
}

/// A name in an open directory.
struct RenameEnd<'p> {
    dir: OwnedFd,
    name: CString,
    path: &'p Path,
}

impl<'p> RenameEnd<'p> {
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

/// Renames `from` to `to`.
pub(super) fn rename(
    from: &Path,
    to: &Path,
    overwrite: IfExists,
    cancelled: &AtomicBool,
) -> Result<FileReply, Fault> {
    let (source, target) = (RenameEnd::open(from)?, RenameEnd::open(to)?);
    let source_end = (source.dir.as_fd(), source.name.as_c_str());
    let moved = match overwrite {
        IfExists::Allowed => renameat(&source.dir, &source.name, &target.dir, &target.name),
        IfExists::Never => rename_to_free(source_end, (target.dir.as_fd(), &target.name)),
    };
    match moved {
        Ok(()) => {}
        Err(Errno::XDEV) => move_across_filesystems(&source, &target, overwrite, cancelled)?,
        Err(Errno::INVAL) => return Err(into_itself(&source, &target)),
        Err(errno @ (Errno::EXIST | Errno::NOTEMPTY | Errno::ISDIR | Errno::NOTDIR)) => {
            return Err(failed("move", from, errno).onto(to));
        }
        Err(errno) => return Err(failed("move", from, errno)),
    }
    Ok(FileReply::Done)
}

/// Adds the target of the move to a fault, if the target is the problem.
trait Onto {
    fn onto(self, to: &Path) -> Self;
}

impl Onto for Fault {
    fn onto(mut self, to: &Path) -> Self {
        self.message = format!("{} (at {})", self.message, shown(to));
        self
    }
}

fn into_itself(source: &RenameEnd<'_>, target: &RenameEnd<'_>) -> Fault {
    let why = format!("{} is inside of it", shown(target.path));
    refused(FaultCode::Invalid, "move", source.path, &why)
}

type EndpointRef<'a> = (std::os::fd::BorrowedFd<'a>, &'a CStr);

/// Renames if the new name does not exist.
fn rename_to_free(
    (from_dir, from): EndpointRef<'_>,
    (to_dir, to): EndpointRef<'_>,
) -> Result<(), Errno> {
    match renameat_with(from_dir, from, to_dir, to, RenameFlags::NOREPLACE) {
        // It can also mean a directory moved into itself, which the code below
        // detects too.
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

/// Moves to another filesystem. Creates a copy beside the target, renames it in
/// one step, and only then deletes the original. Until that step only the copy is
/// created, which is deleted after a failure.
fn move_across_filesystems(
    source: &RenameEnd<'_>,
    target: &RenameEnd<'_>,
    overwrite: IfExists,
    cancelled: &AtomicBool,
) -> Result<(), Fault> {
    if overwrite == IfExists::Never && target.exists() {
        return Err(failed("move", source.path, Errno::EXIST).onto(target.path));
    }
    if is_inside(target, source)? {
        return Err(into_itself(source, target));
    }
    let staged =
        with_fresh_name(|name| match statat(&target.dir, &name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => Err(Errno::EXIST),
            Err(Errno::NOENT) => Ok(name),
            Err(errno) => Err(errno),
        })
        .or_fault("move to", target.path)?;
    let copied = copy_tree(
        (source.dir.as_fd(), &source.name, source.path),
        (target.dir.as_fd(), &staged),
        cancelled,
    )
    .and_then(|()| {
        let end = (target.dir.as_fd(), staged.as_c_str());
        match overwrite {
            IfExists::Allowed => renameat(&target.dir, &staged, &target.dir, &target.name),
            IfExists::Never => rename_to_free(end, (target.dir.as_fd(), &target.name)),
        }
        .map_err(|errno| failed("move", source.path, errno).onto(target.path))
    });
    // From here on the move cannot be cancelled half-way.
    let go_on = AtomicBool::new(false);
    if let Err(fault) = copied {
        // The first fault is reported.
        delete_tree(target.dir.as_fd(), &staged, target.path, &go_on).ok();
        return Err(fault);
    }
    delete_tree(source.dir.as_fd(), &source.name, source.path, &go_on).map_err(|mut fault| {
        fault.message =
            format!("it was copied to {} whole, but {}", shown(target.path), fault.message);
        fault
    })
}

/// Returns whether the target is inside the source, by checking all its parents.
fn is_inside(target: &RenameEnd<'_>, source: &RenameEnd<'_>) -> Result<bool, Fault> {
    let found = statat(&source.dir, &source.name, AtFlags::SYMLINK_NOFOLLOW)
        .or_fault("move", source.path)?;
    let source = FileId::of(&found);
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let climb = || -> Result<bool, Errno> {
        let mut here = openat(&target.dir, c".", flags, Mode::empty())?;
        let mut identity = FileId::of(&fstat(&here)?);
        loop {
            if identity == source {
                return Ok(true);
            }
            here = openat(&here, c"..", flags, Mode::empty())?;
            let above = FileId::of(&fstat(&here)?);
            if above == identity {
                return Ok(false);
            }
            identity = above;
        }
    };
    climb().or_fault("move to", target.path)
}

#[cfg(test)]
#[path = "rename_tests.rs"]
mod tests;
