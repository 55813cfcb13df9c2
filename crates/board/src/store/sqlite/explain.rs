//! What errors of the database mean to whoever uses a board.

use std::path::Path;

use super::connect::BUSY_TIMEOUT;
use crate::Error;

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
pub(super) fn is_busy(error: &sqlx::Error) -> bool {
    code(error).is_some_and(|code| matches!(code & code::PRIMARY, code::BUSY | code::PROTOCOL))
}

/// Says what an error of the database means.
pub(super) fn explain(path: &Path, error: sqlx::Error) -> Error {
    let path = path.to_owned();
    let Some(code) = code(&error) else { return Error::Database { path, source: error } };
    let said = error.as_database_error().map(|error| error.message().to_owned());
    let said = said.unwrap_or_default();
    match (code, code & code::PRIMARY) {
        (code::IOERR_SHMSIZE, _) | (_, code::FULL) => Error::Full { path },
        (_, code::CORRUPT | code::NOTADB) => Error::Damaged { path, detail: said },
        (_, code::BUSY | code::PROTOCOL) => Error::Contended { path, waited: BUSY_TIMEOUT },
        (_, code::PERM | code::READONLY | code::CANTOPEN | code::IOERR) => {
            Error::Access { path, reason: said }
        }
        _ => Error::Database { path, source: error },
    }
}
