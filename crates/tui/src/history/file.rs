//! The file of the history: a line of JSON per message, appended to by several
//! processes at once.
//!
//! A writer holds a lock on the file itself. When it has grown too long it is
//! written again beside itself and put in its own place, so a writer that waited for
//! the lock looks whether what it locked is still the file.

use std::collections::VecDeque;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{
    DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, thread};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::editor::Fragment;
use crate::history::{self, MOST_BYTES, MOST_ENTRIES};

/// A larger file is rewritten. It is well above what is kept, so that this is rare.
const MOST_FILE_BYTES: u64 = 2 * MOST_BYTES as u64;

/// A file with more lines is rewritten.
const MOST_FILE_ENTRIES: usize = MOST_ENTRIES + MOST_ENTRIES / 4;

/// How long to wait for the lock, which is held only while a line or the file is written.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);

/// Where the messages are kept.
#[derive(Debug)]
pub(super) struct File {
    path: PathBuf,
    /// How long the lock is waited for.
    timeout: Duration,
    counted: LineCount,
}

/// How many lines a file had when it had so many bytes, so that only what was
/// added since needs to be looked at.
#[derive(Debug, Clone, Copy, Default)]
struct LineCount {
    inode: u64,
    bytes: u64,
    lines: usize,
}

impl File {
    /// Returns the file at a path, which need not be there.
    pub(super) fn at(path: &Path) -> Self {
        // The file may be a link to another place: the link stays.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        Self { path, timeout: LOCK_TIMEOUT, counted: LineCount::default() }
    }

    /// Returns the messages in it, the oldest first. Lines that are none are passed
    /// over.
    pub(super) fn read(&self) -> io::Result<Vec<Fragment>> {
        if self.keeps_nothing() {
            return Ok(Vec::new());
        }
        match fs::File::open(&self.path) {
            Ok(mut file) => {
                let lines = last_lines(&mut file)?;
                Ok(split(&lines).filter_map(history::decode_entry).collect())
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// Adds a message.
    pub(super) fn append(&mut self, message: &Fragment) -> io::Result<()> {
        let mut line = history::encode_entry(message);
        // One that drives out all others when the file is written again is not kept.
        if line.len() > MOST_BYTES || self.keeps_nothing() {
            return Ok(());
        }
        let mut file = self.locked()?;
        let len = file.metadata()?.len();
        // Another process may have died within a line.
        let mut last = [b'\n'];
        if len > 0 {
            file.read_exact_at(&mut last, len - 1)?;
        }
        if last != *b"\n" {
            line.insert(0, '\n');
        }
        file.write_all(line.as_bytes())?;
        self.shorten(&mut file)
    }

    /// Returns whether somebody has put a device there, as `/dev/null`, so that nothing
    /// is kept. It is not ours to read or to take from others.
    fn keeps_nothing(&self) -> bool {
        fs::metadata(&self.path).is_ok_and(|found| !found.is_file() && !found.is_dir())
    }

    /// Returns the file, locked. The lock goes with it.
    fn locked(&self) -> io::Result<fs::File> {
        let begun = Instant::now();
        loop {
            let file = self.opened()?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {
                    if self.is_still(&file)? {
                        return Ok(file);
                    }
                }
                Err(Errno::WOULDBLOCK) if begun.elapsed() < self.timeout => {
                    thread::sleep(Duration::from_millis(2));
                }
                Err(Errno::WOULDBLOCK) => {
                    return Err(io::Error::new(
                        io::ErrorKind::WouldBlock,
                        format!("another process keeps {} locked", self.path.display()),
                    ));
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn opened(&self) -> io::Result<fs::File> {
        if let Some(dir) = self.path.parent() {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        }
        let file = fs::OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .mode(0o600)
            .open(&self.path)?;
        let permissions = file.metadata()?.permissions();
        if permissions.mode() & 0o077 != 0 {
            file.set_permissions(fs::Permissions::from_mode(0o600))?;
        }
        Ok(file)
    }

    /// Returns whether an open file is the one at the path.
    fn is_still(&self, file: &fs::File) -> io::Result<bool> {
        let open = file.metadata()?;
        match fs::metadata(&self.path) {
            Ok(found) => Ok(found.ino() == open.ino() && found.dev() == open.dev()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Rewrites the locked file when it is too long.
    fn shorten(&mut self, file: &mut fs::File) -> io::Result<()> {
        if file.metadata()?.len() <= MOST_FILE_BYTES {
            self.counted = self.counted.now(file)?;
            if self.counted.lines <= MOST_FILE_ENTRIES {
                return Ok(());
            }
        }
        let lines = last_lines(file)?;
        let anew = self.path.with_added_extension("new");
        self.write_anew(&anew, &lines).inspect_err(|_| {
            // The error itself is reported; the next writer removes it.
            fs::remove_file(&anew).unwrap_or_default();
        })
    }

    /// Replaces the file by one with the newest lines. The caller holds the lock, so no
    /// other process uses the same temporary name: a file that a killed process left
    /// under it is removed.
    fn write_anew(&self, anew: &Path, lines: &[u8]) -> io::Result<()> {
        match fs::remove_file(anew) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file =
            fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(anew)?;
        let kept: Vec<u8> =
            newest(lines).into_iter().flat_map(|line| [line, b"\n"].concat()).collect();
        file.write_all(&kept)?;
        file.sync_data()?;
        fs::rename(anew, &self.path)
    }
}

impl LineCount {
    /// Returns how many lines a file has now.
    fn now(self, file: &mut fs::File) -> io::Result<Self> {
        let found = file.metadata()?;
        let (inode, bytes) = (found.ino(), found.len());
        // Another file, or a shorter one, was rewritten by another process.
        let is_same = inode == self.inode && bytes >= self.bytes;
        let known = if is_same { self } else { Self::default() };
        file.seek(SeekFrom::Start(known.bytes))?;
        let mut added = Vec::new();
        file.take(bytes - known.bytes).read_to_end(&mut added)?;
        let lines = known.lines + split(&added).count();
        Ok(Self { inode, bytes, lines })
    }
}

/// Returns the end of a file, from the beginning of a line on: as much as a file
/// may have, and what a message more than that takes.
fn last_lines(file: &mut fs::File) -> io::Result<Vec<u8>> {
    let len = file.metadata()?.len();
    let from = len.saturating_sub(MOST_FILE_BYTES);
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(2 * MOST_FILE_BYTES).read_to_end(&mut bytes)?;
    if from > 0 {
        let begun = bytes.iter().position(|&byte| byte == b'\n').map_or(bytes.len(), |end| end + 1);
        bytes.drain(..begun);
    }
    Ok(bytes)
}

fn split(lines: &[u8]) -> impl Iterator<Item = &[u8]> {
    lines.split(|&byte| byte == b'\n').filter(|line| !line.is_empty())
}

/// Returns the newest lines that are messages, as they are: as many as are kept.
fn newest(lines: &[u8]) -> VecDeque<&[u8]> {
    let mut kept = VecDeque::new();
    let mut bytes = 0;
    let messages: Vec<_> =
        split(lines).filter(|line| history::decode_entry(line).is_some()).collect();
    for line in messages.into_iter().rev().take(MOST_ENTRIES) {
        bytes += line.len();
        if bytes > MOST_BYTES && !kept.is_empty() {
            break;
        }
        kept.push_front(line);
    }
    kept
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
