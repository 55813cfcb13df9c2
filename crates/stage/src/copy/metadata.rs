//! What a file has besides its content: owner, permissions, times, extended
//! attributes and further names (hard links).

use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::os::fd::BorrowedFd;
use std::sync::{Mutex, PoisonError};

use rustix::fs::{
    AtFlags, Gid, Mode, Stat, Timespec, Timestamps, Uid, XattrFlags, chownat, fchmod, fchown,
    fgetxattr, flistxattr, fremovexattr, fsetxattr, futimens, lgetxattr, llistxattr, lsetxattr,
    utimensat,
};
use rustix::io::{self, Errno};
use rustix::path::Arg;

use super::program::StageCopyError;

/// Permission bits that `open` and `mkdir` can set.
const PLAIN: u32 = 0o777;

/// Prefixes of the attributes that are copied. Others are set by the system: security
/// labels, storage flags.
const COPIED: [&[u8]; 3] = [b"user.", b"trusted.overlay.", b"system.posix_acl_"];

const CAPABILITY: &[u8] = b"security.capability";

/// Access control lists that a directory passes on to new entries.
const INHERITED: [&CStr; 2] = [c"system.posix_acl_default", c"system.posix_acl_access"];

/// Maximum size of the attribute names or of a value.
const MAX_ATTRIBUTE: usize = 64 << 10;

/// Returns all permissions of a file, including those that a change of owner
/// clears.
pub(super) fn mode(stat: &Stat) -> Mode {
    Mode::from_raw_mode(stat.st_mode & 0o7777)
}

/// Returns the permissions that a file can be created with.
pub(super) fn plain_mode(stat: &Stat) -> Mode {
    Mode::from_raw_mode(stat.st_mode & PLAIN)
}

/// Returns whether a file has permissions that it cannot be created with.
pub(super) fn has_more_than_plain(stat: &Stat) -> bool {
    stat.st_mode & 0o7000 != 0
}

/// Sets the owner of an open file.
pub(super) fn set_owner(file: BorrowedFd<'_>, stat: &Stat) -> io::Result<()> {
    fchown(file, Some(Uid::from_raw(stat.st_uid)), Some(Gid::from_raw(stat.st_gid)))
}

/// Sets all permissions of an open file.
pub(super) fn set_permissions(file: BorrowedFd<'_>, stat: &Stat) -> io::Result<()> {
    fchmod(file, mode(stat))
}

/// Sets the times of an open file. Must be the last change.
pub(super) fn set_times(file: BorrowedFd<'_>, stat: &Stat) -> io::Result<()> {
    futimens(file, &timestamps(stat))
}

/// Sets the owner of a file that cannot be opened.
pub(super) fn set_owner_at(at: BorrowedFd<'_>, name: impl Arg, stat: &Stat) -> io::Result<()> {
    let (owner, group) = (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid));
    chownat(at, name, Some(owner), Some(group), AtFlags::SYMLINK_NOFOLLOW)
}

/// Sets the times of a file that cannot be opened.
pub(super) fn set_times_at(at: BorrowedFd<'_>, name: impl Arg, stat: &Stat) -> io::Result<()> {
    utimensat(at, name, &timestamps(stat), AtFlags::SYMLINK_NOFOLLOW)
}

fn timestamps(stat: &Stat) -> Timestamps {
    let time = |seconds: i64, nanoseconds: u64| Timespec {
        tv_sec: seconds,
        // It is below a thousand million.
        tv_nsec: nanoseconds.cast_signed(),
    };
    Timestamps {
        last_access: time(stat.st_atime, stat.st_atime_nsec),
        last_modification: time(stat.st_mtime, stat.st_mtime_nsec),
    }
}

/// Metadata that changes when a file is written.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FileStamp {
    size: i64,
    modified: (i64, u64),
    changed: (i64, u64),
}

