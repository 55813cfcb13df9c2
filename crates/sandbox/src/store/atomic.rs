//! Files that are replaced by rename and carry a version, and the removal of trees.

use std::ffi::{CStr, CString};
use std::fs;
use std::fs::{File, OpenOptions};
use std::io;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RawDir, fstat, openat, unlinkat};
use rustix::io::Errno;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::StoreError;
use crate::key::random_hex;

/// Largest file of ours that is worth reading; beyond it something is wrong.
const MAX_FILE: u64 = 4 << 20;

/// The beginning of every file: enough to know whether to read on.
#[derive(serde::Deserialize)]
struct Envelope {
    version: u64,
}

/// Reads a file that was written by [`write_versioned`]; absent is `None`.
pub(crate) fn read_versioned<T: DeserializeOwned>(
    path: &Path,
    known: u64,
) -> Result<Option<T>, StoreError> {
    match read_regular(path) {
        Ok(bytes) => parse_versioned(path, &bytes, known).map(Some),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(StoreError::io("read", path, error)),
    }
}

/// Parses what was read from a file that was written by [`write_versioned`].
pub(super) fn parse_versioned<T: DeserializeOwned>(
    path: &Path,
    bytes: &[u8],
    known: u64,
) -> Result<T, StoreError> {
    let damaged = |error: serde_json::Error| StoreError::Damaged {
        path: path.into(),
        reason: error.to_string(),
    };
    let Envelope { version } = serde_json::from_slice(bytes).map_err(damaged)?;
    if version > known {
        return Err(StoreError::Newer { path: path.into(), found: version, known });
    }
    serde_json::from_slice(bytes).map_err(damaged)
}

/// Replaces a file by rename. The value's first field must be its version.
pub(crate) fn write_versioned<T: Serialize>(path: &Path, value: &T) -> Result<(), StoreError> {
    let mut bytes = serde_json::to_vec_pretty(value)
        .map_err(|error| StoreError::Damaged { path: path.into(), reason: error.to_string() })?;
    bytes.push(b'\n');
    replace(path, &bytes).map_err(|error| StoreError::io("write", path, error))
}

/// Reads a file of ours, as far as it can be one: whatever has its place is
/// neither followed nor waited for.
pub(crate) fn read_regular(path: &Path) -> std::io::Result<Vec<u8>> {
    read_open(&open_regular(path)?)
}

/// Opens a file of ours as [`read_regular`] does.
pub(super) fn open_regular(path: &Path) -> std::io::Result<File> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(std::io::Error::other("it is not a file"))
    }
}

/// Reads a file that was just opened.
pub(super) fn read_open(file: &File) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(MAX_FILE).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Replaces a file by rename.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let temporary = path.with_extension(format!("{}.tmp", random_hex::<6>()?));
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&temporary)
        .and_then(|mut file| {
            file.write_all(bytes)?;
            // After a power cut the name must not point at an empty file.
            file.sync_data()
        })
        .and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        // The failure to report is the first one; a leftover is swept later.
        fs::remove_file(&temporary).ok();
    }
    written
}

/// Directories that are held open on the way down.
const HELD: usize = 32;

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Removes a tree without following symbolic links; absent is fine.
pub(crate) fn remove_tree(path: &Path) -> Result<(), StoreError> {
    match remove(path) {
        Ok(()) => Ok(()),
        Err(error) => Err(StoreError::io("remove", path, io::Error::from(error))),
    }
}

fn remove(path: &Path) -> Result<(), Errno> {
    let top = match openat(CWD, path, DIRECTORY, Mode::empty()) {
        Ok(top) => top,
        Err(Errno::NOENT) => return Ok(()),
        // A link, or a file: not what is in it.
        Err(Errno::LOOP | Errno::NOTDIR) => return unlinkat(CWD, path, AtFlags::empty()),
        // Somebody else's empty directory can go without being looked into.
        Err(error) => return unlinkat(CWD, path, AtFlags::REMOVEDIR).map_err(|_| error),
    };
    empty(top)?;
    match unlinkat(CWD, path, AtFlags::REMOVEDIR) {
        Err(Errno::NOENT) => Ok(()),
        other => other,
    }
}

/// A directory on the way down.
struct TreeLevel {
    /// Itself, unless it is too far up to be held.
    held: Option<OwnedFd>,
    identity: (u64, u64),
    /// Its name in the one above.
    name: CString,
    /// The directories in it that are still there.
    below: Vec<CString>,
}

