//! Connections to a file, and write transactions.

use std::path::Path;

use sqlx::sqlite::{SqliteConnectOptions, SqliteSynchronous};
use sqlx::{ConnectOptions as _, Executor as _, SqliteConnection};

use crate::{BUSY_TIMEOUT, BusyWait, Result, explain, is_busy};

/// What a commit survives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Durability {
    /// A power loss: each commit is synced to disk before it is reported.
    #[default]
    Full,
    /// The death of every process: a power loss may lose the last moments.
    Normal,
}

fn options(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(false)
        .foreign_keys(true)
        .busy_timeout(BUSY_TIMEOUT)
        // Statements would put private text into the log.
        .disable_statement_logging()
}

/// Returns the options of a writer. Owners add what tunes it.
pub fn writer_options(path: &Path, durability: Durability) -> SqliteConnectOptions {
    // With a write-ahead log, `FULL` syncs at each commit, `NORMAL` at checkpoints.
    options(path).synchronous(match durability {
        Durability::Full => SqliteSynchronous::Full,
        Durability::Normal => SqliteSynchronous::Normal,
    })
}

/// Returns the options of a reader. It cannot change the file, not even by closing it.
pub fn reader_options(path: &Path) -> SqliteConnectOptions {
    options(path).read_only(true)
}

/// Begins a write transaction, waiting for other processes.
pub async fn begin_write(connection: &mut SqliteConnection, path: &Path) -> Result<()> {
    let mut wait = BusyWait::new(path);
    loop {
        // With the lock taken at the start, nothing later in the transaction finds the file busy.
        match connection.execute("BEGIN IMMEDIATE").await {
            Ok(_) => return Ok(()),
            Err(error) if is_busy(&error) => wait.pause().await?,
            Err(error) => return Err(explain(path, error)),
        }
    }
}
