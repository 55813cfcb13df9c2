//! What errors of a database mean to people.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long the database itself waits for another connection.
pub const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// Why a file could not be used. What was asked for did not happen.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file was written by a later version of this program.
    #[error(
        "{} has version {found}, and this program knows versions up to {supported}; nothing was changed; use a newer vestal",
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
    /// The file is a database of something else.
    #[error("{} is a database of something else; nothing was changed; move it away", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The file is no database, or a broken one.
    #[error(
        "{} is damaged: {detail}; nothing was changed; move it away, with the files -wal and -shm beside it, or bring back a copy",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        detail: String,
    },
    /// There is no room to write.
    #[error("the disk of {} is full; nothing was written; make room and try again", path.display())]
    Full {
        /// The file.
        path: PathBuf,
    },
    /// Other processes wrote without a pause.
    #[error("{} was in use by others for over {} s", path.display(), waited.as_secs())]
    Contended {
        /// The file.
        path: PathBuf,
        /// How long this process waited.
        waited: Duration,
    },
    /// A process that is stopped has begun to write and not ended it.
    #[error(
        "{} is held by process {pid}, which is stopped; let it go on (kill -CONT {pid}), or end it",
        path.display()
    )]
    Stopped {
        /// The file.
        path: PathBuf,
        /// The process.
        pid: u32,
    },
    /// The system does not let this process at the file.
    #[error("cannot use {}: {reason}", path.display())]
    Access {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The file, or its directory, could not be made or looked at.
    #[error("cannot use {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The database refused for another reason.
    #[error("{} failed: {source}", path.display())]
    Refused {
        /// The file.
        path: PathBuf,
        /// Why.
        source: sqlx::Error,
    },
}

/// Result codes of the database that mean something to a user.
mod code {
    pub(super) const PERM: i32 = 3;
    pub(super) const BUSY: i32 = 5;
    pub(super) const READONLY: i32 = 8;
    pub(super) const IOERR: i32 = 10;
    /// The file of shared memory could not grow.
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

/// Reports whether another connection stood in the way for a moment.
pub fn is_busy(error: &sqlx::Error) -> bool {
    code(error).is_some_and(|code| matches!(code & code::PRIMARY, code::BUSY | code::PROTOCOL))
}

/// Says what an error of the database means.
pub fn explain(path: &Path, error: sqlx::Error) -> Error {
    let path = path.to_owned();
    let Some(code) = code(&error) else { return Error::Refused { path, source: error } };
    let said = error.as_database_error().map(|error| error.message().to_owned());
    let said = said.unwrap_or_default();
    match (code, code & code::PRIMARY) {
        (code::IOERR_SHMSIZE, _) | (_, code::FULL) => Error::Full { path },
        (_, code::CORRUPT | code::NOTADB) => Error::Damaged { path, detail: said },
        (_, code::BUSY | code::PROTOCOL) => Error::Contended { path, waited: BUSY_TIMEOUT },
        (_, code::PERM | code::READONLY | code::CANTOPEN | code::IOERR) => {
            Error::Access { path, reason: said }
        }
        _ => Error::Refused { path, source: error },
    }
}
