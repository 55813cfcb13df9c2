//! The logs of a job's two streams.

use std::io;
use std::path::{Path, PathBuf};

use vestal_wire::Stream;

use super::stream::{Piece, StreamLog};

/// A stream that is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogStream {
    Stdout,
    Stderr,
}

impl LogStream {
    /// Both streams.
    pub(crate) const ALL: [Self; 2] = [Self::Stdout, Self::Stderr];

    /// Returns the number of the stream among [`Self::ALL`].
    pub(crate) const fn index(self) -> usize {
        self as usize
    }

    /// Returns the stream's name on the wire.
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

/// The output of one job.
#[derive(Debug)]
pub(crate) struct JobLog {
    dir: PathBuf,
    streams: [StreamLog; 2],
}

impl JobLog {
    /// Returns the log of a new job, whose files will be in `dir`.
    pub(crate) fn new(dir: PathBuf, limit: u64) -> Self {
        Self { dir, streams: [StreamLog::new(limit), StreamLog::new(limit)] }
    }

    /// Returns the log that an earlier guest left in `dir`.
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
    pub(crate) fn read(&mut self, stream: LogStream, offset: u64, buf: &mut [u8]) -> Piece {
        let base = self.dir.join(stream.file_stem());
        self.streams[stream.index()].read(&base, offset, buf)
    }

    /// Returns one stream's log.
    pub(crate) const fn stream(&self, stream: LogStream) -> &StreamLog {
        &self.streams[stream.index()]
    }

    /// Returns how many bytes are kept.
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
