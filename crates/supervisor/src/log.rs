//! The log of a slot: every line of its child with the time, in files of limited size.
//!
//! `current` is written; full ones are `current.1`, the newest, to `current.9`. The supervisor is
//! the one writer. A line is one `write`, so that no line is torn.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::files;
use crate::output::RawOutput;
use crate::state;

/// The file that is written.
pub(crate) const CURRENT: &str = "current";
/// Size at which the file is full.
const MAX_BYTES: u64 = 1_000_000;
/// How many files there are, the current one included.
pub(crate) const FILES: u32 = 10;
/// The longest line that is kept whole; a longer one becomes several.
pub(crate) const MAX_LINE: usize = 64 << 10;

/// The name of a full file; 1 is the newest.
pub(crate) fn rotated(dir: &Path, number: u32) -> PathBuf {
    if number == 0 { dir.join(CURRENT) } else { dir.join(format!("{CURRENT}.{number}")) }
}

/// The log of one slot. Clones write to the same.
#[derive(Debug, Clone)]
pub(crate) struct SlotLog {
    files: Arc<Mutex<LogFiles>>,
    raw: RawOutput,
}

impl SlotLog {
    pub(crate) fn new(dir: PathBuf, raw: RawOutput) -> Self {
        Self { files: Arc::new(Mutex::new(LogFiles::new(dir, MAX_BYTES))), raw }
    }

    /// Notes a line of the child, without its newline.
    pub(crate) fn line(&self, line: &[u8]) {
        self.raw.line(line);
        self.lock().write(line);
    }

    /// Notes what the supervisor did with the child.
    pub(crate) fn note(&self, text: &str) {
        self.line(format!("supervisor: {text}").as_bytes());
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, LogFiles> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
pub(crate) struct LogFiles {
    dir: PathBuf,
    limit: u64,
    /// The current file and its size, once something was written.
    open: Option<(File, u64)>,
    /// Lines that could not be written since the last one that could.
    lost: u64,
}

impl LogFiles {
    pub(crate) fn new(dir: PathBuf, limit: u64) -> Self {
        Self { dir, limit, open: None, lost: 0 }
    }

    /// Writes a line. One that cannot be written, as when the disk is full, is counted, and the
    /// count stands in the log once it can be written again.
    pub(crate) fn write(&mut self, line: &[u8]) {
        let lost = std::mem::take(&mut self.lost);
        let result = (|| {
            if lost > 0 {
                self.append(
                    format!("supervisor: {lost} lines before this one are lost").as_bytes(),
                )?;
            }
            self.append(line)
        })();
        if let Err(error) = result {
            if lost == 0 {
                tracing::warn!(%error, dir = %self.dir.display(), "cannot write a log");
            }
            self.lost = lost + 1;
            // What was written of the line is ended when the file is opened again.
            self.open = None;
        }
    }

    fn append(&mut self, line: &[u8]) -> io::Result<()> {
        let mut bytes = state::now().into_bytes();
        bytes.reserve(line.len() + 2);
        bytes.push(b' ');
        bytes.extend_from_slice(line);
        bytes.push(b'\n');
        let (mut file, mut size) = match self.open.take() {
            Some(open) => open,
            None => self.open_current()?,
        };
        if size > 0 && size + bytes.len() as u64 > self.limit {
            drop(file);
            self.rotate()?;
            (file, size) = self.open_current()?;
        }
        file.write_all(&bytes)?;
        self.open = Some((file, size + bytes.len() as u64));
        Ok(())
    }

    fn open_current(&self) -> io::Result<(File, u64)> {
        files::make_dir(&self.dir)?;
        let mut file =
            files::private().read(true).append(true).create(true).open(self.dir.join(CURRENT))?;
        let mut size = file.seek(SeekFrom::End(0))?;
        if size > 0 {
            // A crash or a full disk may have cut the last line off.
            let mut last = [0];
            file.seek(SeekFrom::End(-1))?;
            file.read_exact(&mut last)?;
            if last != *b"\n" {
                file.write_all(b"\n")?;
                size += 1;
            }
        }
        Ok((file, size))
    }

    /// Moves every file one further, the oldest first, so that none is overwritten but that one. A
    /// crash in between leaves a gap in the numbers and no other harm.
    fn rotate(&self) -> io::Result<()> {
        for number in (0..FILES - 1).rev() {
            match std::fs::rename(rotated(&self.dir, number), rotated(&self.dir, number + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}

/// Makes lines of the bytes of one stream. Holds at most [`MAX_LINE`] bytes.
#[derive(Debug, Default)]
pub(crate) struct LineBuffer {
    bytes: Vec<u8>,
}

impl LineBuffer {
    /// Takes bytes and passes on the lines that are complete now.
    pub(crate) fn push(&mut self, mut bytes: &[u8], mut line: impl FnMut(&[u8])) {
        while !bytes.is_empty() {
            let room = MAX_LINE - self.bytes.len();
            let piece = &bytes[..bytes.len().min(room)];
            if let Some(end) = piece.iter().position(|byte| *byte == b'\n') {
                self.bytes.extend_from_slice(&piece[..end]);
                bytes = &bytes[end + 1..];
                line(&self.bytes);
                self.bytes.clear();
            } else {
                self.bytes.extend_from_slice(piece);
                bytes = &bytes[piece.len()..];
                if self.bytes.len() == MAX_LINE {
                    line(&self.bytes);
                    self.bytes.clear();
                }
            }
        }
    }

    /// Passes on what has no newline when the stream ends.
    pub(crate) fn finish(&mut self, mut line: impl FnMut(&[u8])) {
        if !self.bytes.is_empty() {
            line(&self.bytes);
            self.bytes.clear();
        }
    }
}

#[cfg(test)]
#[path = "log_tests.rs"]
mod tests;
