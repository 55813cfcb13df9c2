//! Files of tasks: adding and removing them, their names, and their bytes on this host.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::io::{ErrorKind, Read, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use async_recursion::async_recursion as boxed;
use rustix::fs::{Mode, OFlags};
use serde_json::json;

use crate::event::Kind;
use crate::id::{Authority, TaskId};
use crate::task::Attachment;
use crate::verbs::limits;
use crate::verbs::transition::{Permit, find, record};
use crate::{Board, Error, Result};

/// The largest file, in bytes.
pub const MAX_ATTACHMENT: u64 = 25 << 20;

/// Files that a task may have.
const MAX_FILES: usize = 100;
/// The directory of all files of a board.
const DIRECTORY: &str = "attachments";
/// How often a directory is made that somebody else removes.
const ATTEMPTS: u32 = 20;
/// Bytes that are copied at once.
const CHUNK: usize = 128 << 10;

/// Where the bytes of a new file come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttachmentSource {
    /// A regular file of this host.
    File(PathBuf),
    /// These.
    Bytes(Vec<u8>),
}

/// A file to be added to a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewAttachment {
    /// Its name; what is not safe in one is left out.
    pub name: String,
    /// What is in it: `type/subtype`.
    pub content_type: Option<String>,
    /// Where its bytes come from.
    pub source: AttachmentSource,
}

impl Board {
    /// Adds a file to a task. A worker may add to its own, while it holds it.
    ///
    /// The bytes are on the disk before the board knows of them, and copied
    /// while nobody waits: a crash in between leaves bytes that belong to no
    /// task, and never a task with a file that is not there.
    #[boxed]
    pub async fn attach(
        &self,
        by: &Authority,
        id: &TaskId,
        new: NewAttachment,
    ) -> Result<Attachment> {
        let content_type = content_type(new.content_type.as_deref())?;
        let name = safe_name(&new.name);
        let author = limits::name("the author", by.name())?;
        let permit = Permit::Holder("attach to");
        // What is going to be refused need not be copied.
        let mut tx = self.read().await?;
        permit.check(by, &find(&mut *tx, id).await?)?;
        let count = tx.attachments(id).await?.len();
        drop(tx);
        room(id, count)?;
        let stored = take_in(self, id, new.source).await?;

        let mut tx = self.write().await?;
        permit.check(by, &find(&mut *tx, id).await?)?;
        let others = tx.attachments(id).await?;
        room(id, others.len())?;
        let taken: Vec<&str> = others.iter().map(|other| other.filename.as_str()).collect();
        let mut attachment = Attachment {
            id: 0,
            task_id: id.clone(),
            filename: unique_name(&name, &taken),
            stored_as: stored.name.clone(),
            host: self.host().name.clone(),
            content_type,
            size: stored.size,
            uploaded_by: author.clone(),
            created_at: tx.now(),
        };
        attachment.id = tx.add_attachment(&attachment).await?;
        let payload =
            json!({ "filename": attachment.filename, "size": attachment.size, "by": author });
        let run = by.fence().map(|fence| fence.run);
        record(&mut *tx, id, run, Kind::Attached, payload).await?;
        // Whether a commit that failed took effect is not always known, and
        // bytes too many do no harm.
        stored.keep();
        tx.commit().await?;
        Ok(attachment)
    }

    /// Takes a file from its task. A worker may take from its own, while it
    /// holds it.
    ///
    /// The board forgets the file before its bytes go; those that another host
    /// has, or that a crash left, are collected there later.
    #[boxed]
    pub async fn detach(&self, by: &Authority, number: i64) -> Result<()> {
        let mut tx = self.write().await?;
        let Some(attachment) = tx.attachment(number).await? else {
            let what = format!("attachment {number}");
            return Err(Error::Invalid { what, reason: "does not exist".to_owned() });
        };
        let task = find(&mut *tx, &attachment.task_id).await?;
        Permit::Holder("detach from").check(by, &task)?;
        tx.remove_attachment(number).await?;
        let run = by.fence().map(|fence| fence.run);
        let payload = json!({ "filename": attachment.filename, "by": by.name() });
        record(&mut *tx, &task.id, run, Kind::AttachmentRemoved, payload).await?;
        tx.commit().await?;
        if attachment.host == self.host().name {
            let path = self.attachment_path(&attachment);
            remove_file(&path);
            // The last file of a task leaves an empty directory, others do not.
            path.parent().map(fs::remove_dir);
        }
        Ok(())
    }

