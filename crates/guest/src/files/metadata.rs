//! What a file has besides its content: the description sent to the host, and the
//! attributes that a replacement or a copy keeps.

use std::ffi::CStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{
    FileType, Gid, Mode, Stat, Timestamps, Uid, XattrFlags, fchmod, fchown, fgetxattr, flistxattr,
    fremovexattr, fsetxattr, fstat, futimens, lgetxattr, llistxattr,
};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use vestal_wire::{FileKind, FileVersion, Metadata};

/// Bits of a mode that are permissions.
pub(super) const PERMISSIONS: u32 = 0o7777;

/// Maximum size of the list of attribute names.
const MAX_XATTR_LIST: usize = 64 << 10;

/// Maximum size of an attribute.
const MAX_XATTR_VALUE: usize = 64 << 10;

/// Identifies a file independently of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct FileId {
    device: u64,
    inode: u64,
}

/// Identity, content and attributes of a file. Differs after any change, as far as
/// the clock of the filesystem can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ExactVersion {
    identity: FileId,
    version: FileVersion,
    changed_ns: i64,
}

impl FileId {
    pub(super) fn of(stat: &Stat) -> Self {
        Self { device: stat.st_dev, inode: stat.st_ino }
    }

    /// Returns the device the file is on.
    pub(super) const fn device(self) -> u64 {
        self.device
    }
}

impl ExactVersion {
    pub(super) fn of(stat: &Stat) -> Self {
        Self {
            identity: FileId::of(stat),
            version: version(stat),
            changed_ns: nanoseconds(stat.st_ctime, stat.st_ctime_nsec),
        }
    }
}

/// Returns the kind of a file.
pub(super) fn kind(stat: &Stat) -> FileKind {
    kind_of(FileType::from_raw_mode(stat.st_mode))
}

/// Returns the kind for a file type of the system.
pub(super) fn kind_of(file_type: FileType) -> FileKind {
    match file_type {
        FileType::RegularFile => FileKind::File,
        FileType::Directory => FileKind::Directory,
        FileType::Symlink => FileKind::Symlink,
        _ => FileKind::Other,
    }
}

/// Returns the description of a kind for use in a fault.
pub(super) const fn kind_name(kind: FileKind) -> &'static str {
    match kind {
        FileKind::File => "it is a file",
        FileKind::Directory => "it is a directory",
        FileKind::Symlink => "it is a symbolic link",
        FileKind::Other => "it is a device, a pipe or a socket",
    }
}

/// Returns the version of a file.
pub(super) fn version(stat: &Stat) -> FileVersion {
    FileVersion {
        inode: stat.st_ino,
        size: size(stat),
        mtime_ns: nanoseconds(stat.st_mtime, stat.st_mtime_nsec),
    }
}

/// Returns the size of a file in bytes.
pub(super) fn size(stat: &Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or(0)
}

/// Returns the permission bits of a file.
pub(super) const fn permissions(stat: &Stat) -> u32 {
    stat.st_mode & PERMISSIONS
}

/// Returns the description of the file reached by `path`.
pub(super) fn describe(path: &Path, stat: &Stat) -> Metadata {
    Metadata {
        path: path.as_os_str().as_bytes().to_vec().into(),
        kind: kind(stat),
        mode: permissions(stat),
        uid: stat.st_uid,
        gid: stat.st_gid,
        version: version(stat),
        target: None,
    }
}

fn nanoseconds(seconds: i64, nanoseconds: u64) -> i64 {
    let nanoseconds = i64::try_from(nanoseconds).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds)
}

/// Copies owner, group, mode and extended attributes, including access control
/// lists, to `file` from the file at `path`, which `old` describes. Fails if an
/// important attribute cannot be kept.
pub(super) fn adopt(file: &File, old: &Stat, mode: Option<Mode>, path: &Path) -> Result<(), Errno> {
    own(file, old)?;
    fchmod(file, mode.unwrap_or(Mode::from_raw_mode(permissions(old))))?;
    copy_xattrs(Original::Path(path), file)
}

/// Sets owner and group of `file` to those of `old`.
pub(super) fn own(file: &File, old: &Stat) -> Result<(), Errno> {
    let now = fstat(file)?;
    if (now.st_uid, now.st_gid) == (old.st_uid, old.st_gid) {
        return Ok(());
    }
    fchown(file, Some(Uid::from_raw(old.st_uid)), Some(Gid::from_raw(old.st_gid)))
}

/// Replaces the extended attributes of `file` by those of the original.
pub(super) fn copy_xattrs(original: Original<'_>, file: &File) -> Result<(), Errno> {
    let wanted = names(|buffer| original.list(buffer))?;
    // A default access list of the directory does not belong to the original.
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

/// The source of extended attributes.
#[derive(Debug, Clone, Copy)]
pub(super) enum Original<'a> {
    /// A file that may not be readable.
    Path(&'a Path),
    /// An open file.
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

/// Sets the modification time exactly. The kernel's own timestamps have a
/// resolution of a few milliseconds, in which an inode can be reused or a file
/// written twice; the exact time keeps versions apart. If it cannot be set, the
/// kernel's timestamp is kept.
pub(super) fn stamp(file: &File) {
    let now = clock_gettime(ClockId::Realtime);
    futimens(file, &Timestamps { last_access: now, last_modification: now }).ok();
}

/// Returns whether people or programs set this attribute. Other attributes belong
/// to the system, which sets or refuses them by its own rules.
fn matters(name: &CStr) -> bool {
    let name = name.to_bytes();
    name.starts_with(b"user.") || name == b"system.posix_acl_access"
}

/// Returns whether the kernel removes the attribute when the content changes.
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
