//! Owners, permissions and times.

use std::os::fd::BorrowedFd;

use rustix::fs::{
    AtFlags, Gid, Mode, Stat, Timespec, Timestamps, Uid, chownat, fchmod, fchown, futimens,
    utimensat,
};
use rustix::io::Result;
use rustix::path::Arg;

/// Permissions that `open` and `mkdir` give when asked to.
const PLAIN: u32 = 0o777;

/// Returns all permissions of a file, with those that changing its owner takes away.
pub(super) fn mode(stat: &Stat) -> Mode {
    Mode::from_raw_mode(stat.st_mode & 0o7777)
}

/// Returns the permissions that a file can be made with.
pub(super) fn plain_mode(stat: &Stat) -> Mode {
    Mode::from_raw_mode(stat.st_mode & PLAIN)
}

/// Returns whether there are permissions that a file cannot be made with.
pub(super) fn has_more_than_plain(stat: &Stat) -> bool {
    stat.st_mode & 0o7000 != 0
}

/// Gives an open file its owner.
pub(super) fn owner(file: BorrowedFd<'_>, stat: &Stat) -> Result<()> {
    fchown(file, Some(Uid::from_raw(stat.st_uid)), Some(Gid::from_raw(stat.st_gid)))
}

/// Gives an open file all its permissions.
pub(super) fn permissions(file: BorrowedFd<'_>, stat: &Stat) -> Result<()> {
    fchmod(file, mode(stat))
}

/// Gives an open file its times: the last that is done to it.
pub(super) fn times(file: BorrowedFd<'_>, stat: &Stat) -> Result<()> {
    futimens(file, &timestamps(stat))
}

/// Gives a file that cannot be opened its owner.
pub(super) fn owner_of(at: BorrowedFd<'_>, name: impl Arg, stat: &Stat) -> Result<()> {
    let (owner, group) = (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid));
    chownat(at, name, Some(owner), Some(group), AtFlags::SYMLINK_NOFOLLOW)
}

/// Gives a file that cannot be opened its times.
pub(super) fn times_of(at: BorrowedFd<'_>, name: impl Arg, stat: &Stat) -> Result<()> {
    utimensat(at, name, &timestamps(stat), AtFlags::SYMLINK_NOFOLLOW)
}

fn timestamps(stat: &Stat) -> Timestamps {
    let time = |seconds: i64, nanoseconds: u64| Timespec {
        tv_sec: seconds,
        // Below a thousand million.
        tv_nsec: nanoseconds.cast_signed(),
    };
    Timestamps {
        last_access: time(stat.st_atime, stat.st_atime_nsec),
        last_modification: time(stat.st_mtime, stat.st_mtime_nsec),
    }
}

/// What changes when somebody writes to a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Version {
    size: i64,
    modified: (i64, u64),
    changed: (i64, u64),
}

impl Version {
    pub(super) fn of(stat: &Stat) -> Self {
        Self {
            size: stat.st_size,
            modified: (stat.st_mtime, stat.st_mtime_nsec),
            changed: (stat.st_ctime, stat.st_ctime_nsec),
        }
    }
}
