//! The logs of a job: for each stream a head, then a ring.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::{Path, PathBuf};

use vestal_wire::Stream;

use super::ring::{Holes, MAX_WRITE, Ring};
use crate::state_file;

/// What a log contains at an offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogPiece {
    /// This many bytes were read.
    Data(usize),
    /// There is nothing before this offset.
    Gap(u64),
    /// The offset is the end of the stream.
    End,
}

#[derive(Debug)]
pub(crate) struct StreamLog {
    /// Bytes written to the stream so far.
    total: u64,
    /// Bytes in the head.
    head_len: u64,
    head_cap: u64,
    tail_cap: u64,
    /// Ranges after the head that could not be written.
    holes: Holes,
    head: LazyFile<File>,
    ring: LazyFile<Ring>,
}

/// A file that is opened when it is first needed.
#[derive(Debug)]
enum LazyFile<F> {
    /// It was not created yet.
    Absent,
    /// It exists and is not open.
    Closed,
    Open(F),
}

impl StreamLog {
    /// Returns the log of a new stream that keeps at most `limit` bytes.
    pub(crate) fn new(limit: u64) -> Self {
        let head_cap = limit / 4;
        Self {
            total: 0,
            head_len: 0,
            head_cap,
            tail_cap: limit - head_cap,
            holes: Holes::default(),
            head: LazyFile::Absent,
            ring: LazyFile::Absent,
        }
    }

    /// Returns the log stored in the files at `base`. If they contain fewer bytes
    /// than `recorded`, the rest counts as omitted.
    pub(crate) fn recover(base: &Path, limit: u64, recorded: u64) -> Self {
        let mut log = Self::new(limit);
        if let Ok(metadata) = head_path(base).symlink_metadata()
            && metadata.is_file()
        {
            log.head = LazyFile::Closed;
            log.head_len = metadata.len();
            log.total = log.head_len;
        }
        if let Ok((_, contents)) = Ring::open(&tail_path(base)) {
            log.ring = LazyFile::Closed;
            log.tail_cap = contents.capacity;
            log.holes = contents.holes;
            log.total = log.total.max(contents.total);
        }
        if log.total < recorded {
            log.holes.add(log.total, recorded);
            log.total = recorded;
        }
        // Nothing is appended to the head of an earlier guest's job.
        log.head_cap = log.head_len;
        log
    }

    /// Returns the number of bytes written to the stream.
    pub(crate) const fn total(&self) -> u64 {
        self.total
    }

    /// Returns the number of bytes that the log does not contain.
    pub(crate) fn omitted(&self) -> u64 {
        let start = self.tail_start();
        let lost_in_tail = self.holes.bytes_within(start, self.total);
        start - self.head_len + lost_in_tail
    }

    /// Returns the offset at which a reader that fell behind should continue: far
    /// enough from the start of the tail not to fall behind again at once.
    pub(crate) fn fresh_start(&self) -> u64 {
        self.tail_start().max(self.total.saturating_sub(self.tail_cap / 2))
    }

    /// Appends bytes. Bytes that cannot be written count as omitted: a full disk
    /// never stops a job.
    pub(crate) fn append(&mut self, base: &Path, mut bytes: &[u8]) {
        if self.head_len < self.head_cap {
            bytes = self.append_to_head(base, bytes);
        }
        for piece in bytes.chunks(MAX_WRITE) {
            if self.append_to_ring(base, piece).is_err() {
                self.lose(piece.len() as u64);
            }
        }
    }

