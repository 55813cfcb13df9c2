//! Appends entries to a file that any number of processes share.

use std::fs::{File, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::time::{Duration, Instant};

use crate::entry::{Level, NewEntry};
use crate::files::{LogFileId, LogFiles};

/// How long an entry waits for another process that writes. A write takes microseconds, also on a
/// busy machine; a process that was stopped during one must not stop all others.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a writer does not wait again after it has waited in vain.
const NO_WAIT_FOR: Duration = Duration::from_secs(10);
/// Attempts at the lock before the first pause.
const SPINS: u32 = 50;
const PAUSE: Duration = Duration::from_millis(1);

/// Writes one log beside other processes.
///
/// An entry is written under a lock on the file itself, after a check that the file still has its
/// name. So a file that was moved aside gets no further line, and the lock's holder may move it.
/// The kernel frees the lock of a process that dies.
#[derive(Debug)]
pub struct LogWriter {
    files: LogFiles,
    /// Nothing is opened before the first entry.
    open: Option<OpenLog>,
    /// Entries that could not be written since the last one that could, and why.
    lost: Option<(u64, String)>,
    no_wait_until: Option<Instant>,
}

#[derive(Debug)]
struct OpenLog {
    file: File,
    id: LogFileId,
    /// Where the last entry of this process ended: up to there the file is known to be whole.
    end: u64,
}

/// What became of an attempt.
enum WriteAttempt {
    Written,
    /// The file is another one by now.
    Again,
}

impl LogWriter {
    /// Returns a writer of a log. Neither the file nor its directory has to exist.
    pub fn new(files: LogFiles) -> Self {
        Self { files, open: None, lost: None, no_wait_until: None }
    }

    /// Returns the files of the log.
    pub fn files(&self) -> &LogFiles {
        &self.files
    }

    /// Appends an entry: one line or several, the last of which ends with a newline.
    ///
    /// One that cannot be written, as when the disk is full, is lost and counted; the count stands
    /// in the log before the next entry that can be written. So the error is for those who want to
    /// tell it elsewhere too.
    pub fn write(&mut self, entry: &[u8]) -> io::Result<()> {
        let written = self.append(entry);
        match &written {
            Ok(()) => self.lost = None,
            Err(error) => {
                let count = self.lost.take().map_or(0, |(count, _)| count);
                self.lost = Some((count + 1, error.to_string()));
                // What was written of it is ended when the file is opened again.
                self.open = None;
            }
        }
        written
    }

    /// Returns how many entries were lost since the last one that was written.
    pub fn lost(&self) -> u64 {
        self.lost.as_ref().map_or(0, |(count, _)| *count)
    }

    fn append(&mut self, entry: &[u8]) -> io::Result<()> {
        loop {
            let open = match self.open.take() {
                Some(open) => open,
                None => OpenLog::new(&self.files)?,
            };
            let is_locked = self.lock(&open.file);
            let open = self.open.insert(open);
            let attempt = open.append(&self.files, entry, self.lost.as_ref(), is_locked);
            match attempt {
                Ok(WriteAttempt::Written) => {
                    if is_locked && open.file.unlock().is_err() {
                        // Closing it frees the lock as well.
                        self.open = None;
                    }
                    return Ok(());
                }
                // Closing the file frees its lock.
                Ok(WriteAttempt::Again) => self.open = None,
                Err(error) => {
                    self.open = None;
                    return Err(error);
                }
            }
        }
    }

    /// Waits for the lock of a file for a limited time.
    fn lock(&mut self, file: &File) -> bool {
        let mut began = None;
        for attempt in 0_u32.. {
            match file.try_lock() {
                Ok(()) => {
                    self.no_wait_until = None;
                    return true;
                }
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(_)) => return false,
            }
            let now = Instant::now();
            let since = *began.get_or_insert(now);
            let skips_wait = self.no_wait_until.is_some_and(|until| now < until);
            if skips_wait || now.duration_since(since) > LOCK_TIMEOUT {
                if !skips_wait {
                    self.no_wait_until = Some(now + NO_WAIT_FOR);
                }
                return false;
            }
            if attempt < SPINS {
                std::thread::yield_now();
            } else {
                std::thread::sleep(PAUSE);
            }
        }
        false
    }
}

impl OpenLog {
    fn new(files: &LogFiles) -> io::Result<Self> {
        let file = files.open_to_append()?;
        let id = LogFileId::of(&file.metadata()?);
        Ok(Self { file, id, end: 0 })
    }

    /// Appends an entry, unless the file is no longer the one to write to. Without the lock nothing
    /// is moved, and the entry may end up in a file that is being moved, where it is still found.
    fn append(
        &mut self,
        files: &LogFiles,
        entry: &[u8],
        lost: Option<&(u64, String)>,
        is_locked: bool,
    ) -> io::Result<WriteAttempt> {
        let size = match std::fs::symlink_metadata(files.path()) {
            Ok(metadata) if LogFileId::of(&metadata) == self.id => metadata.len(),
            Ok(_) => return Ok(WriteAttempt::Again),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(WriteAttempt::Again);
            }
            Err(error) => return Err(error),
        };
        if is_locked
            && size > 0
            && size + entry.len() as u64 > files.max_bytes()
            // A log that cannot be rotated continues in the same file.
            && files.rotate().is_ok()
        {
            return Ok(WriteAttempt::Again);
        }
        let mut before = String::new();
        if size > 0 && size != self.end && !self.ends_with_newline(size)? {
            // A crash or a full disk has cut the last line off.
            before.push('\n');
        }
        if let Some((count, why)) = lost {
            let text = format!("{count} entries before this one are lost: {why}");
            let notice =
                NewEntry { level: Level::Warn, session: None, target: "vestal_logs", text: &text };
            before.push_str(&notice.format(jiff::Timestamp::now()));
        }
        if before.is_empty() {
            self.file.write_all(entry)?;
        } else {
            self.file.write_all(&[before.as_bytes(), entry].concat())?;
        }
        self.end = size + (before.len() + entry.len()) as u64;
        // Without the lock the file may have been moved out of the log meanwhile.
        if !is_locked && self.file.metadata()?.nlink() == 0 {
            return Ok(WriteAttempt::Again);
        }
        Ok(WriteAttempt::Written)
    }

    fn ends_with_newline(&self, size: u64) -> io::Result<bool> {
        let mut last = [b'\n'];
        // A file that somebody has cut meanwhile has nothing there.
        self.file.read_at(&mut last, size - 1)?;
        Ok(last == *b"\n")
    }
}

#[cfg(test)]
#[path = "writer_tests.rs"]
mod tests;
