//! Lists a directory in the order of names.

use std::collections::BinaryHeap;
use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::atomic::AtomicBool;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, openat, statat};
use rustix::io::Errno;
use vestal_wire::limits::MAX_MESSAGE;
use vestal_wire::{Entry, Fault, FileReply};

use super::fault::{OrFault, Stop, check};
use super::metadata::{kind, kind_of, permissions, size, version};
use super::tree::each_entry;

/// Encoded size of an entry without its name, at most.
const ENTRY_OVERHEAD: usize = 40;

/// Room for entries in one reply.
const ROOM: usize = MAX_MESSAGE - 1024;

/// Lists `limit` entries of the directory at `path` after the first `skip`.
pub(super) fn list(
    path: &Path,
    skip: u32,
    limit: u32,
    cancelled: &AtomicBool,
) -> Result<FileReply, Fault> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = openat(CWD, path, flags, Mode::empty()).or_fault("list", path)?;
    let (skip, limit) = (skip as usize, (limit as usize).min(ROOM / ENTRY_OVERHEAD));
    let names = first_names(directory.as_fd(), skip.saturating_add(limit), path, cancelled)?;

    let mut entries = Vec::new();
    let mut room = ROOM;
    let mut more = names.more;
    for listed in names.sorted.into_iter().skip(skip) {
        check(cancelled)?;
        let Some(cost) = room.checked_sub(listed.name.as_bytes().len() + ENTRY_OVERHEAD) else {
            more = true;
            break;
        };
        if let Some(entry) = describe_entry(directory.as_fd(), listed) {
            entries.push(entry);
            room = cost;
        }
    }
    Ok(FileReply::List { entries, more })
}

struct Names {
    sorted: Vec<Listed>,
    more: bool,
}

/// A name and the type its directory gives for it, in the order of names.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Listed {
    name: CString,
    raw_type: u32,
}

/// Returns the first `count` names in order, holding no more than those.
fn first_names(
    directory: BorrowedFd<'_>,
    count: usize,
    path: &Path,
    cancelled: &AtomicBool,
) -> Result<Names, Fault> {
    let mut first = BinaryHeap::new();
    let mut more = false;
    each_entry(directory, |name, listed| {
        check(cancelled)?;
        first.push(Listed { name: name.to_owned(), raw_type: listed.as_raw_mode() });
        if first.len() > count {
            first.pop();
            more = true;
        }
        Ok(())
    })
    .map_err(|stop: Stop| stop.into_fault("list", path))?;
    Ok(Names { sorted: first.into_sorted_vec(), more })
}

/// Describes an entry; `None` when it vanished since its name was read.
fn describe_entry(directory: BorrowedFd<'_>, Listed { name, raw_type }: Listed) -> Option<Entry> {
    match statat(directory, &name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(found) => Some(Entry {
            name: name.into_bytes().into(),
            kind: kind(&found),
            size: size(&found),
            mode: permissions(&found),
            mtime_ns: version(&found).mtime_ns,
        }),
        Err(Errno::NOENT) => None,
        // A directory may let its names be read and nothing else.
        Err(_) => Some(Entry {
            name: name.into_bytes().into(),
            kind: kind_of(FileType::from_raw_mode(raw_type)),
            size: 0,
            mode: 0,
            mtime_ns: 0,
        }),
    }
}

#[cfg(test)]
#[path = "list_tests.rs"]
mod tests;
