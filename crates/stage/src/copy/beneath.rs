//! Opens and removes entries of a tree without ever leaving the tree.
//!
//! Directories are named by their path from the top of the tree, however deep
//! that is: holding a descriptor for each level would run into the limit of open
//! files, and a whole path into the 4096 bytes that the kernel accepts at once.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, RawDir, ResolveFlags, chmodat, openat, openat2, statat,
    unlinkat,
};
use rustix::io::{Errno, Result};
use rustix::path::Arg;

use super::program::is_dots;

/// Length of a path from which on its end becomes the start of further paths. So
/// a deep tree needs few open directories and few steps to each.
pub(super) const ANCHOR_AFTER: usize = 256;

/// Maximum bytes of a path resolved at once.
const MAX_PATH: usize = 4000;

/// Whether `openat2` works: the kernel has it, and no filter refuses it.
/// Container engines older than the call refuse it.
static OPENAT2: AtomicBool = AtomicBool::new(true);

/// Returns whether the kernel itself detects mounts in a tree. Otherwise they are
/// recognized by their device.
pub(super) fn notices_mounts() -> bool {
    OPENAT2.load(Ordering::Relaxed)
}

/// Opens a directory of a tree by its path, which is empty for the top.
///
/// Fails with `ELOOP` or `ENOTDIR` at a link, and with `EXDEV` at a mount.
pub(super) fn directory(top: BorrowedFd<'_>, path: &[u8]) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let mut opened: Option<OwnedFd> = None;
    let mut rest = path;
    loop {
        let from = opened.as_ref().map_or(top, AsFd::as_fd);
        let (now, later) = split(rest);
        let step = if now.is_empty() { &b"."[..] } else { now };
        let next = entry(from, step, flags)?;
        if later.is_empty() {
            return Ok(next);
        }
        opened = Some(next);
        rest = later;
    }
}

/// Opens the parent directory of an entry, and returns the entry's name in it.
pub(super) fn parent<'a>(top: BorrowedFd<'_>, path: &'a [u8]) -> Result<(OwnedFd, &'a [u8])> {
    let slash = path.iter().rposition(|byte| *byte == b'/');
    let (parent, name) = slash.map_or((&b""[..], path), |at| (&path[..at], &path[at + 1..]));
    Ok((directory(top, parent)?, name))
}

/// Opens an entry of a directory, or one a few levels below it.
pub(super) fn entry(at: BorrowedFd<'_>, path: impl Arg + Copy, flags: OFlags) -> Result<OwnedFd> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    if OPENAT2.load(Ordering::Relaxed) {
        let within = ResolveFlags::BENEATH
            | ResolveFlags::NO_SYMLINKS
            | ResolveFlags::NO_MAGICLINKS
            | ResolveFlags::NO_XDEV;
        match openat2(at, path, flags, Mode::empty(), within) {
            Err(Errno::NOSYS | Errno::PERM) => {}
            other => return other,
        }
        // If the file is refused, this fails in the same way; if the call is
        // refused, it does not.
        let opened = step_by_step(at, path, flags)?;
        OPENAT2.store(false, Ordering::Relaxed);
        return Ok(opened);
    }
    step_by_step(at, path, flags)
}

/// Opens one part of the path after the other, without `openat2`.
fn step_by_step(at: BorrowedFd<'_>, path: impl Arg, flags: OFlags) -> Result<OwnedFd> {
    path.into_with_c_str(|path| {
        let mut parts = path.to_bytes().split(|byte| *byte == b'/').peekable();
        let mut opened: Option<OwnedFd> = None;
        while let Some(part) = parts.next() {
            let from = opened.as_ref().map_or(at, AsFd::as_fd);
            let last = parts.peek().is_none();
            let flags = if last {
                flags
            } else {
                OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC
            };
            opened = Some(openat(from, part, flags, Mode::empty())?);
        }
        opened.ok_or(Errno::NOENT)
    })
}

/// Splits a path into the part that is resolved at once, and the rest.
fn split(path: &[u8]) -> (&[u8], &[u8]) {
    if path.len() <= MAX_PATH {
        return (path, b"");
    }
    // A name has at most 255 bytes, so there is a slash.
    let slash = path[..MAX_PATH].iter().rposition(|byte| *byte == b'/');
    slash.map_or((path, &b""[..]), |at| (&path[..at], &path[at + 1..]))
}

/// Returns the path of an entry of a directory.
pub(super) fn join(path: &[u8], name: &[u8]) -> Vec<u8> {
    if path.is_empty() {
        return name.to_vec();
    }
    let mut joined = Vec::with_capacity(path.len() + 1 + name.len());
    joined.extend_from_slice(path);
    joined.push(b'/');
    joined.extend_from_slice(name);
    joined
}

/// Removes a directory with its content, however deep. A missing directory is not
/// an error.
pub(super) fn remove_tree(at: BorrowedFd<'_>, name: impl Arg + Copy) -> Result<()> {
    // It may already have the permissions of the original; if this fails, so do
    // the next steps.
    chmodat(at, name, Mode::RWXU, AtFlags::empty()).ok();
    let top = match entry(at, name, OFlags::RDONLY | OFlags::DIRECTORY) {
        Err(Errno::NOENT) => return Ok(()),
        top => top?,
    };
    let mut buffer = Vec::with_capacity(64 << 10);
    let mut directories = vec![Vec::new()];
    let mut next = 0;
    while let Some(path) = directories.get(next).cloned() {
        next += 1;
        let directory = directory(top.as_fd(), &path)?;
        let mut entries = RawDir::new(&directory, buffer.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = entry.file_name();
            if is_dots(name.to_bytes()) {
                continue;
            }
            let kind = match entry.file_type() {
                FileType::Unknown => {
                    let stat = statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
                    FileType::from_raw_mode(stat.st_mode)
                }
                kind => kind,
            };
            if kind == FileType::Directory {
                // It may have the permissions of the original already.
                chmodat(&directory, name, Mode::RWXU, AtFlags::empty())?;
                directories.push(join(&path, name.to_bytes()));
            } else {
                unlinkat(&directory, name, AtFlags::empty())?;
            }
        }
    }
    // Entries come after their directory in the list.
    for path in directories.iter().skip(1).rev() {
        let (parent, name) = parent(top.as_fd(), path)?;
        unlinkat(parent, name, AtFlags::REMOVEDIR)?;
    }
    unlinkat(at, name, AtFlags::REMOVEDIR)
}
