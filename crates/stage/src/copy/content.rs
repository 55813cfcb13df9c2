//! What is in a file.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{SeekFrom, Stat, copy_file_range, ftruncate, ioctl_ficlone, seek};
use rustix::io::{Errno, Result, pread, pwrite};

use super::cancel;
use super::progress::Progress;

/// What is read at once. A file that fits is copied by one read and one write,
/// which takes less than having the kernel do it.
pub(super) const BUFFER: usize = 128 << 10;

/// What the kernel copies at once: little enough to be stopped soon after a
/// signal, enough for the rest not to count.
const STEP: u64 = 16 << 20;

/// Ways to copy that a filesystem may not have, which is found out once.
#[derive(Debug)]
pub(super) struct Means {
    clones: AtomicBool,
    ranges: AtomicBool,
}

/// How far the kernel copies by itself.
enum Way {
    /// Not to the end.
    Gone,
    /// To the end, or until the copy was given up.
    Stopped,
}

impl Means {
    pub(super) fn new() -> Self {
        Self { clones: AtomicBool::new(true), ranges: AtomicBool::new(true) }
    }

    /// Copies the content of a file into an empty one. Returns how many bytes
    /// were counted; those of a file that shrinks meanwhile, or a copy that is
    /// given up, are not all there.
    pub(super) fn copy(
        &self,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        stat: &Stat,
        buffer: &mut [u8],
        progress: &Progress,
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
                // There is nothing but a hole to the end.
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

    /// Shares the content with the original, where the filesystem can, and
    /// returns whether it did.
    fn clone(&self, from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> Result<bool> {
        if !self.clones.load(Ordering::Relaxed) {
            return Ok(false);
        }
        match ioctl_ficlone(to, from) {
            Ok(()) => Ok(true),
            Err(error @ (Errno::NOSPC | Errno::DQUOT | Errno::IO)) => Err(error),
            // Something about this file, such as how it is stored.
            Err(Errno::INVAL | Errno::TXTBSY | Errno::AGAIN) => Ok(false),
            Err(_) => {
                self.clones.store(false, Ordering::Relaxed);
                Ok(false)
            }
        }
    }

    /// Copies what is in a file from `start` to `end`.
    fn range(
        &self,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        (start, end): (u64, u64),
        buffer: &mut [u8],
        progress: &Progress,
    ) -> Result<u64> {
        let mut position = start;
        let large = end - start > buffer.len() as u64;
        if large
            && self.ranges.load(Ordering::Relaxed)
            && let Way::Stopped = self.by_kernel(from, to, &mut position, end, progress)?
        {
            return Ok(position - start);
        }
        while position < end && !cancel::requested() {
            let most = usize::try_from(end - position).unwrap_or(usize::MAX).min(buffer.len());
            let count = pread(from, &mut buffer[..most], position)?;
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
        progress: &Progress,
    ) -> Result<Way> {
        while *position < end && !cancel::requested() {
            let (mut source, mut target) = (*position, *position);
            let most = usize::try_from((end - *position).min(STEP)).unwrap_or(usize::MAX);
            match copy_file_range(from, Some(&mut source), to, Some(&mut target), most) {
                // The end, or a kernel that says so where it is not; or something
                // about this file. Reading tells.
                Ok(0) | Err(Errno::INVAL | Errno::TXTBSY) => return Ok(Way::Gone),
                Ok(count) => {
                    *position += count as u64;
                    progress.bytes(count as u64);
                }
                Err(Errno::XDEV | Errno::OPNOTSUPP | Errno::NOSYS | Errno::PERM) => {
                    self.ranges.store(false, Ordering::Relaxed);
                    return Ok(Way::Gone);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Way::Stopped)
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

/// Returns whether less is stored than the file is long.
fn has_holes(stat: &Stat) -> bool {
    stored(stat) < stat.st_size.unsigned_abs()
}

fn stored(stat: &Stat) -> u64 {
    stat.st_blocks.unsigned_abs() * 512
}

/// Returns about how many bytes there are to copy. What is small may be stored
/// where no blocks are counted.
pub(super) fn weight(stat: &Stat) -> u64 {
    let size = stat.st_size.unsigned_abs();
    if size <= BUFFER as u64 { size } else { size.min(stored(stat)) }
}