/// Removes everything in a directory.
fn empty(top: OwnedFd) -> Result<(), Errno> {
    let mut levels = vec![TreeLevel::enter(top, CString::default())?];
    while let Some(level) = levels.last_mut() {
        if let Some(name) = level.below.pop() {
            let here = level.here()?;
            match openat(here, &*name, DIRECTORY, Mode::empty()) {
                Ok(below) => levels.push(TreeLevel::enter(below, name)?),
                Err(Errno::NOENT) => {}
                Err(error) => {
                    unlinkat(here, &*name, AtFlags::REMOVEDIR).map_err(|_| error)?;
                }
            }
            if let Some(far) = levels.len().checked_sub(HELD + 1) {
                levels[far].held = None;
            }
            continue;
        }
        let Some(left) = levels.pop() else { break };
        let Some(above) = levels.last_mut() else { break };
        if above.held.is_none() {
            let up = openat(left.here()?, c"..", DIRECTORY, Mode::empty())?;
            if identity(&up)? != above.identity {
                return Err(Errno::STALE);
            }
            above.held = Some(up);
        }
        match unlinkat(above.here()?, &*left.name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

impl TreeLevel {
    /// Removes all in a directory but directories, which are noted.
    fn enter(directory: OwnedFd, name: CString) -> Result<Self, Errno> {
        let mut below = Vec::new();
        let mut buffer = Vec::with_capacity(32 << 10);
        let mut entries = RawDir::new(&directory, buffer.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            let entry = match entry {
                // Somebody else has removed this directory. What is above it stays to
                // be removed, so that is no end.
                Err(Errno::NOENT) => break,
                other => other?,
            };
            let name: &CStr = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            if entry.file_type() == FileType::Directory {
                below.push(name.to_owned());
                continue;
            }
            match unlinkat(&directory, name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(Errno::ISDIR) => below.push(name.to_owned()),
                Err(error) => return Err(error),
            }
        }
        let identity = identity(&directory)?;
        Ok(Self { held: Some(directory), identity, name, below })
    }

    fn here(&self) -> Result<&OwnedFd, Errno> {
        self.held.as_ref().ok_or(Errno::STALE)
    }
}

fn identity(directory: &OwnedFd) -> Result<(u64, u64), Errno> {
    let stat = fstat(directory)?;
    Ok((stat.st_dev, stat.st_ino))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Note {
        version: u64,
        text: String,
    }

    #[test]
    fn what_was_written_is_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("note.json");
        assert_eq!(read_versioned::<Note>(&path, 1).unwrap(), None);
        let note = Note { version: 1, text: "x".into() };
        write_versioned(&path, &note).unwrap();
        assert_eq!(read_versioned::<Note>(&path, 1).unwrap(), Some(note));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no temporary file stays");
    }

    #[test]
    fn a_newer_file_is_refused_and_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("note.json");
        fs::write(&path, r#"{"version": 2, "shape": "unknown"}"#).unwrap();
        assert!(matches!(
            read_versioned::<Note>(&path, 1),
            Err(StoreError::Newer { found: 2, known: 1, .. })
        ));
        assert_eq!(fs::read_to_string(&path).unwrap(), r#"{"version": 2, "shape": "unknown"}"#);
    }

    #[test]
    fn garbage_is_called_damaged() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("note.json");
        for garbage in [&b"\xff\xfe"[..], b"{", b"", b"[]"] {
            fs::write(&path, garbage).unwrap();
            assert!(matches!(read_versioned::<Note>(&path, 1), Err(StoreError::Damaged { .. })));
        }
    }

    /// Makes directories in each other, with a file in each.
    fn nest(top: &Path, depth: usize) {
        let mut here = openat(CWD, top, DIRECTORY, Mode::empty()).unwrap();
        for _ in 0..depth {
            rustix::fs::mkdirat(&here, c"d", Mode::RWXU).unwrap();
            rustix::fs::mkdirat(&here, c"e", Mode::RWXU).unwrap();
            let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
            openat(&here, c"f", flags, Mode::RUSR).unwrap();
            here = openat(&here, c"d", DIRECTORY, Mode::empty()).unwrap();
        }
    }

    #[test]
    fn a_directory_that_somebody_else_removes_meanwhile_is_no_end() {
        let root = tempfile::tempdir().unwrap();
        let gone = root.path().join("gone");
        fs::create_dir(&gone).unwrap();
        let held = openat(CWD, &gone, DIRECTORY, Mode::empty()).unwrap();
        fs::remove_dir(&gone).unwrap();
        assert!(TreeLevel::enter(held, CString::default()).unwrap().below.is_empty());
    }

    #[test]
    fn a_tree_deeper_than_files_may_be_open_is_removed() {
        let root = tempfile::tempdir().unwrap();
        let (tree, elsewhere) = (root.path().join("tree"), root.path().join("elsewhere"));
        fs::create_dir(&tree).unwrap();
        fs::create_dir(&elsewhere).unwrap();
        fs::write(elsewhere.join("kept"), "").unwrap();
        std::os::unix::fs::symlink(&elsewhere, tree.join("link")).unwrap();
        nest(&tree, 4_000);
        remove_tree(&tree).unwrap();
        assert!(!tree.exists());
        assert!(elsewhere.join("kept").exists(), "no link is followed");
        remove_tree(&tree).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &tree).unwrap();
        remove_tree(&tree).unwrap();
        assert!(elsewhere.join("kept").exists() && !tree.is_symlink());
    }
}
