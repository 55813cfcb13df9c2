//! The file that keeps the last bytes of a stream.
//!
//! The data region is larger than what is kept by one write. A write therefore
//! only overwrites bytes that are no longer kept, and a guest killed between writing
//! the data and writing the header leaves a file whose header still describes
//! exactly what is in it.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::state_file;

const MAGIC: [u8; 8] = *b"vestlog1";
const HEADER: usize = 512;
const TOTAL_AT: usize = 24;
const HOLES_AT: usize = 32;

/// Start of the data region in the file.
const DATA: u64 = HEADER as u64;

/// Maximum bytes of one write.
pub(super) const MAX_WRITE: usize = 64 << 10;

/// Maximum number of ranges. Beyond it neighbours are joined, and what lies
/// between them counts as lost.
const MAX_HOLES: usize = 16;

#[derive(Debug)]
pub(super) struct Ring {
    file: File,
    /// Stream offset at the start of the region.
    base: u64,
    /// Bytes kept.
    capacity: u64,
}

/// The header of a ring.
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

    /// Writes bytes at offset `at` of the stream, at most [`MAX_WRITE`], and
    /// records the new total.
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

/// Disjoint ranges in ascending order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Holes(Vec<(u64, u64)>);

impl Holes {
    fn from_ranges(ranges: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let mut holes = Self::default();
        for (from, to) in ranges {
            holes.add(from, to);
        }
        holes
    }

    pub(super) fn ranges(&self) -> &[(u64, u64)] {
        &self.0
    }

    /// Adds a range that does not begin before the last one.
    pub(super) fn add(&mut self, from: u64, to: u64) {
        if from >= to {
            return;
        }
        match self.0.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ => self.0.push((from, to)),
        }
        if self.0.len() > MAX_HOLES {
            let second = self.0.remove(1);
            self.0[0].1 = second.1;
        }
    }

    /// Forgets ranges before `start`, which are lost anyway.
    pub(super) fn forget_before(&mut self, start: u64) {
        self.0.retain(|hole| hole.1 > start);
    }

    /// Returns how many bytes of `from..to` are in holes.
    pub(super) fn bytes_within(&self, from: u64, to: u64) -> u64 {
        self.0.iter().map(|hole| hole.1.min(to).saturating_sub(hole.0.max(from))).sum()
    }

    /// Returns where the hole that contains `offset` ends.
    pub(super) fn end_of_hole_at(&self, offset: u64) -> Option<u64> {
        self.0.iter().find(|hole| hole.0 <= offset && offset < hole.1).map(|hole| hole.1)
    }

    /// Returns where the first hole after `offset` begins.
    pub(super) fn next_after(&self, offset: u64) -> Option<u64> {
        self.0.iter().find(|hole| hole.0 > offset).map(|hole| hole.0)
    }
}
