//! Finds the place a write goes to: behind symbolic links, which stay.

use std::ffi::{CString, OsStr};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, Stat, fstat, openat, readlinkat, statat};
use rustix::io::Errno;
use vestal_wire::{Fault, FaultCode, FileKind};

use super::fault::{OrFault, failed, refused};
use super::metadata::{Identity, kind, kind_name};
use super::mkdir::{Parents, make_parents};
use super::path::split;
use super::stat::Links;

/// As many links as the kernel itself follows.
const MAX_LINKS: usize = 40;

/// A name in an open directory, so that nothing that happens to the path
/// afterwards can lead a write astray.
#[derive(Debug)]
pub(super) struct Target {
    /// The directory.
    pub(super) dir: OwnedFd,
    /// The name in it.
    pub(super) name: CString,
    /// The path to it behind all links.
    pub(super) path: PathBuf,
}

/// Finds where a write to `path` goes.
pub(super) fn locate(path: &Path, links: Links, parents: Parents) -> Result<Target, Fault> {
    let mut path_now = path.to_path_buf();
    for _ in 0..MAX_LINKS {
        let (parent, name) = split(&path_now, "write")
            .map_err(|_| refused(FaultCode::WrongKind, "write", path, "it is a directory"))?;
        make_parents(parent, parents)?;
        let dir =
            openat(CWD, parent, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
                .or_fault("write", path)?;
        let link = match links {
            Links::Keep => Err(Errno::INVAL),
            Links::Follow => readlinkat(&dir, &name, Vec::new()),
        };
        match link {
            Ok(target) => path_now = parent.join(OsStr::from_bytes(target.as_bytes())),
            Err(Errno::INVAL | Errno::NOENT) => {
                return Ok(Target { dir, name, path: path_now });
            }
            Err(errno) => return Err(failed("write", path, errno)),
        }
    }
    Err(failed("write", path, Errno::LOOP))
}

impl Target {
    /// Returns the regular file that is there now, if any.
    pub(super) fn lookup(&self) -> Result<Option<Stat>, Fault> {
        match statat(&self.dir, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(failed("write", &self.path, errno)),
            Ok(found) => match kind(&found) {
                FileKind::File => Ok(Some(found)),
                other => Err(refused(FaultCode::WrongKind, "write", &self.path, kind_name(other))),
            },
        }
    }

    /// Returns whether anything at all is there now.
    pub(super) fn is_taken(&self) -> Result<bool, Fault> {
        match statat(&self.dir, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => Err(failed("write", &self.path, errno)),
        }
    }

    /// Returns which directory the name is in.
    pub(super) fn directory(&self) -> Result<Identity, Fault> {
        Ok(Identity::of(&fstat(&self.dir).or_fault("write", &self.path)?))
    }
}
