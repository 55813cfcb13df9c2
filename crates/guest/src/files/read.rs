//! Reads files, describes them, and lists directories in the order of names.

use std::collections::BinaryHeap;
use std::ffi::CString;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::atomic::AtomicBool;

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, Stat, fstat, lstat, openat, readlinkat, statat,
};
use rustix::io::{Errno, pread};
use vestal_wire::limits::{MAX_DATA, MAX_MESSAGE};
use vestal_wire::{DirectoryEntry, Fault, FaultCode, FileKind, FileReply};

use super::metadata::{describe, kind, kind_name, kind_of, permissions, size, version};
use super::perform::{ContentSink, OpError, OrFault, check, refused};
use super::tree::each_entry;

/// Flags for opening regular files for reading. Whatever replaces the file at the
/// last moment, the call does not block and does not acquire a controlling
/// terminal.
pub(super) const READING: OFlags =
    OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// A range of bytes in a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct ByteRange {
    /// The first byte.
    pub(super) offset: u64,
    /// The maximum number of bytes.
    pub(super) limit: Option<u64>,
}

/// Maximum encoded size of an entry without its name.
const ENTRY_OVERHEAD: usize = 40;

/// Bytes available for entries in one reply.
const ROOM: usize = MAX_MESSAGE - 1024;

/// Opens a regular file, following links. Refuses anything else without opening
/// it, because opening can block or act on a device.
pub(super) fn open_regular(path: &Path) -> Result<(File, Stat), Fault> {
    require_regular(path, &rustix::fs::stat(path).or_fault("read", path)?)?;
    let file = File::from(openat(CWD, path, READING, Mode::empty()).or_fault("read", path)?);
    let found = fstat(&file).or_fault("read", path)?;
    require_regular(path, &found)?;
    Ok((file, found))
}

fn require_regular(path: &Path, found: &Stat) -> Result<(), Fault> {
    match kind(found) {
        FileKind::File => Ok(()),
        other => Err(refused(FaultCode::WrongKind, "read", path, kind_name(other))),
    }
}

/// Reads at `offset`, and retries after an interruption. Offsets that are too
/// large for a file are beyond its end.
pub(super) fn read_at(file: impl AsFd, piece: &mut [u8], offset: u64) -> Result<usize, Errno> {
    if i64::try_from(offset).is_err() {
        return Ok(0);
    }
    loop {
        match pread(&file, &mut *piece, offset) {
            Err(Errno::INTR) => {}
            done => return done,
        }
    }
}

/// Sends the bytes of a range.
pub(super) fn read(
    path: &Path,
    range: ByteRange,
    output: &mut dyn ContentSink,
    cancelled: &AtomicBool,
) -> Result<FileReply, Fault> {
    let (file, found) = open_regular(path)?;
    let mut piece = vec![0; MAX_DATA];
    let mut sent = 0_u64;
    let eof = loop {
        check(cancelled)?;
        let left = range.limit.map_or(u64::MAX, |limit| limit - sent);
        let want = piece.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let at = range.offset.saturating_add(sent);
        // At the end of the range, one more byte shows whether the file
        // continues.
        let got = read_at(&file, &mut piece[..want.max(1)], at).or_fault("read", path)?;
        if got == 0 || want == 0 {
            break got == 0;
        }
        output.send(&piece[..got])?;
        sent += got as u64;
    };
    Ok(FileReply::Read { metadata: describe(path, &found), sent, eof })
}

/// What to do with a symbolic link at the end of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FinalLink {
    /// Use the link itself.
    Keep,
    /// Use the file it points to.
    Follow,
}

impl From<bool> for FinalLink {
    fn from(follow: bool) -> Self {
        if follow { Self::Follow } else { Self::Keep }
    }
}

/// Describes the file at `path`.
pub(super) fn stat(path: &Path, links: FinalLink) -> Result<FileReply, Fault> {
    let found = match links {
        FinalLink::Follow => rustix::fs::stat(path),
        FinalLink::Keep => lstat(path),
    }
    .or_fault("look at", path)?;
    let mut metadata = describe(path, &found);
    if metadata.kind == FileKind::Symlink {
        let target = readlinkat(CWD, path, Vec::new()).or_fault("look at", path)?;
        metadata.target = Some(target.into_bytes().into());
    }
    Ok(FileReply::Stat(metadata))
}

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

struct NameList {
    sorted: Vec<ListedName>,
    more: bool,
}

/// A name and the type its directory reports, ordered by name.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct ListedName {
    name: CString,
    raw_type: u32,
}

/// Returns the first `count` names in order, without holding more than those.
fn first_names(
    directory: BorrowedFd<'_>,
    count: usize,
    path: &Path,
    cancelled: &AtomicBool,
) -> Result<NameList, Fault> {
    let mut first = BinaryHeap::new();
    let mut more = false;
    each_entry(directory, |name, listed| {
        check(cancelled)?;
        first.push(ListedName { name: name.to_owned(), raw_type: listed.as_raw_mode() });
        if first.len() > count {
            first.pop();
            more = true;
        }
        Ok(())
    })
    .map_err(|error: OpError| error.into_fault("list", path))?;
    Ok(NameList { sorted: first.into_sorted_vec(), more })
}

/// Describes an entry. Returns `None` if it vanished since its name was read.
fn describe_entry(
    directory: BorrowedFd<'_>,
    ListedName { name, raw_type }: ListedName,
) -> Option<DirectoryEntry> {
    match statat(directory, &name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(found) => Some(DirectoryEntry {
            name: name.into_bytes().into(),
            kind: kind(&found),
            size: size(&found),
            mode: permissions(&found),
            mtime_ns: version(&found).mtime_ns,
        }),
        Err(Errno::NOENT) => None,
        // Some directories let their names be read and nothing else.
        Err(_) => Some(DirectoryEntry {
            name: name.into_bytes().into(),
            kind: kind_of(FileType::from_raw_mode(raw_type)),
            size: 0,
            mode: 0,
            mtime_ns: 0,
        }),
    }
}

#[cfg(test)]
#[path = "read_tests.rs"]
mod tests;
