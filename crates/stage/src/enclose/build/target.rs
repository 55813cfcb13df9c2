//! Where things go below the new root.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, ResolveFlags, StatxFlags, fstat, mkdirat, openat, openat2,
    statx, symlinkat, unlinkat,
};
use rustix::io::Errno;
use rustix::mount::{MoveMountFlags, move_mount};

use crate::failure::{Failure, Step, failed};
use crate::users::Owner;

/// Attempts to make what somebody removes again. Nobody does: a sandbox is built
/// before anything runs in it.
const ATTEMPTS: usize = 3;

/// The root of the sandbox while it is built.
#[derive(Debug)]
pub(super) struct NewRoot {
    mount: OwnedFd,
    owner: Owner,
    /// Mounts whose content is the sandbox's own, so that what is in the way of
    /// a target can go. What is in a directory of the host stays.
    own: HashSet<u64>,
}

/// Mounts something over what a descriptor names.
pub(super) fn attach(mount: impl AsFd, at: impl AsFd) -> rustix::io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(mount.as_fd(), "", at.as_fd(), "", flags)
}

impl NewRoot {
    /// Takes a mounted directory for the root of a sandbox.
    pub(super) fn new(mount: OwnedFd, owner: Owner) -> Result<Self, Failure> {
        let own = HashSet::from([mount_id(mount.as_fd()).map_err(failed(Step::Root))?]);
        Ok(Self { mount, owner, own })
    }

    /// Returns the root itself.
    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.mount.as_fd()
    }

    /// Mounts something whose content is the sandbox's own.
    pub(super) fn own(&mut self, mount: &OwnedFd, at: &OwnedFd) -> rustix::io::Result<()> {
        attach(mount, at)?;
        self.own.insert(mount_id(mount.as_fd())?);
        Ok(())
    }

    /// Makes something that belongs to root of the sandbox.
    pub(super) fn make<T>(&self, make: impl FnOnce() -> rustix::io::Result<T>) -> io::Result<T> {
        self.owner.make(make)
    }

    /// Returns a directory, which is made if it is missing, and those on the way
    /// to it.
    pub(super) fn directory(&self, target: &[u8], mode: u32) -> Result<OwnedFd, Failure> {
        let failed = |error: io::Error| Failure::of(Step::Target, error).at(target);
        let names = names(target).map_err(failed)?;
        let last = names.len().saturating_sub(1);
        let mut directory = self.mount.try_clone().map_err(failed)?;
        for (index, name) in names.iter().enumerate() {
            let mode = if index == last { mode } else { 0o755 };
            directory = self.enter(&directory, name, mode).map_err(failed)?;
        }
        Ok(directory)
    }

    /// Returns a file that can be mounted over, which is made if it is missing.
    pub(super) fn file(&self, target: &[u8]) -> Result<OwnedFd, Failure> {
        let failed = |error: io::Error| Failure::of(Step::Target, error).at(target);
        let (directory, name) = self.parent(target)?;
        for _ in 0..ATTEMPTS {
            let found = open_beneath(&directory, name, OFlags::empty());
            match found {
                Ok(found) => match kind(&found).map_err(failed)? {
                    FileType::Directory => return Err(failed(Errno::ISDIR.into())),
                    FileType::Symlink => self.clear(&directory, name).map_err(failed)?,
                    _ => return Ok(found),
                },
                Err(Errno::NOENT) => {
                    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
                    let mode = Mode::from_raw_mode(0o644);
                    self.make(|| openat(&directory, name, flags, mode)).map_err(failed)?;
                }
                Err(error) => return Err(failed(error.into())),
            }
        }
        Err(failed(Errno::BUSY.into()))
    }

    /// Makes a symbolic link where there is nothing, or an empty directory that
    /// something was mounted over once.
    pub(super) fn link(&self, target: &[u8], text: &[u8]) -> Result<(), Failure> {
        let failed = |error: io::Error| Failure::of(Step::Link, error).at(target);
        let (directory, name) = self.parent(target)?;
        let text = OsStr::from_bytes(text);
        let make = || self.make(|| symlinkat(text, &directory, name));
        match make() {
            Err(error) if error.raw_os_error() == Some(libc::EEXIST) => {
                match unlinkat(&directory, name, AtFlags::REMOVEDIR) {
                    Ok(()) => make().map_err(failed),
                    Err(_) => Ok(()),
                }
            }
            made => made.map_err(failed),
        }
    }

    /// Returns the directory of a target and the target's name in it.
    fn parent<'t>(&self, target: &'t [u8]) -> Result<(OwnedFd, &'t OsStr), Failure> {
        let failed = |error: io::Error| Failure::of(Step::Target, error).at(target);
        let names = names(target).map_err(failed)?;
        let Some((name, way)) = names.split_last() else {
            return Err(failed(Errno::INVAL.into()));
        };
        let mut directory = self.mount.try_clone().map_err(failed)?;
        for name in way {
            directory = self.enter(&directory, name, 0o755).map_err(failed)?;
        }
        Ok((directory, name))
    }

    fn enter(&self, directory: &OwnedFd, name: &OsStr, mode: u32) -> io::Result<OwnedFd> {
        let mode = Mode::from_raw_mode(mode);
        for _ in 0..ATTEMPTS {
            match open_beneath(directory, name, OFlags::DIRECTORY) {
                Ok(found) => return Ok(found),
                Err(Errno::NOENT) => {}
                Err(Errno::NOTDIR | Errno::LOOP) => self.clear(directory, name)?,
                Err(error) => return Err(error.into()),
            }
            self.make(|| mkdirat(directory, name, mode))?;
        }
        Err(Errno::BUSY.into())
    }

    /// Removes what is in the way, if it is in a place of the sandbox's own.
    fn clear(&self, directory: &OwnedFd, name: &OsStr) -> io::Result<()> {
        if self.own.contains(&mount_id(directory.as_fd())?) {
            return Ok(unlinkat(directory, name, AtFlags::empty())?);
        }
        Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            format!("{} is in the way in a directory of the host", name.display()),
        ))
    }
}

/// Takes the path of a target apart.
fn names(target: &[u8]) -> io::Result<Vec<&OsStr>> {
    let names: Vec<_> =
        target.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).collect();
    if !target.starts_with(b"/") || names.iter().any(|name| matches!(*name, b"." | b"..")) {
        return Err(Errno::INVAL.into());
    }
    Ok(names.into_iter().map(OsStr::from_bytes).collect())
}

/// Opens what a name in a directory stands for, never following a link.
fn open_beneath(directory: &OwnedFd, name: &OsStr, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let flags = flags | OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    if flags.contains(OFlags::DIRECTORY) {
        resolve |= ResolveFlags::NO_SYMLINKS;
    }
    openat2(directory, name, flags, Mode::empty(), resolve)
}

fn kind(file: &OwnedFd) -> io::Result<FileType> {
    Ok(FileType::from_raw_mode(fstat(file)?.st_mode))
}

fn mount_id(file: BorrowedFd<'_>) -> rustix::io::Result<u64> {
    Ok(statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID)?.stx_mnt_id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_whole_paths_without_detours() {
        assert_eq!(names(b"/").unwrap(), Vec::<&OsStr>::new());
        assert_eq!(names(b"//a/b/").unwrap(), [OsStr::new("a"), OsStr::new("b")]);
        for wrong in [&b""[..], b"a", b"/a/../b", b"/./a"] {
            assert!(names(wrong).is_err(), "{wrong:?}");
        }
    }
}
