//! Writing: one writer per process, one transaction at a time.

use std::path::Path;

use sqlx::{ConnectOptions as _, Executor as _, SqliteConnection};
use tokio::sync::MutexGuard;
use vestal_database::{Patience, is_busy};

use crate::error::{Error, explain};
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