    /// Reads bytes at `offset`.
    pub(crate) fn read(&mut self, base: &Path, offset: u64, buf: &mut [u8]) -> LogPiece {
        if offset >= self.total {
            return LogPiece::End;
        }
        let start = self.tail_start();
        if offset < self.head_len {
            let buf = limited(buf, self.head_len - offset);
            return match self.read_head(base, offset, buf) {
                Ok(n) if n > 0 => LogPiece::Data(n),
                _ => LogPiece::Gap(self.head_len),
            };
        }
        if offset < start {
            return LogPiece::Gap(self.holes.end_of_hole_at(start).unwrap_or(start));
        }
        if let Some(end) = self.holes.end_of_hole_at(offset) {
            return LogPiece::Gap(end);
        }
        let end = self.holes.next_after(offset).unwrap_or(self.total);
        let buf = limited(buf, end - offset);
        match self.read_ring(base, offset, buf) {
            Ok(n) if n > 0 => LogPiece::Data(n),
            _ => LogPiece::Gap(end),
        }
    }

    /// Closes files until they are needed again.
    pub(crate) fn close_files(&mut self) {
        self.head.close();
        self.ring.close();
    }

    /// Returns whether there are files.
    const fn has_files(&self) -> bool {
        !matches!((&self.head, &self.ring), (LazyFile::Absent, LazyFile::Absent))
    }

    fn tail_start(&self) -> u64 {
        self.head_len.max(self.total.saturating_sub(self.tail_cap))
    }

    /// Appends to the head and returns the rest. After a failed write the head
    /// does not grow any more, and the ring takes over.
    fn append_to_head<'b>(&mut self, base: &Path, bytes: &'b [u8]) -> &'b [u8] {
        let room = usize::try_from(self.head_cap - self.head_len).unwrap_or(usize::MAX);
        let wanted = bytes.len().min(room);
        let written = self.write_head(base, &bytes[..wanted]);
        self.head_len += written as u64;
        self.total += written as u64;
        if written < wanted {
            self.head_cap = self.head_len;
        }
        if self.head_len == self.head_cap {
            self.head.close();
        }
        &bytes[written..]
    }

    fn write_head(&mut self, base: &Path, bytes: &[u8]) -> usize {
        if let LazyFile::Absent = self.head {
            let made = make_directory_of(base).and_then(|()| {
                let mut options = OpenOptions::new();
                state_file::make(&head_path(base), options.read(true).write(true).truncate(true))
            });
            match made {
                Ok(file) => self.head = LazyFile::Open(file),
                Err(_) => return 0,
            }
        }
        let Ok(file) = self.head.get(|| open_head(base)) else {
            return 0;
        };
        let mut written = 0;
        while written < bytes.len() {
            match file.write_at(&bytes[written..], self.head_len + written as u64) {
                Ok(n) if n > 0 => written += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                _ => break,
            }
        }
        written
    }

    fn append_to_ring(&mut self, base: &Path, piece: &[u8]) -> io::Result<()> {
        if self.tail_cap == 0 {
            return Err(io::Error::other("nothing may be kept"));
        }
        if let LazyFile::Absent = self.ring {
            make_directory_of(base)?;
            let ring = Ring::create(&tail_path(base), self.total, self.tail_cap)?;
            ring.write_header(self.total, &self.holes)?;
            self.ring = LazyFile::Open(ring);
        }
        let total = self.total;
        self.ring.get(|| open_ring(base))?.write(total, piece)?;
        self.total += piece.len() as u64;
        Ok(())
    }

    fn lose(&mut self, bytes: u64) {
        self.holes.add(self.total, self.total + bytes);
        self.total += bytes;
        self.holes.forget_before(self.tail_start());
        if let LazyFile::Open(ring) = &self.ring {
            // The block of the header is allocated, so this works on a full disk.
            // If it fails, a later guest knows of fewer bytes.
            ring.write_header(self.total, &self.holes).ok();
        }
    }

    fn read_head(&mut self, base: &Path, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        self.head.get(|| open_head(base))?.read_at(buf, offset)
    }

    fn read_ring(&mut self, base: &Path, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        self.ring.get(|| open_ring(base))?.read(offset, buf)
    }
}

