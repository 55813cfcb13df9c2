//! Carries what a file has besides its content over to another one.

use std::ffi::CStr;
use std::fs::File;
use std::path::Path;

use rustix::fs::{
    Gid, Mode, Stat, Timestamps, Uid, XattrFlags, fchmod, fchown, fgetxattr, flistxattr,
    fremovexattr, fsetxattr, fstat, futimens, lgetxattr, llistxattr,
};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};

use super::metadata::permissions;

/// Names of all extended attributes of a file take no more than this.
const MAX_XATTR_LIST: usize = 64 << 10;
/// The longest extended attribute.
const MAX_XATTR_VALUE: usize = 64 << 10;

/// Makes `file` what the file at `path`, described by `old`, is: owner, group,
/// mode and extended attributes, access lists among them. Fails when one that
/// matters cannot be kept.
pub(super) fn adopt(file: &File, old: &Stat, mode: Option<Mode>, path: &Path) -> Result<(), Errno> {
    own(file, old)?;
    fchmod(file, mode.unwrap_or(Mode::from_raw_mode(permissions(old))))?;
    copy_xattrs(Original::Path(path), file)
}

/// Gives `file` the owner and the group of `old`.
pub(super) fn own(file: &File, old: &Stat) -> Result<(), Errno> {
    let now = fstat(file)?;
    if (now.st_uid, now.st_gid) == (old.st_uid, old.st_gid) {
        return Ok(());
    }
    fchown(file, Some(Uid::from_raw(old.st_uid)), Some(Gid::from_raw(old.st_gid)))
}

/// Makes the extended attributes of `file` those of the original.
pub(super) fn copy_xattrs(original: Original<'_>, file: &File) -> Result<(), Errno> {
    let wanted = names(|buffer| original.list(buffer))?;
    // A default access list of the directory is not one of the original.
    for name in split(&names(|buffer| flistxattr(file, buffer))?) {
        if matters(name) && !split(&wanted).any(|other| other == name) {
            fremovexattr(file, name)?;
        }
    }
    if wanted.is_empty() {
        return Ok(());
    }
    let mut value = vec![0; MAX_XATTR_VALUE];
    for name in split(&wanted).filter(|name| !is_lost_by_writing(name)) {
        let copied = match original.get(name, &mut value) {
            Ok(length) => fsetxattr(file, name, &value[..length], XattrFlags::empty()),
            Err(Errno::NODATA) => Ok(()),
            Err(errno) => Err(errno),
        };
        if matters(name) {
            copied?;
        }
    }
    Ok(())
}

/// Where extended attributes come from.
#[derive(Debug, Clone, Copy)]
pub(super) enum Original<'a> {
    /// A file that may not be readable.
    Path(&'a Path),
    /// A file that is open.
    File(&'a File),
}

impl Original<'_> {
    fn list(self, buffer: &mut [u8]) -> Result<usize, Errno> {
        match self {
            Self::Path(path) => llistxattr(path, buffer),
            Self::File(file) => flistxattr(file, buffer),
        }
    }

    fn get(self, name: &CStr, buffer: &mut [u8]) -> Result<usize, Errno> {
        match self {
            Self::Path(path) => lgetxattr(path, name, buffer),
            Self::File(file) => fgetxattr(file, name, buffer),
        }
    }
}

/// Sets the time of the last change exactly. The kernel's own stamps come from
/// a clock of a few milliseconds, in which an inode can be freed and taken
/// again or a file be written twice; the exact time keeps versions apart. Where
/// it may not be set, the stamp of the kernel has to do.
pub(super) fn stamp(file: &File) {
    let now = clock_gettime(ClockId::Realtime);
    futimens(file, &Timestamps { last_access: now, last_modification: now }).ok();
}

/// Attributes that people and programs set. The others belong to the system,
/// which sets or refuses them by rules of its own.
fn matters(name: &CStr) -> bool {
    let name = name.to_bytes();
    name.starts_with(b"user.") || name == b"system.posix_acl_access"
}

/// The kernel takes a program's capabilities away when its content changes.
fn is_lost_by_writing(name: &CStr) -> bool {
    name.to_bytes() == b"security.capability"
}

fn names(list: impl Fn(&mut [u8]) -> Result<usize, Errno>) -> Result<Vec<u8>, Errno> {
    let mut small = [0; 256];
    match list(&mut small) {
        Ok(length) => return Ok(small[..length].to_vec()),
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(Vec::new()),
        Err(Errno::RANGE) => {}
        Err(errno) => return Err(errno),
    }
    let mut large = vec![0; MAX_XATTR_LIST];
    let length = list(&mut large)?;
    large.truncate(length);
    Ok(large)
}

fn split(names: &[u8]) -> impl Iterator<Item = &CStr> {
    names.split_inclusive(|&byte| byte == 0).filter_map(|name| CStr::from_bytes_with_nul(name).ok())
}
