//! Connections to the file.

use std::path::Path;
use std::time::Duration;

use sqlx::ConnectOptions as _;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool, SqlitePoolOptions, SqliteSynchronous};
use vestal_database::BUSY_TIMEOUT;

/// Readers at once; more wait for one of them.
const READERS: u32 = 4;

/// What the log of writes is cut back to once it is in the file.
const WAL_BYTES: &str = "8388608";

fn options(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(false)
        .foreign_keys(true)
        // With a write-ahead log this syncs when the log is put into the file:
        // a power cut may take the last moments, a killed process nothing.
        .synchronous(SqliteSynchronous::Normal)
        .busy_timeout(BUSY_TIMEOUT)
        // Statements would tell the log what people talk about.
        .disable_statement_logging()
}

/// Returns how the one writer of this process connects.
pub(crate) fn writer(path: &Path) -> SqliteConnectOptions {
    options(path).pragma("journal_size_limit", WAL_BYTES)
}

/// Returns the readers; each connects when it is first needed, and stays.
pub(crate) fn readers(path: &Path) -> SqlitePool {
    SqlitePoolOptions::new()
        .max_connections(READERS)
        .idle_timeout(None)
        .max_lifetime(None)
        .test_before_acquire(false)
        .acquire_timeout(Duration::from_mins(1))
        .connect_lazy_with(options(path).read_only(true))
}
