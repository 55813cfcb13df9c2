//! Sends the content of a regular file.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use rustix::fs::{CWD, Mode, OFlags, Stat, fstat, openat, stat};
use rustix::io::{Errno, pread};
use vestal_wire::limits::MAX_DATA;
use vestal_wire::{Fault, FaultCode, FileKind, FileReply};

use super::fault::{OrFault, check, refused};
use super::metadata::{describe, kind, kind_name};
use super::perform::ContentSink;

/// How regular files are opened for reading: whatever is swapped in at the last
/// moment, the call does not block and hands out no controlling terminal.
pub(super) const READING: OFlags =
    OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// Which bytes of a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Range {
    /// The first one.
    pub(super) offset: u64,
    /// How many at most.
    pub(super) limit: Option<u64>,
}

/// Opens a regular file, following links. Anything else is refused without
/// being opened, because opening alone can block or set a device in motion.
pub(super) fn open_regular(path: &Path) -> Result<(File, Stat), Fault> {
    demand_regular(path, &stat(path).or_fault("read", path)?)?;
    let file = File::from(openat(CWD, path, READING, Mode::empty()).or_fault("read", path)?);
    let found = fstat(&file).or_fault("read", path)?;
    demand_regular(path, &found)?;
    Ok((file, found))
}

fn demand_regular(path: &Path, found: &Stat) -> Result<(), Fault> {
    match kind(found) {
        FileKind::File => Ok(()),
        other => Err(refused(FaultCode::WrongKind, "read", path, kind_name(other))),
    }
}

/// Reads at `offset`, again after an interruption. Offsets beyond what files
/// can have are beyond their end.
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
    range: Range,
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
        // Where the range is exhausted, one byte more tells whether the file is too.
        let got = read_at(&file, &mut piece[..want.max(1)], at).or_fault("read", path)?;
        if got == 0 || want == 0 {
            break got == 0;
        }
        output.send(&piece[..got])?;
        sent += got as u64;
    };
    Ok(FileReply::Read { metadata: describe(path, &found), sent, eof })
}

#[cfg(test)]
#[path = "read_tests.rs"]
mod tests;
