//! Connections to a file, write transactions, and waiting while others use it.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sqlx::sqlite::{SqliteConnectOptions, SqliteSynchronous};
use sqlx::{ConnectOptions as _, Executor as _, SqliteConnection};
use vestal_process::{Lock, lock_holder};

use crate::{Error, Result, explain, is_busy};

/// How long the database itself waits for another connection.
pub const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

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

/// How long to wait for others.
const WAIT_WITHIN: Duration = Duration::from_mins(1);

/// The byte of the shared-memory file that a writer locks, in files with a write-ahead log.
const WRITER: Lock = Lock::Byte(120);

/// Waits for other processes with random pauses, so that several waiters do not retry at the same
/// moment.
#[derive(Debug)]
pub struct BusyWait {
    path: PathBuf,
    since: Instant,
}

impl BusyWait {
    /// Begins to wait for a file.
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), since: Instant::now() }
    }

    /// Pauses. Fails if the wait took too long or the writer is a stopped process.
    pub async fn pause(&mut self) -> Result<()> {
        let waited = self.since.elapsed();
        // SQLite has waited for its own timeout before.
        if let Some(pid) =
            writing_process(&self.path).filter(|pid| vestal_process::is_stopped(*pid))
        {
            return Err(Error::Stopped { path: self.path.clone(), pid });
        }
        if waited >= WAIT_WITHIN {
            return Err(Error::Contended { path: self.path.clone(), waited });
        }
        // Without randomness the pauses are even: slower, not wrong.
        let spread = getrandom::u32().map_or(0, |random| random % 20_000);
        tokio::time::sleep(Duration::from_micros(1_000 + u64::from(spread))).await;
        Ok(())
    }
}

/// Returns the process that holds the write lock, if the system tells.
fn writing_process(path: &Path) -> Option<u32> {
    let mut shared = path.as_os_str().to_owned();
    shared.push("-shm");
    lock_holder(Path::new(&shared), WRITER).ok().flatten()
}
