//! Reads the lines of a log, from the oldest on, across rotations and while it is written.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::ops::Range;

use crate::files::{LogFileId, LogFiles};
use crate::lines::MAX_LINE;

/// The longest line that is passed on whole: one of a child, with the times in front of it.
const LONGEST: usize = 2 * MAX_LINE;

/// Bytes that are read at once.
const CHUNK: usize = 64 << 10;

/// A place in a log. Holds one file open, and at most a line and a chunk of bytes.
#[derive(Debug)]
pub struct LogReader {
    files: LogFiles,
    open: Option<OpenFile>,
    buffer: Vec<u8>,
    /// What is before this in the buffer was passed on.
    start: usize,
    /// Between `start` and this there is no newline.
    searched: usize,
}

#[derive(Debug)]
struct OpenFile {
    file: File,
    id: LogFileId,
    offset: u64,
    /// Whether nothing more is written to it: it was moved aside.
    is_full: bool,
}

/// What comes next in a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextLine<'a> {
    /// A line, without its newline.
    Line(&'a [u8]),
    /// Lines are missing here: they were removed before they were read.
    Gap,
    /// There is no more for now.
    End,
}

enum LineStep {
    Line(Range<usize>),
    Gap,
    End,
}

impl LogReader {
    /// Returns a reader at the oldest line of a log, which need not exist yet.
    pub fn new(files: LogFiles) -> Self {
        Self { files, open: None, buffer: Vec::new(), start: 0, searched: 0 }
    }

    /// Returns a reader at a line that begins at most so many bytes before the end; nothing where
    /// the log is not longer than that.
    pub fn near_end(files: LogFiles, bytes: u64) -> io::Result<Option<Self>> {
        let mut missing = bytes;
        for number in 0..=files.backups() {
            let mut file = match File::open(files.numbered(number)) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            let length = file.metadata()?.len();
            if length <= missing {
                missing -= length;
                continue;
            }
            // With the byte before, so that a line that begins right there is not taken for the rest
            // of one.
            let offset = length - missing - 1;
            file.seek(SeekFrom::Start(offset))?;
            let open = Some(OpenFile { offset, ..OpenFile::new(file)? });
            let mut reader = Self { open, ..Self::new(files) };
            reader.step()?;
            return Ok(Some(reader));
        }
        Ok(None)
    }

    /// Returns the next line. After the end there may be more later.
    pub fn next_line(&mut self) -> io::Result<NextLine<'_>> {
        Ok(match self.step()? {
            LineStep::Line(range) => NextLine::Line(&self.buffer[range]),
            LineStep::Gap => NextLine::Gap,
            LineStep::End => NextLine::End,
        })
    }

    fn step(&mut self) -> io::Result<LineStep> {
        loop {
            if let Some(range) = self.buffered_line() {
                return Ok(LineStep::Line(range));
            }
            let Some(open) = &mut self.open else {
                match self.files.open_below(self.files.backups() + 1)? {
                    Some(file) => self.open = Some(OpenFile::new(file)?),
                    None => return Ok(LineStep::End),
                }
                continue;
            };
            self.buffer.drain(..self.start);
            self.searched -= self.start;
            self.start = 0;
            let count = open.read(&mut self.buffer)?;
            if count > 0 {
                continue;
            }
            if !open.is_full {
                if self.files.locate(open.id)? != Some(0) {
                    // Whatever was written before it was moved is read first.
                    open.is_full = true;
                    continue;
                }
                if open.is_cut()? {
                    self.clear();
                    return Ok(LineStep::Gap);
                }
                return Ok(LineStep::End);
            }
            if !self.buffer.is_empty() {
                // A line that a crash has cut off.
                (self.start, self.searched) = (self.buffer.len(), self.buffer.len());
                return Ok(LineStep::Line(0..self.buffer.len()));
            }
            let id = open.id;
            let Some(number) = self.files.locate(id)? else {
                self.open = None;
                return Ok(LineStep::Gap);
            };
            let Some(file) = self.files.open_below(number)? else { return Ok(LineStep::End) };
            // If the file was moved meanwhile, so was the one after it.
            if self.files.locate(id)? == Some(number) {
                self.open = Some(OpenFile::new(file)?);
            }
        }
    }

    /// Takes the next line out of the buffer; one that is too long in pieces.
    fn buffered_line(&mut self) -> Option<Range<usize>> {
        let start = self.start;
        let end = memchr::memchr(b'\n', &self.buffer[self.searched..]);
        match end.map(|end| self.searched + end) {
            Some(end) if end - start <= LONGEST => {
                self.start = end + 1;
                self.searched = end + 1;
                Some(start..end)
            }
            _ if self.buffer.len() - start > LONGEST => {
                self.start = start + LONGEST;
                self.searched = self.start;
                Some(start..self.start)
            }
            _ => {
                self.searched = self.buffer.len();
                None
            }
        }
    }

    fn clear(&mut self) {
        self.buffer.clear();
        (self.start, self.searched) = (0, 0);
    }
}

impl OpenFile {
    fn new(file: File) -> io::Result<Self> {
        let id = LogFileId::of(&file.metadata()?);
        Ok(Self { file, id, offset: 0, is_full: false })
    }

    fn read(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        let count = (&mut self.file).take(CHUNK as u64).read_to_end(buffer)?;
        self.offset += count as u64;
        Ok(count)
    }

    /// Goes back to the beginning of a file that somebody has emptied.
    fn is_cut(&mut self) -> io::Result<bool> {
        if self.file.metadata()?.len() >= self.offset {
            return Ok(false);
        }
        self.file.rewind()?;
        self.offset = 0;
        Ok(true)
    }
}

#[cfg(test)]
#[path = "read_lines_tests.rs"]
mod tests;
