//! The store as this process has it open: opening the file, its readers, its one writer.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use sqlx::pool::PoolConnection;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};
use sqlx::{
    ConnectOptions as _, Connection as _, Executor as _, Sqlite, SqliteConnection, SqlitePool,
};
use tokio::sync::{Mutex, MutexGuard};
use vestal_database::{Durability, Layout, begin_write, reader_options, writer_options};

use crate::Result;
use crate::error::{Error, explain};

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
    shared: Arc<ConversationStoreShared>,
}

struct ConversationStoreShared {
    path: PathBuf,
    readers: SqlitePool,
    /// Connected on the first write.
    writer: Mutex<Option<SqliteConnection>>,
}

impl ConversationStore {
    /// Returns the file.
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    pub(crate) async fn reader(&self) -> Result<PoolConnection<Sqlite>> {
        self.shared.readers.acquire().await.map_err(|error| self.explain(error))
    }

    pub(crate) fn explain(&self, error: sqlx::Error) -> Error {
        explain(self.path(), error)
    }

    /// Closes the file for all clones of this store, after running calls. Nothing is lost without
    /// it; it merges the log into the file.
    #[boxed]
    pub async fn close(self) -> Result<()> {
        self.shared.readers.close().await;
        let writer = self.shared.writer.lock().await.take();
        match writer {
            Some(writer) => writer.close().await.map_err(|error| self.explain(error)),
            None => Ok(()),
        }
    }

    /// Opens the file, creating it if needed, readable by its owner only.
    pub async fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        vestal_database::make(path)?;
        Self::prepare(path).await
    }

    /// Opens the file if it exists.
    pub async fn open_existing(path: impl AsRef<Path>) -> Result<Option<Self>> {
        let path = path.as_ref();
        if !vestal_database::is_there(path)? {
            return Ok(None);
        }
        Self::prepare(path).await.map(Some)
    }

    async fn prepare(path: &Path) -> Result<Self> {
        let shared = ConversationStoreShared {
            path: path.to_owned(),
            readers: reader_pool(path),
            writer: Mutex::new(None),
        };
        let store = Self { shared: Arc::new(shared) };
        let mut reader = store.reader().await?;
        let is_current = LAYOUT.is_current(path, &mut reader).await?;
        drop(reader);
        if !is_current {
            LAYOUT.upgrade(path, &writer(path)).await?;
        }
        Ok(store)
    }

    /// Begins a write transaction, waiting for other processes.
    pub(crate) async fn write(&self) -> Result<WriteTransaction<'_>> {
        let path = self.path();
        let mut slot = self.shared.writer.lock().await;
        let mut connection = match slot.take() {
            Some(connection) => connection,
            None => writer(path).connect().await.map_err(|error| self.explain(error))?,
        };
        begin_write(&mut connection, path).await?;
        Ok(WriteTransaction { slot, connection, path })
    }
}

impl fmt::Debug for ConversationStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConversationStore").field("path", &self.path()).finish_non_exhaustive()
    }
}

/// A transaction that holds the file's write lock. Dropped without a commit, it closes its
/// connection, which rolls it back.
pub(crate) struct WriteTransaction<'s> {
    slot: MutexGuard<'s, Option<SqliteConnection>>,
    connection: SqliteConnection,
    path: &'s Path,
}

impl WriteTransaction<'_> {
    /// Returns the connection.
    pub(crate) fn on(&mut self) -> &mut SqliteConnection {
        &mut self.connection
    }

    /// Turns an error of the database into one that says what it means.
    pub(crate) fn explain(&self, error: sqlx::Error) -> Error {
        explain(self.path, error)
    }

    /// Commits. A later kill of the process loses nothing.
    pub(crate) async fn commit(mut self) -> Result<()> {
        self.connection.execute("COMMIT").await.map_err(|error| explain(self.path, error))?;
        *self.slot = Some(self.connection);
        Ok(())
    }
}

/// The most readers at once; further ones wait.
const READERS: u32 = 4;

/// The size to which the write-ahead log is truncated after a checkpoint.
const WAL_BYTES: &str = "8388608";

/// Returns the options of the one writer of this process.
fn writer(path: &Path) -> SqliteConnectOptions {
    // A power cut may lose the last moments, a killed process loses nothing.
    writer_options(path, Durability::Normal).pragma("journal_size_limit", WAL_BYTES)
}

/// Returns the pool of readers; each connects on first use and stays connected.
fn reader_pool(path: &Path) -> SqlitePool {
    SqlitePoolOptions::new()
        .max_connections(READERS)
        .idle_timeout(None)
        .max_lifetime(None)
        .test_before_acquire(false)
        .acquire_timeout(Duration::from_mins(1))
        .connect_lazy_with(reader_options(path))
}
