//! How a connection to the file is set up.

use std::path::Path;

use rustix::fs::{Access, access};
use sqlx::ConnectOptions as _;
use sqlx::sqlite::{SqliteConnectOptions, SqliteSynchronous};
use vestal_database::BUSY_TIMEOUT;

use super::store::Durability;

/// What the log of writes is cut back to once it is in the file.
const WAL_BYTES: &str = "16777216";

/// Pages of the log after which it is put into the file: so many that this costs
/// little, as pages that were written again and again go there once.
const WAL_PAGES: &str = "4000";

/// Statements that are kept prepared: more than there are.
const STATEMENTS: usize = 256;

/// Memory for pages, in KiB with a minus, as the database wants it.
const CACHE: &str = "-8192";

fn options(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(false)
        .foreign_keys(true)
        .busy_timeout(BUSY_TIMEOUT)
        .statement_cache_capacity(STATEMENTS)
        .pragma("cache_size", CACHE)
        // Statements would tell the log what people work on.
        .disable_statement_logging()
}

/// Returns how the one writer of a process connects.
pub(super) fn writer(path: &Path, durability: Durability) -> SqliteConnectOptions {
    // With a write-ahead log, `FULL` syncs the log with each commit, `NORMAL`
    // when the log is put into the file.
    let synchronous = match durability {
        Durability::Full => SqliteSynchronous::Full,
        Durability::Normal => SqliteSynchronous::Normal,
    };
    options(path)
        .synchronous(synchronous)
        .pragma("journal_size_limit", WAL_BYTES)
        .pragma("wal_autocheckpoint", WAL_PAGES)
}

/// Returns how a reader connects. It cannot change the file, not even by
/// closing it.
pub(super) fn reader(path: &Path) -> SqliteConnectOptions {
    let options = options(path).read_only(true);
    if is_at_rest(path) { options.immutable(true) } else { options }
}

/// Reports whether a file can only be read as it is: nobody can put a log beside it, and there is
/// none with anything in it. Even a reader wants to make the log's index otherwise, and fails.
pub(super) fn is_at_rest(path: &Path) -> bool {
    let Some(dir) = path.parent() else { return false };
    if access(dir, Access::WRITE_OK).is_ok() {
        return false;
    }
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    std::fs::metadata(log).map_or(true, |log| log.len() == 0)
}
