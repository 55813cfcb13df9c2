//! What the system says of a file, in the words of the protocol.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{FileType, Stat};
use vestal_wire::{FileKind, Metadata, Version};

/// Bits of a mode that are permissions rather than the kind.
pub(super) const PERMISSIONS: u32 = 0o7777;

/// Which file it is, whatever its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Identity {
    device: u64,
    inode: u64,
}

/// Identity, content and attributes: differs after any change at all, as far as
/// the clock of the filesystem can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Exact {
    identity: Identity,
    version: Version,
    changed_ns: i64,
}

impl Identity {
    pub(super) fn of(stat: &Stat) -> Self {
        Self { device: stat.st_dev, inode: stat.st_ino }
    }

    /// Returns the number of the device the file is on.
    pub(super) const fn device(self) -> u64 {
        self.device
    }
}

impl Exact {
    pub(super) fn of(stat: &Stat) -> Self {
        Self {
            identity: Identity::of(stat),
            version: version(stat),
            changed_ns: nanoseconds(stat.st_ctime, stat.st_ctime_nsec),
        }
    }
}

/// Returns the kind of a file.
pub(super) fn kind(stat: &Stat) -> FileKind {
    kind_of(FileType::from_raw_mode(stat.st_mode))
}

/// Returns the kind for a type of the system.
pub(super) fn kind_of(file_type: FileType) -> FileKind {
    match file_type {
        FileType::RegularFile => FileKind::File,
        FileType::Directory => FileKind::Directory,
        FileType::Symlink => FileKind::Symlink,
        _ => FileKind::Other,
    }
}

/// Returns the words for a kind, as they fit into a fault.
pub(super) const fn kind_name(kind: FileKind) -> &'static str {
    match kind {
        FileKind::File => "it is a file",
        FileKind::Directory => "it is a directory",
        FileKind::Symlink => "it is a symbolic link",
        FileKind::Other => "it is a device, a pipe or a socket",
    }
}

/// Returns the version of a file.
pub(super) fn version(stat: &Stat) -> Version {
    Version {
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