    /// Returns where the bytes of a file are, on the host that has them.
    pub fn attachment_path(&self, attachment: &Attachment) -> PathBuf {
        path_of(self.dir(), &attachment.task_id, &attachment.stored_as)
    }
}

fn room(id: &TaskId, count: usize) -> Result<()> {
    if count < MAX_FILES {
        return Ok(());
    }
    let (what, reason) = (format!("task {id}"), format!("has {count} files, and may have no more"));
    Err(Error::Invalid { what, reason })
}

/// Removes a file of a task that is gone. What stays, is on another host, or is
/// left by a crash at this moment, belongs to no task and is collected later.
pub(crate) fn remove_file(path: &Path) {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            tracing::warn!(%error, path = %path.display(), "cannot be removed now");
        }
        _ => {}
    }
}

/// Bytes that are safely on the disk, and that no task knows of yet. They go
/// again unless they are kept.
#[derive(Debug)]
struct StoredFile {
    path: PathBuf,
    /// Below the directory of all files.
    name: String,
    /// How many there are.
    size: u64,
    kept: bool,
}

impl StoredFile {
    /// Leaves them where they are: a task knows of them now.
    fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for StoredFile {
    fn drop(&mut self) {
        if !self.kept {
            // What stays is collected later, as after a crash.
            fs::remove_file(&self.path).ok();
        }
    }
}

/// Returns where the bytes of a file of a task are. Whatever the name says, it
/// is in the task's own directory.
fn path_of(board: &Path, task: &TaskId, stored_as: &str) -> PathBuf {
    let leaf = Path::new(stored_as).file_name().unwrap_or_else(|| "none".as_ref());
    board.join(DIRECTORY).join(task.as_str()).join(leaf)
}

/// Puts bytes on the disk for a task, and sees that they are there to stay.
async fn take_in(board: &Board, task: &TaskId, source: AttachmentSource) -> Result<StoredFile> {
    let dir = board.dir().join(DIRECTORY).join(task.as_str());
    let random = getrandom::u64().map_err(io::Error::other).map_err(Error::Name)?;
    let leaf = format!("{random:016x}");
    let path = dir.join(&leaf);
    let name = format!("{task}/{leaf}");
    let copied = tokio::task::spawn_blocking(move || {
        let mut stored = StoredFile { path, name, size: 0, kept: false };
        stored.size = match source {
            AttachmentSource::File(source) => {
                let about = format!("the file {}", source.display());
                let file = open(&source, &about)?;
                copy(file, &dir, &stored.path, &about)?
            }
            AttachmentSource::Bytes(bytes) => {
                copy(bytes.as_slice(), &dir, &stored.path, "the file")?
            }
        };
        Ok(stored)
    });
    copied.await.map_err(|error| Error::Io {
        action: "copy to",
        path: board.dir().join(DIRECTORY),
        source: io::Error::other(error),
    })?
}

/// Opens a regular file. A link, a pipe or a device is refused: it may
/// lead to something that the caller did not mean, and may never end.
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

/// Makes a file, and its directory. The process that takes the last file from a
/// task removes the directory, perhaps between the two.
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
fn safe_name(given: &str) -> String {
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
fn unique_name(name: &str, taken: &[&str]) -> String {
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

/// Reads a media type: `type/subtype`.
fn content_type(given: Option<&str>) -> Result<Option<String>> {
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
        reason: "is not a media type such as text/plain".to_owned(),
    })
}

#[cfg(test)]
#[path = "attachments_tests.rs"]
mod tests;
