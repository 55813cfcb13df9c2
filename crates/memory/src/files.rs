//! The files of a profile in which notes are kept.

mod change;
mod error;

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, OFlags, flock};
use vestal_agent::redact::Redactor;

use crate::entries::{Entries, NotesTarget, clean};

pub use change::NoteChange;
pub use error::{MemoryError, MemoryFileProblem, MemoryRefusal, ReadError};

/// How many characters notes may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoteLimits {
    /// The agent's own.
    pub memory: usize,
    /// Those about the person.
    pub user: usize,
}

impl NoteLimits {
    /// Returns the limit of a file.
    pub const fn of(&self, target: NotesTarget) -> usize {
        match target {
            NotesTarget::Memory => self.memory,
            NotesTarget::User => self.user,
        }
    }
}

impl Default for NoteLimits {
    fn default() -> Self {
        Self { memory: 2_200, user: 1_375 }
    }
}

/// The files of a profile in which notes are kept. Nothing is held in memory:
/// every call reads what is on the disk now, also what a person wrote there.
#[derive(Debug, Clone)]
pub struct NoteFiles {
    dir: PathBuf,
    lock: PathBuf,
    limits: NoteLimits,
    redactor: Arc<Redactor>,
}

impl NoteFiles {
    /// Returns the files of the profile with this home. What the redactor takes
    /// for a secret is never written into them.
    pub fn of_home(home: &Path, limits: NoteLimits, redactor: Arc<Redactor>) -> Self {
        // The lock is elsewhere, so that the directory holds notes only.
        let (dir, lock) = (home.join("memories"), home.join("run/memories.lock"));
        Self { dir, lock, limits, redactor }
    }

    /// Returns the directory they are in.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the path of a file.
    pub fn path(&self, target: NotesTarget) -> PathBuf {
        self.dir.join(target.file_name())
    }

    /// Returns how many characters a file may have.
    pub fn limit(&self, target: NotesTarget) -> usize {
        self.limits.of(target)
    }

    /// Returns notes as a model reads them: without what nobody sees, and without
    /// secrets that a person wrote.
    pub fn shown(&self, entries: &Entries) -> Vec<String> {
        entries.iter().map(|entry| self.redactor.redact_file(&clean(entry)).into_owned()).collect()
    }

    /// Reports whether a text holds a secret, which would be left out of a note.
    pub fn has_secret(&self, text: &str) -> bool {
        self.redactor.redact_file(text) != text
    }
}

/// Bytes of a file that is read: far more than the highest limit lets it have.
const MOST: u64 = 1 << 20;

impl NoteFiles {
    /// Returns the notes as they are now; a file that is not there has none.
    pub fn read(&self, target: NotesTarget) -> Result<Entries, ReadError> {
        Ok(Entries::parse(&self.read_text(target)?))
    }

    /// Returns the text of a file, for a person to edit.
    pub fn read_text(&self, target: NotesTarget) -> Result<String, ReadError> {
        let path = self.path(target);
        text(&path).map_err(|problem| ReadError { path, problem })
    }
}

fn text(path: &Path) -> Result<String, MemoryFileProblem> {
    // Looked at before it is opened, because opening a pipe waits for a writer.
    match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return match dangling(path) {
                Some(to) => Err(MemoryFileProblem::Dangling(to)),
                None => Ok(String::new()),
            };
        }
        Err(error) => return Err(error.into()),
        Ok(metadata) if !metadata.is_file() => return Err(MemoryFileProblem::NotAFile),
        Ok(_) => {}
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(MOST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST {
        return Err(MemoryFileProblem::TooLarge { limit: MOST });
    }
    String::from_utf8(bytes).map_err(|error| {
        let valid = error.as_bytes().get(..error.utf8_error().valid_up_to()).unwrap_or_default();
        MemoryFileProblem::NotUtf8 { line: valid.split(|byte| *byte == b'\n').count() }
    })
}

/// Returns what is not there though a link leads to it: from the file's own place,
/// or from that of its directory, as when a disk is missing.
fn dangling(path: &Path) -> Option<PathBuf> {
    let links = [Some(path), path.parent()].into_iter().flatten();
    links.filter(|link| !link.exists()).find_map(|link| fs::read_link(link).ok())
}

