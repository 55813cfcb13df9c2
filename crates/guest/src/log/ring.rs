//! The file that keeps the last bytes of a stream.
//!
//! The data region is larger than what is kept by one write. A write therefore
//! only touches bytes that are no longer kept, and a guest killed between the
//! write of the data and the write of the header leaves a file whose header
//! still describes exactly what is in it.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::holes::{Holes, MAX_HOLES};
use crate::state_file;

const MAGIC: [u8; 8] = *b"vestlog1";
const HEADER: usize = 512;
const TOTAL_AT: usize = 24;
const HOLES_AT: usize = 32;

/// Where the data region begins in the file.
const DATA: u64 = HEADER as u64;

/// Most bytes of one write.
pub(super) const MAX_WRITE: usize = 64 << 10;

#[derive(Debug)]
pub(super) struct Ring {
    file: File,
    /// Offset in the stream that the region begins with.
    base: u64,
    /// Bytes kept.
    capacity: u64,
}

/// What the header of a ring says.
#[derive(Debug)]
pub(super) struct Contents {
    pub(super) capacity: u64,
    pub(super) total: u64,
    pub(super) holes: Holes,
}

impl Ring {
    pub(super) fn create(path: &Path, base: u64, capacity: u64) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let file = state_file::make(path, options.read(true).write(true).truncate(true))?;
        let ring = Self { file, base, capacity };
        ring.write_header(base, &Holes::default())?;
        Ok(ring)
    }

    pub(super) fn open(path: &Path) -> io::Result<(Self, Contents)> {
        let file = state_file::open(path, OpenOptions::new().read(true).write(true))?;
        let mut header = [0; HEADER];
        file.read_exact_at(&mut header, 0)?;
        let word = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&header[at..at + 8]);
            u64::from_le_bytes(bytes)
        };
        let (capacity, base, total) = (word(8), word(16), word(TOTAL_AT));
        if header[..8] != MAGIC || total < base || capacity > i64::MAX as u64 / 2 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "not the tail of a job's log"));
        }
        let holes = (0..MAX_HOLES)
            .map(|i| (word(HOLES_AT + 16 * i), word(HOLES_AT + 16 * i + 8)))
            .filter(|(from, to)| from < to && *to <= total);
        let contents = Contents { capacity, total, holes: Holes::from_ranges(holes) };
        Ok((Self { file, base, capacity }, contents))
    }

    /// Writes the bytes that follow offset `at` of the stream, at most
    /// [`MAX_WRITE`], and records the new total.
    pub(super) fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let (first, second) = bytes.split_at(self.until_wrap(at, bytes.len()));
        self.file.write_all_at(first, self.position(at))?;
        if !second.is_empty() {
            self.file.write_all_at(second, DATA)?;
        }
        self.file.write_all_at(&(at + bytes.len() as u64).to_le_bytes(), TOTAL_AT as u64)
    }

    /// Reads up to `buf.len()` bytes from offset `at` of the stream.
    pub(super) fn read(&self, at: u64, buf: &mut [u8]) -> io::Result<usize> {
        let len = self.until_wrap(at, buf.len());
        self.file.read_at(&mut buf[..len], self.position(at))
    }

    /// Records a total and holes without data.
    pub(super) fn write_header(&self, total: u64, holes: &Holes) -> io::Result<()> {
        let mut header = [0; HEADER];
        header[..8].copy_from_slice(&MAGIC);
        header[8..16].copy_from_slice(&self.capacity.to_le_bytes());
        header[16..24].copy_from_slice(&self.base.to_le_bytes());
        header[24..32].copy_from_slice(&total.to_le_bytes());
        for (i, (from, to)) in holes.ranges().iter().take(MAX_HOLES).enumerate() {
            let at = HOLES_AT + 16 * i;
            header[at..at + 8].copy_from_slice(&from.to_le_bytes());
            header[at + 8..at + 16].copy_from_slice(&to.to_le_bytes());
        }
        self.file.write_all_at(&header, 0)
    }

    fn region(&self) -> u64 {
        self.capacity + MAX_WRITE as u64
    }

    fn position(&self, at: u64) -> u64 {
        DATA + at.saturating_sub(self.base) % self.region()
    }

    fn until_wrap(&self, at: u64, len: usize) -> usize {
        let left = DATA + self.region() - self.position(at);
        usize::try_from(left).map_or(len, |left| left.min(len))
    }
}
