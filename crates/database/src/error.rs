//! Errors of a database.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::BUSY_TIMEOUT;

/// Why a file could not be used. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file was written by a later version of this program.
    #[error(
        "{} has version {found}; this program supports versions up to {supported}; nothing was changed; use a newer vestal",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: i64,
        /// The latest version this program knows.
        supported: i64,
    },
    /// The file is a database of another program.
    #[error("{} is a database of another program; nothing was changed; move it away", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The file is not a database, or is damaged.
    #[error(
        "{} is damaged: {detail}; nothing was changed; move it away together with its -wal and -shm files, or restore a copy",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        detail: String,
    },
    /// The disk is full.
    #[error("the disk of {} is full; nothing was written; free some space and try again", path.display())]
    Full {
        /// The file.
        path: PathBuf,
    },
    /// Other processes kept the file locked.
    #[error("{} was locked by other processes for over {} s; try again", path.display(), waited.as_secs())]
    Contended {
        /// The file.
        path: PathBuf,
        /// How long this process waited.
        waited: Duration,
    },
    /// A stopped process holds the write lock.
    #[error(
        "{} is locked by process {pid}, which is stopped; continue it (kill -CONT {pid}) or kill it",
        path.display()
    )]
    Stopped {
        /// The file.
        path: PathBuf,
        /// The process.
        pid: u32,
    },
    /// The system denies access to the file.
    #[error("cannot use {}: {reason}", path.display())]
    Access {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The file or its directory could not be created or read.
    #[error("cannot use {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Any other error of the database.
    #[error("{} failed: {source}", path.display())]
    Refused {
        /// The file.
        path: PathBuf,
        /// Why.
        source: sqlx::Error,
    },
}

impl Error {
    /// Reports whether nothing could be stored because no space is left.
    pub fn is_full(&self) -> bool {
        match self {
            Self::Full { .. } => true,
            Self::Io { source, .. } => source.kind() == io::ErrorKind::StorageFull,
            _ => false,
        }
    }
}

/// Result codes of `SQLite` that are reported to users.
mod code {
    pub(super) const PERM: i32 = 3;
    pub(super) const BUSY: i32 = 5;
    pub(super) const READONLY: i32 = 8;
    pub(super) const IOERR: i32 = 10;
    /// The shared-memory file could not grow.
    pub(super) const IOERR_SHMSIZE: i32 = IOERR | (19 << 8);
    pub(super) const CORRUPT: i32 = 11;
    pub(super) const FULL: i32 = 13;
    pub(super) const CANTOPEN: i32 = 14;
    pub(super) const PROTOCOL: i32 = 15;
    pub(super) const NOTADB: i32 = 26;
    pub(super) const PRIMARY: i32 = 0xff;
}

fn code(error: &sqlx::Error) -> Option<i32> {
    error.as_database_error()?.code()?.parse().ok()
}

/// Reports whether another connection holds a lock.
pub fn is_busy(error: &sqlx::Error) -> bool {
    code(error).is_some_and(|code| matches!(code & code::PRIMARY, code::BUSY | code::PROTOCOL))
}

/// Turns an error of the database into one that says what it means.
pub fn explain(path: &Path, error: sqlx::Error) -> Error {
    let path = path.to_owned();
    let Some(code) = code(&error) else { return Error::Refused { path, source: error } };
    let message = error.as_database_error().map(|error| error.message().to_owned());
    let message = message.unwrap_or_default();
    match (code, code & code::PRIMARY) {
        (code::IOERR_SHMSIZE, _) | (_, code::FULL) => Error::Full { path },
        (_, code::CORRUPT | code::NOTADB) => Error::Damaged { path, detail: message },
        (_, code::BUSY | code::PROTOCOL) => Error::Contended { path, waited: BUSY_TIMEOUT },
        (_, code::PERM | code::READONLY | code::CANTOPEN | code::IOERR) => {
            Error::Access { path, reason: message }
        }
        _ => Error::Refused { path, source: error },
    }
}
