//! Files that are either the old or the new one, never a mix.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

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

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

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
}
