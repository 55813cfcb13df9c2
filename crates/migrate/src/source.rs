//! The other home: reading what is in it without following a link and without changing it.

use std::fs::{self, File};
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use crate::error::MigrateError;

/// The largest text that is read whole.
pub(crate) const MOST_TEXT: u64 = 4 << 20;

/// What tells that a directory is a home.
const SIGNS: [&str; 6] =
    ["config.yaml", "state.db", "SOUL.md", "profiles", "memories", "kanban.db"];

/// Why something of the other home cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unreadable {
    #[error("it is a link, and links are not followed")]
    Link,
    #[error("it leads out of the home")]
    Outside,
    #[error("it is not a regular file")]
    NotAFile,
    #[error("it is larger than {} MiB", MOST_TEXT >> 20)]
    TooLarge,
    #[error("{0}")]
    Io(#[from] std::io::Error),
}

/// A home, or one of its profiles.
#[derive(Debug, Clone)]
pub(crate) struct SourceHome {
    pub(crate) dir: PathBuf,
    /// Where copies of its files are made; none for the directory of temporary files.
    pub(crate) scratch: Option<PathBuf>,
}

/// What directories with copies begin with.
pub(crate) const COPIES: &str = "vestal-migrate-";

impl SourceHome {
    /// Finds the home. A link to it is followed: the person named it.
    pub(crate) fn find(path: &Path) -> Result<Self, MigrateError> {
        let none = |reason: &str| MigrateError::NoHome {
            path: path.to_owned(),
            reason: reason.to_owned(),
        };
        let dir = match fs::canonicalize(path) {
            Ok(dir) => dir,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(none("there is nothing; name another with --from"));
            }
            Err(error) => return Err(none(&error.to_string())),
        };
        if !dir.is_dir() {
            return Err(none("it is not a directory"));
        }
        if dir.join("home.json").exists() && dir.join("sandboxes").exists() {
            return Err(MigrateError::Own { path: dir });
        }
        if !SIGNS.iter().any(|sign| dir.join(sign).symlink_metadata().is_ok()) {
            return Err(none("nothing in it looks like one; name another with --from"));
        }
        Ok(Self { dir, scratch: None })
    }

    /// Returns the path of something below the home; none where it is not there. Nothing on the way to it,
    /// nor itself, may be a link.
    fn path(&self, name: &str) -> Result<Option<PathBuf>, Unreadable> {
        let mut path = self.dir.clone();
        for part in name.split('/').filter(|part| !part.is_empty()) {
            if matches!(part, "." | "..") {
                return Err(Unreadable::Outside);
            }
            path.push(part);
            match fs::symlink_metadata(&path) {
                Ok(found) if found.is_symlink() => return Err(Unreadable::Link),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Some(path))
    }

    /// Makes a directory for copies, which nobody else can read and which goes with the value.
    pub(crate) fn copies(&self) -> std::io::Result<tempfile::TempDir> {
        let mut builder = tempfile::Builder::new();
        let builder = builder.prefix(COPIES);
        match &self.scratch {
            Some(dir) => builder.tempdir_in(dir),
            None => builder.tempdir(),
        }
    }

    /// Opens a file below the home.
    pub(crate) fn open(&self, name: &str) -> Result<Option<File>, Unreadable> {
        let Some(path) = self.path(name)? else { return Ok(None) };
        // Opening a pipe must not wait for its other end.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match rustix::fs::open(&path, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(rustix::io::Errno::LOOP) => return Err(Unreadable::Link),
            Err(rustix::io::Errno::NOENT) => return Ok(None),
            Err(rustix::io::Errno::NXIO) => return Err(Unreadable::NotAFile),
            Err(error) => return Err(std::io::Error::from(error).into()),
        };
        if file.metadata()?.is_file() { Ok(Some(file)) } else { Err(Unreadable::NotAFile) }
    }

    /// Reads a text. What is not UTF-8 in it is replaced; the flag says so.
    pub(crate) fn text(&self, name: &str) -> Result<Option<(String, bool)>, Unreadable> {
        let Some(file) = self.open(name)? else { return Ok(None) };
        let mut bytes = Vec::new();
        file.take(MOST_TEXT + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > MOST_TEXT {
            return Err(Unreadable::TooLarge);
        }
        Ok(Some(match String::from_utf8(bytes) {
            Ok(text) => (text, false),
            Err(error) => (String::from_utf8_lossy(error.as_bytes()).into_owned(), true),
        }))
    }

    /// Lists a directory below the home by name, with whether each entry is a directory, a file or a
    /// link. One that is not there is empty.
    pub(crate) fn list(&self, name: &str) -> Result<Vec<(String, SourceEntryKind)>, Unreadable> {
        let Some(dir) = self.path(name)? else { return Ok(Vec::new()) };
        if !dir.is_dir() {
            return Err(Unreadable::NotAFile);
        }
        let mut entries = Vec::new();
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            let found = entry.file_type()?;
            let kind = if found.is_symlink() {
                SourceEntryKind::Link
            } else if found.is_dir() {
                SourceEntryKind::Dir
            } else if found.is_file() {
                SourceEntryKind::File
            } else {
                SourceEntryKind::Other
            };
            entries.push((entry.file_name().to_string_lossy().into_owned(), kind));
        }
        entries.sort();
        Ok(entries)
    }

    /// Reports whether something of this name is there, whatever it is.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.dir.join(name).symlink_metadata().is_ok()
    }

    /// Returns the process of the gateway that serves this home, if one seems to run.
    pub(crate) fn gateway(&self) -> Option<u32> {
        let (text, _) = self.text("gateway.pid").ok()??;
        let pid = serde_json::from_str::<serde_json::Value>(text.trim()).ok()?;
        let pid = pid.as_u64().or_else(|| pid.get("pid")?.as_u64())?;
        let pid = u32::try_from(pid).ok()?;
        let command = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let command = String::from_utf8_lossy(&command);
        (command.contains("hermes") || command.contains("gateway")).then_some(pid)
    }
}

/// What an entry of a directory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SourceEntryKind {
    Dir,
    File,
    Link,
    Other,
}