impl FileStamp {
    pub(super) fn of(stat: &Stat) -> Self {
        Self {
            size: stat.st_size,
            modified: (stat.st_mtime, stat.st_mtime_nsec),
            changed: (stat.st_ctime, stat.st_ctime_nsec),
        }
    }
}

/// A file whose attributes are read or set.
#[derive(Debug, Clone, Copy)]
pub(super) enum AttributeFile<'a> {
    /// An open file.
    Open(BorrowedFd<'a>),
    /// A file that cannot or should not be opened.
    Named(&'a CStr),
}

impl AttributeFile<'_> {
    fn list(self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Open(file) => flistxattr(file, buffer),
            Self::Named(path) => llistxattr(path, buffer),
        }
    }

    fn get(self, name: &CStr, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Open(file) => fgetxattr(file, name, buffer),
            Self::Named(path) => lgetxattr(path, name, buffer),
        }
    }

    fn set(self, name: &CStr, value: &[u8]) -> io::Result<()> {
        match self {
            Self::Open(file) => fsetxattr(file, name, value, XattrFlags::empty()),
            Self::Named(path) => lsetxattr(path, name, value, XattrFlags::empty()),
        }
    }
}

/// Buffers for attributes.
#[derive(Debug)]
pub(super) struct Attributes {
    buffer: Vec<u8>,
    names: Vec<CString>,
}

impl Attributes {
    pub(super) fn new() -> Self {
        Self { buffer: vec![0; MAX_ATTRIBUTE], names: Vec::new() }
    }

    /// Finds the attributes to copy, and returns whether there are any.
    pub(super) fn find(&mut self, of: AttributeFile<'_>) -> io::Result<bool> {
        self.names.clear();
        let length = match of.list(&mut self.buffer) {
            Ok(length) => length,
            Err(Errno::OPNOTSUPP) => 0,
            Err(error) => return Err(error),
        };
        let names = self.buffer[..length].split_inclusive(|byte| *byte == 0);
        let names = names.filter_map(|name| CStr::from_bytes_with_nul(name).ok());
        self.names.extend(names.filter(|name| is_copied(name.to_bytes())).map(CStr::to_owned));
        Ok(!self.names.is_empty())
    }

    /// Copies the attributes that were found.
    pub(super) fn copy(
        &mut self,
        from: AttributeFile<'_>,
        to: AttributeFile<'_>,
    ) -> io::Result<()> {
        for name in &self.names {
            match from.get(name, &mut self.buffer) {
                Ok(length) => to.set(name, &self.buffer[..length])?,
                // It was removed meanwhile.
                Err(Errno::NODATA) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Removes access control lists inherited from the parent directory.
pub(super) fn remove_inherited_acls(directory: BorrowedFd<'_>) -> io::Result<()> {
    for name in INHERITED {
        match fremovexattr(directory, name) {
            Ok(()) | Err(Errno::NODATA | Errno::OPNOTSUPP) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn is_copied(name: &[u8]) -> bool {
    name == CAPABILITY || COPIED.iter().any(|prefix| name.starts_with(prefix))
}

/// The files with hard links that are already copied, and their names.
#[derive(Debug, Default)]
pub(super) struct HardLinks(Mutex<HashMap<DeviceInode, Vec<u8>>>);

/// Identifies a file: device and inode.
pub(super) type DeviceInode = (u64, u64);

impl HardLinks {
    /// Links a file to its existing copy, or creates the copy. `link` gets the
    /// name of the copy and returns whether linking worked; otherwise `make`
    /// creates the file at `path`. The lock is held meanwhile.
    pub(super) fn link_or_make<T>(
        &self,
        file: DeviceInode,
        path: &[u8],
        link: impl FnOnce(&[u8]) -> Result<bool, StageCopyError>,
        make: impl FnOnce() -> Result<T, StageCopyError>,
    ) -> Result<Option<T>, StageCopyError> {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(first) = names.get(&file)
            && link(first)?
        {
            return Ok(None);
        }
        let made = make()?;
        names.insert(file, path.to_vec());
        Ok(Some(made))
    }
}
