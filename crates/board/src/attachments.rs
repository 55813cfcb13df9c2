//! Files of tasks: their names, and their bytes on this host.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::io::{ErrorKind, Read, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use crate::id::TaskId;
use crate::{Board, Error, Result};

/// The largest file, in bytes.
pub const MAX_ATTACHMENT: u64 = 25 << 20;

/// The directory of all files of a board.
const DIRECTORY: &str = "attachments";
/// How often a directory is made that somebody else removes.
const ATTEMPTS: u32 = 20;
/// Bytes that are copied at once.
const CHUNK: usize = 128 << 10;

/// Where the bytes of a new file come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A regular file of this host.
    File(PathBuf),
    /// These.
    Bytes(Vec<u8>),
}

/// Bytes that are safely on the disk, and that no task knows of yet. They go
/// again unless they are kept.
#[derive(Debug)]
pub(crate) struct Stored {
    path: PathBuf,
    /// Below the directory of all files.
    pub(crate) name: String,
    /// How many there are.
    pub(crate) size: u64,
    kept: bool,
}

impl Stored {
    /// Leaves them where they are: a task knows of them now.
    pub(crate) fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for Stored {
    fn drop(&mut self) {
        if !self.kept {
            // What stays is collected later, as after a crash.
            fs::remove_file(&self.path).ok();
        }
    }
}

/// Returns where the bytes of a file of a task are. Whatever the name says, it
/// is in the task's own directory.
pub(crate) fn path_of(board: &Path, task: &TaskId, stored_as: &str) -> PathBuf {
    let leaf = Path::new(stored_as).file_name().unwrap_or_else(|| "none".as_ref());
    board.join(DIRECTORY).join(task.as_str()).join(leaf)
}

/// Puts bytes on the disk for a task, and sees that they are there to stay.
pub(crate) async fn take_in(board: &Board, task: &TaskId, source: Source) -> Result<Stored> {
    let dir = board.dir().join(DIRECTORY).join(task.as_str());
    let random = getrandom::u64().map_err(io::Error::other).map_err(Error::Name)?;
    let leaf = format!("{random:016x}");
    let path = dir.join(&leaf);
    let name = format!("{task}/{leaf}");
    let copied = tokio::task::spawn_blocking(move || {
        let mut stored = Stored { path, name, size: 0, kept: false };
        stored.size = match source {
            Source::File(source) => {
                let about = format!("the file {}", source.display());
                let file = open(&source, &about)?;
                copy(file, &dir, &stored.path, &about)?
            }
            Source::Bytes(bytes) => copy(bytes.as_slice(), &dir, &stored.path, "the file")?,
        };
        Ok(stored)
    });
    copied.await.map_err(|error| Error::Io {
        action: "copy to",
        path: board.dir().join(DIRECTORY),
        source: io::Error::other(error),
    })?
}

/// Opens a regular file. A link, a pipe or a device is refused: what is behind
/// it need not be what whoever named it believes, and may never end.
fn open(path: &Path, about: &str) -> Result<File> {
    let failed = |source| Error::Io { action: "read", path: path.to_owned(), source };
    let refuse =
        || Error::Invalid { what: about.to_owned(), reason: "is not a regular file".to_owned() };
    // Opening a pipe must not wait for its other end.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(rustix::io::Errno::LOOP | rustix::io::Errno::NXIO) => return Err(refuse()),
        Err(error) => return Err(failed(error.into())),
    };
    if file.metadata().map_err(failed)?.is_file() { Ok(file) } else { Err(refuse()) }
}

/// Makes a file, and its directory. Whoever takes the last file from a task
/// removes the directory, perhaps between the two.
fn make(dir: &Path, path: &Path) -> io::Result<File> {
    let mut attempts = 0;
    loop {
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound && attempts < ATTEMPTS => {
                attempts += 1;
            }
            opened => return opened,
        }
    }
}