impl<F> LazyFile<F> {
    fn get(&mut self, open: impl FnOnce() -> io::Result<F>) -> io::Result<&F> {
        if let Self::Closed = self {
            *self = Self::Open(open()?);
        }
        match self {
            Self::Open(file) => Ok(file),
            Self::Absent | Self::Closed => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn close(&mut self) {
        if let Self::Open(_) = self {
            *self = Self::Closed;
        }
    }
}

fn open_head(base: &Path) -> io::Result<File> {
    state_file::open(&head_path(base), OpenOptions::new().read(true).write(true))
}

fn open_ring(base: &Path) -> io::Result<Ring> {
    Ring::open(&tail_path(base)).map(|(ring, _)| ring)
}

fn make_directory_of(base: &Path) -> io::Result<()> {
    let Some(parent) = base.parent() else {
        return Ok(());
    };
    DirBuilder::new().recursive(true).mode(0o700).create(parent)
}

fn limited(buf: &mut [u8], limit: u64) -> &mut [u8] {
    let len = usize::try_from(limit).map_or(buf.len(), |limit| limit.min(buf.len()));
    &mut buf[..len]
}

fn head_path(base: &Path) -> PathBuf {
    base.with_extension("head")
}

fn tail_path(base: &Path) -> PathBuf {
    base.with_extension("tail")
}

/// A stream that is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogStream {
    Stdout,
    Stderr,
}

impl LogStream {
    /// Both streams.
    pub(crate) const ALL: [Self; 2] = [Self::Stdout, Self::Stderr];

    /// Returns the index of the stream in [`Self::ALL`].
    pub(crate) const fn index(self) -> usize {
        self as usize
    }

    /// Returns the corresponding stream of the protocol.
    pub(crate) const fn on_wire(self) -> Stream {
        match self {
            Self::Stdout => Stream::Stdout,
            Self::Stderr => Stream::Stderr,
        }
    }

    const fn file_stem(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

/// The logged output of a job.
#[derive(Debug)]
pub(crate) struct JobLog {
    dir: PathBuf,
    streams: [StreamLog; 2],
}

impl JobLog {
    /// Returns the log of a new job with its files in `dir`.
    pub(crate) fn new(dir: PathBuf, limit: u64) -> Self {
        Self { dir, streams: [StreamLog::new(limit), StreamLog::new(limit)] }
    }

    /// Returns the log that an earlier guest stored in `dir`.
    pub(crate) fn recover(dir: PathBuf, limit: u64, recorded: [u64; 2]) -> Self {
        let streams = LogStream::ALL.map(|stream| {
            StreamLog::recover(&dir.join(stream.file_stem()), limit, recorded[stream.index()])
        });
        Self { dir, streams }
    }

    /// Appends bytes to a stream.
    pub(crate) fn append(&mut self, stream: LogStream, bytes: &[u8]) {
        let base = self.dir.join(stream.file_stem());
        self.streams[stream.index()].append(&base, bytes);
    }

    /// Reads bytes of a stream.
    pub(crate) fn read(&mut self, stream: LogStream, offset: u64, buf: &mut [u8]) -> LogPiece {
        let base = self.dir.join(stream.file_stem());
        self.streams[stream.index()].read(&base, offset, buf)
    }

    /// Returns one stream's log.
    pub(crate) const fn stream(&self, stream: LogStream) -> &StreamLog {
        &self.streams[stream.index()]
    }

    /// Returns the number of bytes kept.
    pub(crate) fn kept(&self) -> u64 {
        self.streams.iter().map(|stream| stream.total() - stream.omitted()).sum()
    }

    /// Closes files until they are needed again.
    pub(crate) fn close_files(&mut self) {
        self.streams.iter_mut().for_each(StreamLog::close_files);
    }

    /// Deletes the files.
    pub(crate) fn delete(self) -> io::Result<()> {
        if self.streams.iter().any(StreamLog::has_files) {
            delete_directory(&self.dir)
        } else {
            Ok(())
        }
    }
}

/// Deletes the directory of a job's log.
pub(crate) fn delete_directory(dir: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;
