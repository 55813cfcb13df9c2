//! What of a lower directory is not shown: a layer over it that says so.
//!
//! The kernel takes a character device 0:0 in a layer for the mark of something
//! that was removed. Directories on the way to it are in the layer too, and it is
//! their owners and permissions that are seen: they are those of the lower one.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, ResolveFlags, Stat, Timespec, Timestamps, Uid, chmodat,
    chownat, fstat, makedev, mkdirat, mknodat, openat, openat2, utimensat,
};
use rustix::io::Errno;

use super::Builder;
use super::bind::HARMLESS;
use super::context::Context;
use super::target::attach;
use crate::failure::{Failure, Step, failed};
use crate::users::Owner;

impl Builder<'_> {
    /// Returns a layer that hides some of a directory, mounted over a directory
    /// that nobody looks at; none where there is nothing to hide.
    pub(super) fn hiding(
        &self,
        lower: &OwnedFd,
        hidden: &[PathBuf],
        at: &OwnedFd,
    ) -> Result<Option<OwnedFd>, Failure> {
        if hidden.is_empty() {
            return Ok(None);
        }
        if self.owner == Owner::Myself {
            // Nobody else can make such marks, nor has to: permissions count.
            return Err(Failure::new(Step::Plan, "files can only be hidden by root"));
        }
        let layer = Context::new(Step::Layers, "tmpfs")?.set("mode", "755")?.mount(HARMLESS)?;
        // Most kernels make layers only of what is mounted somewhere.
        attach(&layer, at).map_err(failed(Step::Layers))?;
        Marks { lower, layer: &layer, made: BTreeMap::new() }
            .make(hidden)
            .map_err(|error| Failure::of(Step::Layers, error).because("files are not hidden"))?;
        Ok(Some(layer))
    }
}

/// A layer of marks while it is made.
struct Marks<'a> {
    lower: &'a OwnedFd,
    layer: &'a OwnedFd,
    /// The directories in it, and what is known of those they stand for.
    made: BTreeMap<PathBuf, Stat>,
}

impl Marks<'_> {
    fn make(mut self, hidden: &[PathBuf]) -> io::Result<()> {
        let top = fstat(self.lower)?;
        own(self.layer, OsStr::new("."), &top)?;
        self.made.insert(PathBuf::new(), top);
        for path in hidden {
            self.mark(path)?;
        }
        // What was put into a directory has changed its times.
        for (path, lower) in &self.made {
            let at = if path.as_os_str().is_empty() { Path::new(".") } else { path };
            utimensat(self.layer, at, &times(lower), AtFlags::SYMLINK_NOFOLLOW)?;
        }
        Ok(())
    }

    fn mark(&mut self, path: &Path) -> io::Result<()> {
        let plain = path.components().all(|part| matches!(part, Component::Normal(_)));
        let (Some(above), Some(name), true) = (path.parent(), path.file_name(), plain) else {
            return Err(Errno::INVAL.into());
        };
        // What is no directory any more shows nothing of what was below it.
        if !self.directory(above)? {
            return Ok(());
        }
        let dir = self.open(above)?;
        match mknodat(&dir, name, FileType::CharacterDevice, Mode::empty(), makedev(0, 0)) {
            Err(Errno::EXIST) | Ok(()) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Makes a directory with those above it; false if there is none such in the
    /// lower one, or it is hidden already.
    fn directory(&mut self, path: &Path) -> io::Result<bool> {
        if self.made.contains_key(path) {
            return Ok(true);
        }
        let (Some(above), Some(name)) = (path.parent(), path.file_name()) else {
            return Ok(false);
        };
        if !self.directory(above)? {
            return Ok(false);
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let lower = match openat2(self.lower, path, flags, Mode::empty(), resolve) {
            Ok(lower) => fstat(&lower)?,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        let dir = self.open(above)?;
        match mkdirat(&dir, name, Mode::from_raw_mode(0o700)) {
            Ok(()) => {}
            Err(Errno::EXIST) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        own(&dir, name, &lower)?;
        self.made.insert(path.to_owned(), lower);
        Ok(true)
    }

    /// Opens a directory of the layer.
    fn open(&self, path: &Path) -> rustix::io::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        openat(self.layer, path, flags, Mode::empty())
    }
}

/// Gives a directory the owner and the permissions of another one.
fn own(dir: &OwnedFd, name: &OsStr, like: &Stat) -> rustix::io::Result<()> {
    let owner = (Uid::from_raw(like.st_uid), Gid::from_raw(like.st_gid));
    chownat(dir, name, Some(owner.0), Some(owner.1), AtFlags::SYMLINK_NOFOLLOW)?;
    chmodat(dir, name, Mode::from_raw_mode(like.st_mode & 0o7777), AtFlags::empty())
}

fn times(of: &Stat) -> Timestamps {
    let time = |seconds, nanoseconds: u64| Timespec {
        tv_sec: seconds,
        tv_nsec: nanoseconds.try_into().unwrap_or_default(),
    };
    Timestamps {
        last_access: time(of.st_atime, of.st_atime_nsec),
        last_modification: time(of.st_mtime, of.st_mtime_nsec),
    }
}
