//! Copies the content of a file.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{SeekFrom, Stat, copy_file_range, ftruncate, ioctl_ficlone, seek};
use rustix::io::{Errno, Result, pread, pwrite};

use super::program::{self, CopyProgress};

/// Bytes read at once. A file of this size is copied by one read and one write,
/// which is faster than a copy by the kernel.
pub(super) const BUFFER: usize = 128 << 10;

/// Bytes that the kernel copies at once: few enough to stop soon after a signal,
/// and enough for the overhead not to matter.
const STEP: u64 = 16 << 20;

/// Copy methods that a filesystem may not support, which is found out once.
#[derive(Debug)]
pub(super) struct CopyMethods {
    clones: AtomicBool,
    ranges: AtomicBool,
}

/// How far the kernel copied.
enum KernelCopy {
    /// Not to the end.
    Incomplete,
    /// To the end, or until the copy was cancelled.
    Finished,
}

impl CopyMethods {
    pub(super) fn new() -> Self {
        Self { clones: AtomicBool::new(true), ranges: AtomicBool::new(true) }
    }

    /// Copies the content of a file into an empty one. Returns the number of
    /// bytes counted. If the file shrinks or the copy is cancelled, not all of
    /// them are copied.
    pub(super) fn copy(
        &self,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        stat: &Stat,
        buffer: &mut [u8],
        progress: &CopyProgress,
    ) -> Result<u64> {
        let size = stat.st_size.unsigned_abs();
        if size == 0 {
            return Ok(0);
        }
        if self.clone(from, to)? {
            progress.bytes(weight(stat));
            return Ok(weight(stat));
        }
        let copy = |start: u64, end: u64, buffer: &mut [u8]| {
            self.range(from, to, (start, end), buffer, progress)
        };
        if !has_holes(stat) {
            return copy(0, size, buffer);
        }
        let (mut position, mut copied) = (0, 0);
        while position < size {
            let start = match seek(from, SeekFrom::Data(position)) {
                Ok(start) => start.min(size),
                // The rest is a hole.
                Err(Errno::NXIO) => break,
                Err(error) => return Err(error),
            };
            let end = seek(from, SeekFrom::Hole(start))?.min(size);
            copied += copy(start, end, buffer)?;
            position = end;
        }
        ftruncate(to, size)?;
        Ok(copied)
    }

    /// Shares the content with the original if the filesystem supports it.
    /// Returns whether it did.
    fn clone(&self, from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> Result<bool> {
        if !self.clones.load(Ordering::Relaxed) {
            return Ok(false);
        }
        match ioctl_ficlone(to, from) {
            Ok(()) => Ok(true),
            Err(error @ (Errno::NOSPC | Errno::DQUOT | Errno::IO)) => Err(error),
            // A property of this file, such as how it is stored.
            Err(Errno::INVAL | Errno::TXTBSY | Errno::AGAIN) => Ok(false),
            Err(_) => {
                self.clones.store(false, Ordering::Relaxed);
                Ok(false)
            }
        }
    }

    /// Copies the bytes from `start` to `end`.
    fn range(
        &self,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        (start, end): (u64, u64),
        buffer: &mut [u8],
        progress: &CopyProgress,
    ) -> Result<u64> {
        let mut position = start;
        let large = end - start > buffer.len() as u64;
        if large
            && self.ranges.load(Ordering::Relaxed)
            && let KernelCopy::Finished = self.by_kernel(from, to, &mut position, end, progress)?
        {
            return Ok(position - start);
        }
        while position < end && !program::is_cancelled() {
            let length = usize::try_from(end - position).unwrap_or(usize::MAX).min(buffer.len());
            let count = pread(from, &mut buffer[..length], position)?;
            if count == 0 {
                break;
            }
            write_all(to, &buffer[..count], position)?;
            position += count as u64;
            progress.bytes(count as u64);
        }
        Ok(position - start)
    }

    fn by_kernel(
        &self,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        position: &mut u64,
        end: u64,
        progress: &CopyProgress,
    ) -> Result<KernelCopy> {
        while *position < end && !program::is_cancelled() {
            let (mut source, mut target) = (*position, *position);
            let length = usize::try_from((end - *position).min(STEP)).unwrap_or(usize::MAX);
            match copy_file_range(from, Some(&mut source), to, Some(&mut target), length) {
                // The end of the file, a kernel that reports it wrongly, or a
                // property of this file. Reading shows which.
                Ok(0) | Err(Errno::INVAL | Errno::TXTBSY) => return Ok(KernelCopy::Incomplete),
                Ok(count) => {
                    *position += count as u64;
                    progress.bytes(count as u64);
                }
                Err(Errno::XDEV | Errno::OPNOTSUPP | Errno::NOSYS | Errno::PERM) => {
                    self.ranges.store(false, Ordering::Relaxed);
                    return Ok(KernelCopy::Incomplete);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(KernelCopy::Finished)
    }
}

fn write_all(to: BorrowedFd<'_>, mut bytes: &[u8], mut position: u64) -> Result<()> {
    while !bytes.is_empty() {
        let count = pwrite(to, bytes, position)?;
        if count == 0 {
            return Err(Errno::NOSPC);
        }
        bytes = &bytes[count..];
        position += count as u64;
    }
    Ok(())
}

/// Returns whether less is stored than the length of the file.
fn has_holes(stat: &Stat) -> bool {
    stored(stat) < stat.st_size.unsigned_abs()
}

fn stored(stat: &Stat) -> u64 {
    stat.st_blocks.unsigned_abs() * 512
}

/// Returns the approximate number of bytes to copy. Small files may be stored
/// without blocks.
pub(super) fn weight(stat: &Stat) -> u64 {
    let size = stat.st_size.unsigned_abs();
    if size <= BUFFER as u64 { size } else { size.min(stored(stat)) }
}
