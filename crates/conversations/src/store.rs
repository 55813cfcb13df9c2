//! The store as this process has it open: opening the file, its readers, its one writer.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use sqlx::Sqlite;
use sqlx::pool::PoolConnection;
use sqlx::query::Query;
use sqlx::sqlite::{SqliteArguments, SqliteRow};
use vestal_database::{Database, DatabaseOptions, Durability, Layout, writer_options};

use crate::Result;
use crate::error::Error;

pub(crate) use vestal_database::WriteTransaction;

/// The layout of the file, marked with `VstC`.
const LAYOUT: Layout = Layout {
    application: 0x5673_7443,
    steps: &[include_str!("schema/1.sql"), include_str!("schema/2.sql")],
};

/// The version of the file's layout, in its `user_version`.
pub const VERSION: i64 = LAYOUT.version();

/// The conversations of one home. Clones share the connections; any number of
/// processes may have the same file open.
///
/// Dropping the future of a writing call leaves the change done or not done, never half done.
#[derive(Clone)]
pub struct ConversationStore {
    database: Arc<Database>,
}

impl ConversationStore {
    /// Returns the file.
    pub fn path(&self) -> &Path {
        self.database.path()
    }

    pub(crate) async fn reader(&self) -> Result<PoolConnection<Sqlite>> {
        Ok(self.database.reader().await?)
    }

    pub(crate) fn explain(&self, error: sqlx::Error) -> Error {
        self.database.explain(error).into()
    }

    /// Closes the file for all clones of this store, after running calls. Nothing is lost without
    /// it; it merges the log into the file.
    #[boxed]
    pub async fn close(self) -> Result<()> {
        Ok(self.database.close().await?)
    }

    /// Opens the file, creating it if needed, readable by its owner only.
    pub async fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let database = Database::open(path, options(path)).await?;
        Ok(Self { database: Arc::new(database) })
    }

    /// Opens the file if it exists.
    pub async fn open_existing(path: impl AsRef<Path>) -> Result<Option<Self>> {
        let path = path.as_ref();
        let database = Database::open_existing(path, options(path)).await?;
        Ok(database.map(|database| Self { database: Arc::new(database) }))
    }

    /// Begins a write transaction, waiting for other processes.
    pub(crate) async fn write(&self) -> Result<WriteTransaction<'_>> {
        Ok(self.database.write().await?)
    }
}

impl ConversationStore {
    /// Runs the statements of a query in one transaction, in one round trip ([`Database::write_at_once`]).
    pub(crate) async fn write_at_once(
        &self,
        query: Query<'_, Sqlite, SqliteArguments>,
    ) -> Result<Vec<SqliteRow>> {
        Ok(self.database.write_at_once(query).await?)
    }
}

impl fmt::Debug for ConversationStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConversationStore").field("path", &self.path()).finish_non_exhaustive()
    }
}

/// The most readers at once; further ones wait.
const READERS: u32 = 4;

/// The size to which the write-ahead log is truncated after a checkpoint.
const WAL_BYTES: &str = "8388608";

/// Returns how a process opens the file. A power cut may lose the last moments, a killed process
/// loses nothing.
fn options(path: &Path) -> DatabaseOptions {
    let writer = writer_options(path, Durability::Normal).pragma("journal_size_limit", WAL_BYTES);
    DatabaseOptions { layout: LAYOUT, readers: READERS, writer }
}
