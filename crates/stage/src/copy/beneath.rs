//! Opening what is in a tree without leaving it.
//!
//! Directories are named by their path from the top of the tree, however deep
//! that is: holding a descriptor for each level would end at the limit of open
//! files, and a whole path at the 4096 bytes that the kernel takes at once.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::{Errno, Result};
use rustix::path::Arg;

/// The length of a path from which on it is worth while to begin the next one
/// at its end: so a deep tree takes few open directories and few steps to each.
pub(super) const LONG_WAY: usize = 256;

/// How much of a path is resolved at once.
const MAX_PATH: usize = 4000;

/// Whether the kernel has `openat2`, or whoever filters system calls lets it
/// through. Engines older than the call refuse it.
static OPENAT2: AtomicBool = AtomicBool::new(true);

/// Returns whether mounts in a tree are noticed by the kernel itself; else
/// they have to be told by their device.
pub(super) fn notices_mounts() -> bool {
    OPENAT2.load(Ordering::Relaxed)
}

/// Opens a directory of a tree by its path; the top's is empty.
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

/// Opens the directory that an entry of a tree is in, and returns the entry's
/// name in it.
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
        // A refusal of this file fails the same way below; one of the call does not.
        let opened = step_by_step(at, path, flags)?;
        OPENAT2.store(false, Ordering::Relaxed);
        return Ok(opened);
    }
    step_by_step(at, path, flags)
}

/// Opens without the kernel's help: each part of the path by itself.
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

/// Returns what of a path is resolved at once, and the rest.
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
