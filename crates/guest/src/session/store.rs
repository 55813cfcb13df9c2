//! Sessions on disk.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use minicbor::{Decode, Encode};

use super::saved::SavedSession;
use crate::state_file;

/// The version of the file that this program writes.
const VERSION: u32 = 1;

/// The head of every session file, whatever its version.
#[derive(Encode, Decode)]
#[cbor(map)]
struct Head {
    #[n(0)]
    version: u32,
}

/// A session file of this version.
#[derive(Encode, Decode)]
#[cbor(map)]
struct Body<T> {
    #[n(0)]
    version: u32,
    #[n(1)]
    session: T,
}

/// A session file that cannot be used.
#[derive(Debug, thiserror::Error)]
enum StoreError {
    #[error("session file has version {found}, newer than {VERSION}, which this program knows")]
    Newer { found: u32 },
    #[error("session file is damaged: {0}")]
    Damaged(#[from] minicbor::decode::Error),
}

impl From<StoreError> for io::Error {
    fn from(error: StoreError) -> Self {
        Self::new(io::ErrorKind::InvalidData, error)
    }
}

impl SavedSession {
    /// Reads a session. `None`: there is no such file. A file of a newer
    /// version or a damaged one is an error and left as it is.
    pub fn load(path: &Path) -> io::Result<Option<Self>> {
        Self::read(state_file::open_to_read(path))
    }

    /// Reads a session from its file, as [`SavedSession::load`] does.
    pub(crate) fn read(file: io::Result<File>) -> io::Result<Option<Self>> {
        match file {
            Ok(mut file) => {
                let mut bytes = Vec::new();
                file.read_to_end(&mut bytes)?;
                Ok(Some(parse(&bytes)?))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes a session, unless the file holds that very state. Whenever this is
    /// cut short, the file holds either the old or the new state.
    pub fn store(&self, path: &Path) -> io::Result<()> {
        let bytes =
            minicbor::to_vec(Body { version: VERSION, session: self }).map_err(io::Error::other)?;
        // Most commands change nothing, and to replace a file takes a file
        // system many times longer than to read it.
        if holds(path, &bytes) {
            return Ok(());
        }
        let temporary = temporary_beside(path);
        let written = write_new(&temporary, &bytes).and_then(|()| {
            state_file::clear(path)?;
            fs::rename(&temporary, path)
        });
        if written.is_err() {
            // The error that counts is the first one.
            drop(fs::remove_file(&temporary));
        }
        written
    }
}

fn parse(bytes: &[u8]) -> Result<SavedSession, StoreError> {
    let Head { version } = minicbor::decode(bytes)?;
    if version > VERSION {
        return Err(StoreError::Newer { found: version });
    }
    let Body { session, .. } = minicbor::decode(bytes)?;
    Ok(session)
}

/// Tells whether a file is there and has just this content.
fn holds(path: &Path, bytes: &[u8]) -> bool {
    let same = || -> io::Result<bool> {
        let mut file = state_file::open_to_read(path)?;
        if file.metadata()?.len() != bytes.len() as u64 {
            return Ok(false);
        }
        let mut content = Vec::with_capacity(bytes.len() + 1);
        file.read_to_end(&mut content)?;
        Ok(content == bytes)
    };
    // A file that cannot be read is replaced.
    same().unwrap_or(false)
}

/// One writer at a time is the rule for a session's file, so that the name need
/// not be unique, and a leftover of a crash is simply written over.
fn temporary_beside(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".new");
    PathBuf::from(name)
}

fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = state_file::make(path, OpenOptions::new().write(true).truncate(true))?;
    file.write_all(bytes)
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
