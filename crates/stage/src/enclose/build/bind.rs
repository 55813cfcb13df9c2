//! Directories and files of the host.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{FileType, fstat};
use rustix::mount::{OpenTreeFlags, open_tree};
use vestal_wire::Bind;

use super::Builder;
use super::parts::paths;
use super::target::{NewRoot, attach};
use crate::failure::{Failure, Step, failed_at};
use crate::sys::mount::{Reach, add_attributes, shift_owners};

/// What nothing of the host may be in a sandbox: programs that give rights, and
/// devices.
pub(super) const HARMLESS: u64 = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;

/// Copies a mount, or the part of it that a descriptor names.
pub(super) fn copy(source: &OwnedFd, reach: Reach) -> rustix::io::Result<OwnedFd> {
    let mut flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH;
    if reach == Reach::All {
        flags |= OpenTreeFlags::AT_RECURSIVE;
    }
    open_tree(source, "", flags)
}

/// Returns a mount of a directory that is the sandbox's own.
pub(super) fn directory(source: &OwnedFd) -> io::Result<OwnedFd> {
    let mount = copy(source, Reach::One)?;
    add_attributes(&mount, Reach::One, HARMLESS)?;
    Ok(mount)
}

impl Builder<'_> {
    /// Returns what of the host is to be shown in the sandbox. Taken before
    /// anything of the sandbox is mounted: what is shown may hold the very
    /// directories that the sandbox is made of, and must not hold the sandbox.
    pub(super) fn shown(&self, bind: &Bind, source: &OwnedFd) -> Result<OwnedFd, Failure> {
        self.copy_of(bind, source).map_err(failed_at(Step::Bind, &bind.target))
    }

    /// Shows something of the host in the sandbox.
    pub(super) fn bind(
        &self,
        root: &NewRoot,
        bind: &Bind,
        source: &OwnedFd,
        mount: &OwnedFd,
    ) -> Result<(), Failure> {
        let target = bind.target.as_slice();
        let stat = fstat(source).map_err(failed_at(Step::Source, &bind.source))?;
        let at = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => root.directory(target, 0o755)?,
            _ => root.file(target)?,
        };
        attach(mount, &at).map_err(failed_at(Step::Bind, target))?;
        if bind.hidden.is_empty() {
            return Ok(());
        }
        // What is attached now is under what hides a part of it, and is seen
        // only through that.
        let part = self.without(mount, &paths(&bind.hidden), &at);
        let part = part.map_err(|failure| failure.at(target))?;
        attach(part, &at).map_err(failed_at(Step::Bind, target))
    }

    fn copy_of(&self, bind: &Bind, source: &OwnedFd) -> io::Result<OwnedFd> {
        let reach = if bind.recursive { Reach::All } else { Reach::One };
        let read_only = if bind.read_only { libc::MOUNT_ATTR_RDONLY } else { 0 };
        let mount = copy(source, reach)?;
        match (bind.shifted, self.users) {
            (false, _) => add_attributes(&mount, reach, HARMLESS | read_only)?,
            (true, Some(users)) => {
                shift_owners(&mount, reach, HARMLESS | read_only, users)?;
            }
            (true, None) => return Err(io::ErrorKind::InvalidInput.into()),
        }
        Ok(mount)
    }
}