fn copy(source: impl Read, dir: &Path, path: &Path, about: &str) -> Result<u64> {
    let failed = |error: io::Error| match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            vestal_database::Error::Full { path: path.to_owned() }.into()
        }
        _ => Error::Io { action: "write", path: path.to_owned(), source: error },
    };
    let mut file = make(dir, path).map_err(failed)?;
    // One byte more than is allowed is enough to know; no size is believed.
    let mut source = source.take(MAX_ATTACHMENT + 1);
    let mut chunk = vec![0; CHUNK];
    let mut size = 0;
    loop {
        let count = match source.read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => {
                let reason = format!("cannot be read: {error}");
                return Err(Error::Invalid { what: about.to_owned(), reason });
            }
        };
        size += count as u64;
        if size > MAX_ATTACHMENT {
            let reason = format!("is larger than {} MiB", MAX_ATTACHMENT >> 20);
            return Err(Error::Invalid { what: about.to_owned(), reason });
        }
        file.write_all(chunk.get(..count).unwrap_or_default()).map_err(failed)?;
    }
    file.sync_all().map_err(failed)?;
    // The names, too, must survive: the task's directory may be new.
    for dir in [Some(dir), dir.parent()].into_iter().flatten() {
        File::open(dir).and_then(|dir| dir.sync_all()).map_err(failed)?;
    }
    Ok(size)
}

/// The longest name, in bytes; so it has no more characters either, and every
/// filesystem takes it.
const MAX_NAME: usize = 200;
/// The longest ending that is kept when a name is cut.
const MAX_ENDING: usize = 20;
/// The longest type.
const MAX_TYPE: usize = 127;

/// Returns the last part of a name, without what does harm in names of files: no
/// control characters, none that turn the direction of text, no dots in front.
pub(crate) fn safe_name(given: &str) -> String {
    let leaf = given.rsplit(['/', '\\']).find(|part| !part.trim().is_empty()).unwrap_or_default();
    let clean: String = leaf.chars().filter(|letter| !is_harmful(*letter)).collect();
    let clean = clean.trim().trim_start_matches(|c: char| c == '.' || c.is_whitespace()).trim();
    if clean.is_empty() { "file".to_owned() } else { with_suffix(clean, "") }
}

fn is_harmful(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}')
}

/// Returns the name, with a number where others have it.
pub(crate) fn unique_name(name: &str, taken: &[&str]) -> String {
    let free = |name: &String| !taken.contains(&name.as_str());
    let numbered = (1_usize..).map(|number| with_suffix(name, &format!(" ({number})")));
    let mut names = std::iter::once(name.to_owned()).chain(numbered);
    // One of more names than are taken is free.
    names.find(free).unwrap_or_else(|| name.to_owned())
}

/// Puts something between a name and its ending, and cuts the name to fit.
fn with_suffix(name: &str, suffix: &str) -> String {
    let (stem, ending) = match name.rfind('.') {
        Some(at) if at > 0 && name.len() - at <= MAX_ENDING => name.split_at(at),
        _ => (name, ""),
    };
    let room = MAX_NAME - suffix.len() - ending.len();
    let stem = &stem[..stem.floor_char_boundary(room)];
    format!("{stem}{suffix}{ending}")
}

/// Takes what is said to be in a file: `type/subtype`.
pub(crate) fn content_type(given: Option<&str>) -> Result<Option<String>> {
    let Some(given) = given.map(str::trim).filter(|given| !given.is_empty()) else {
        return Ok(None);
    };
    let printable = given.bytes().all(|byte| (0x20..0x7f).contains(&byte));
    let parts = given.split(';').next().and_then(|own| own.trim().split_once('/'));
    let word = |word: &str| {
        !word.is_empty()
            && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$&^_.+-".contains(&byte))
    };
    let valid = given.len() <= MAX_TYPE
        && printable
        && parts.is_some_and(|(kind, subtype)| word(kind) && word(subtype));
    if valid {
        return Ok(Some(given.to_owned()));
    }
    Err(Error::Invalid {
        what: "the content type".to_owned(),
        reason: "is none; they look like text/plain".to_owned(),
    })
}

#[cfg(test)]
#[path = "attachments_tests.rs"]
mod tests;