/// How long another process may take to change notes.
pub(super) const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// The right to change notes, until it is dropped. The kernel takes it back when
/// the process dies, however it does. The file stays: removing it would let two
/// processes hold locks on two files of the same name.
#[must_use = "the lock ends when it is dropped"]
pub(super) struct NotesLock(#[expect(dead_code, reason = "held, not read")] File);

impl NotesLock {
    /// Waits for the lock, but not for ever.
    pub(super) fn take(path: &Path, timeout: Duration) -> Result<Self, MemoryError> {
        let file = open(path).map_err(|source| failed(path, source))?;
        Self::wait(file, path, timeout)
    }

    /// Waits for the directory a file is in. Profiles may share one by a link, and
    /// know nothing of each other's locks. One that is not there is nobody else's.
    pub(super) fn take_dir(dir: &Path, timeout: Duration) -> Result<Option<Self>, MemoryError> {
        match File::open(dir) {
            Ok(file) => Self::wait(file, dir, timeout).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(failed(dir, source)),
        }
    }

    fn wait(file: File, path: &Path, timeout: Duration) -> Result<Self, MemoryError> {
        let began = Instant::now();
        let mut pause = Duration::from_millis(1);
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Self(file)),
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::WOULDBLOCK) if began.elapsed() < timeout => {
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(Duration::from_millis(20));
                }
                Err(rustix::io::Errno::WOULDBLOCK) => {
                    return Err(MemoryError::Busy { lock: path.to_owned(), waited: timeout });
                }
                Err(error) => return Err(failed(path, error.into())),
            }
        }
    }
}

fn failed(lock: &Path, source: io::Error) -> MemoryError {
    MemoryError::Lock { lock: lock.to_owned(), source }
}

fn open(path: &Path) -> io::Result<File> {
    if let Some(dir) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    }
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
        .open(path)
}

/// What came of writing a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WriteResult {
    /// It has the new text.
    Yes,
    /// A program that ignores the lock, such as an editor, saved it meanwhile. It has
    /// their text.
    Overtaken,
}

impl NoteFiles {
    /// Puts a text in the place of the one a file was read with. The lock is held
    /// by the caller.
    pub(super) fn write(
        &self,
        target: NotesTarget,
        from: &str,
        text: &str,
    ) -> Result<WriteResult, MemoryError> {
        let path = self.path(target);
        let failed = |source| MemoryError::Write { path: path.clone(), source };
        self.make_dir().map_err(failed)?;
        let new = PendingFile::write(&self.real(target).map_err(failed)?, text).map_err(failed)?;
        // Looked at again at the last moment: writing to a disk takes its time.
        if self.read_text(target)? != from {
            return Ok(WriteResult::Overtaken);
        }
        new.put_in_place().map_err(failed)?;
        Ok(WriteResult::Yes)
    }

    fn make_dir(&self) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.dir)
    }

    /// Returns the file itself where a person has put a link in its place: what
    /// the link leads to is changed, and the link stays.
    pub(super) fn real(&self, target: NotesTarget) -> io::Result<PathBuf> {
        let missing = |error: &io::Error| error.kind() == ErrorKind::NotFound;
        match fs::canonicalize(self.path(target)) {
            Err(error) if missing(&error) => match fs::canonicalize(&self.dir) {
                Ok(dir) => Ok(dir.join(target.file_name())),
                Err(error) if missing(&error) => Ok(self.path(target)),
                Err(error) => Err(error),
            },
            found => found,
        }
    }
}

/// A text that waits beside a file to take its place, and is gone if it does not.
struct PendingFile {
    dir: File,
    waiting: PathBuf,
    place: PathBuf,
}

impl PendingFile {
    fn write(place: &Path, text: &str) -> io::Result<Self> {
        let (Some(dir), Some(name)) = (place.parent(), place.file_name()) else {
            return Err(io::Error::from(ErrorKind::InvalidInput));
        };
        // A rename would not ask.
        if fs::metadata(place).is_ok_and(|metadata| metadata.permissions().readonly()) {
            return Err(io::Error::new(ErrorKind::PermissionDenied, "it is write-protected"));
        }
        // Under the lock there is one at a time; what a crash left behind goes.
        let waiting = dir.join(format!(".{}.new", name.to_string_lossy()));
        match fs::remove_file(&waiting) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let new = Self { dir: File::open(dir)?, waiting, place: place.to_owned() };
        write_new(&new.waiting, text)?;
        Ok(new)
    }

    fn put_in_place(self) -> io::Result<()> {
        fs::rename(&self.waiting, &self.place)?;
        // It is in place: a disk that cannot promise to keep it takes nothing back.
        if let Err(error) = self.dir.sync_all() {
            tracing::warn!(%error, path = %self.place.display(), "notes may not survive a loss of power");
        }
        Ok(())
    }
}

impl Drop for PendingFile {
    fn drop(&mut self) {
        // Not there any more once it is in place.
        fs::remove_file(&self.waiting).ok();
    }
}

fn write_new(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
#[path = "files_tests.rs"]
mod tests;
