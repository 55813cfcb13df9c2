//! Writing: one writer per process, one transaction at a time.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sqlx::{ConnectOptions as _, Executor as _, SqliteConnection};
use tokio::sync::MutexGuard;

use crate::error::{Error, explain, is_busy};
use crate::store::Store;
use crate::{Result, connect};

/// A transaction that holds the file's write lock. What is not committed did
/// not happen: the connection goes with it, and takes back what was done.
pub(crate) struct Write<'s> {
    slot: MutexGuard<'s, Option<SqliteConnection>>,
    connection: SqliteConnection,
    path: &'s Path,
}

impl Store {
    /// Begins to write, as soon as no other process does.
    pub(crate) async fn write(&self) -> Result<Write<'_>> {
        let path = self.path();
        let mut slot = self.writer().lock().await;
        let mut patience = Patience::new(path);
        loop {
            let mut connection = match slot.take() {
                Some(connection) => connection,
                None => connect(path).await?,
            };
            // With the lock taken at once, nothing later in the transaction
            // can find the file busy.
            match connection.execute("BEGIN IMMEDIATE").await {
                Ok(_) => return Ok(Write { slot, connection, path }),
                Err(error) if is_busy(&error) => {
                    *slot = Some(connection);
                    patience.pause().await?;
                }
                Err(error) => return Err(explain(path, error)),
            }
        }
    }
}

impl Write<'_> {
    /// Returns the connection.
    pub(crate) fn on(&mut self) -> &mut SqliteConnection {
        &mut self.connection
    }

    /// Says what an error of the database means.
    pub(crate) fn explain(&self, error: sqlx::Error) -> Error {
        explain(self.path, error)
    }

    /// Makes it all lasting. After this a killed process takes nothing back.
    pub(crate) async fn commit(mut self) -> Result<()> {
        self.connection.execute("COMMIT").await.map_err(|error| explain(self.path, error))?;
        *self.slot = Some(self.connection);
        Ok(())
    }
}

/// Connects as the writer.
pub(crate) async fn connect(path: &Path) -> Result<SqliteConnection> {
    connect::writer(path).connect().await.map_err(|error| explain(path, error))
}

/// How long others are waited for.
const PATIENCE: Duration = Duration::from_mins(1);

/// Waits for others by uneven pauses, so that those who wait do not all come
/// back at the same moment.
pub(crate) struct Patience {
    path: PathBuf,
    since: Instant,
}

impl Patience {
    pub(crate) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), since: Instant::now() }
    }

    /// Pauses, or gives up.
    pub(crate) async fn pause(&mut self) -> Result<()> {
        let waited = self.since.elapsed();
        if waited >= PATIENCE {
            return Err(Error::Contended { path: self.path.clone(), waited });
        }
        // Without randomness the pauses are even, which is slower and not wrong.
        let spread = getrandom::u32().map_or(0, |random| random % 20_000);
        tokio::time::sleep(Duration::from_micros(1_000 + u64::from(spread))).await;
        Ok(())
    }
}
