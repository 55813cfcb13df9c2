//! The store as this process has it open: opening the file, its readers, its one writer.

mod claims;
mod deliveries;
mod row;
mod runs;
mod schedules;

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
use vestal_database::{Durability, Layout, begin_write, explain, reader_options, writer_options};

use crate::Result;

pub use claims::Taken;
pub use runs::KEPT_RUNS;

/// The layout of the file, marked with `VstS`.
const LAYOUT: Layout = Layout { application: 0x5673_7453, steps: &[include_str!("schema/1.sql")] };

/// The most readers at once; further ones wait.
const READERS: u32 = 2;

/// Returns the file of the schedules in a profile's home. It has a directory of its own, which is
/// watched for changes.
pub fn store_path(home: &Path) -> PathBuf {
    home.join("cron").join("schedules.db")
}

/// The schedules of one home. Clones share the connections; any number of processes may have the
/// same file open.
///
/// Dropping the future of a writing call leaves the change done or not done, never half done.
#[derive(Clone)]
pub struct ScheduleStore {
    shared: Arc<ScheduleStoreShared>,
}

struct ScheduleStoreShared {
    path: PathBuf,
    readers: SqlitePool,
    /// Connected on the first write.
    writer: Mutex<Option<SqliteConnection>>,
}

impl ScheduleStore {
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
        let readers = SqlitePoolOptions::new()
            .max_connections(READERS)
            .idle_timeout(None)
            .max_lifetime(None)
            .test_before_acquire(false)
            .acquire_timeout(Duration::from_mins(1))
            .connect_lazy_with(reader_options(path));
        let shared =
            ScheduleStoreShared { path: path.to_owned(), readers, writer: Mutex::new(None) };
        let store = Self { shared: Arc::new(shared) };
        let mut reader = store.reader().await?;
        let is_current = LAYOUT.is_current(path, &mut reader).await?;
        drop(reader);
        if !is_current {
            LAYOUT.upgrade(path, &writer(path)).await?;
        }
        Ok(store)
    }

    /// Returns the file.
    pub fn path(&self) -> &Path {
        &self.shared.path
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

    pub(crate) async fn reader(&self) -> Result<PoolConnection<Sqlite>> {
        self.shared.readers.acquire().await.map_err(|error| self.explain(error))
    }

    pub(crate) fn explain(&self, error: sqlx::Error) -> crate::Error {
        explain(self.path(), error).into()
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
        Ok(WriteTransaction { slot, connection, path, is_changed: false })
    }
}

impl fmt::Debug for ScheduleStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScheduleStore").field("path", &self.path()).finish_non_exhaustive()
    }
}

/// A claim must outlive a power loss, or the moment would be run again after it.
fn writer(path: &Path) -> SqliteConnectOptions {
    writer_options(path, Durability::Full)
}

/// A transaction that holds the file's write lock. Dropped without a commit, it closes its
/// connection, which rolls it back.
pub(crate) struct WriteTransaction<'s> {
    slot: MutexGuard<'s, Option<SqliteConnection>>,
    connection: SqliteConnection,
    path: &'s Path,
    /// Whether anything was changed, which others are to notice.
    is_changed: bool,
}

impl WriteTransaction<'_> {
    pub(crate) fn on(&mut self) -> &mut SqliteConnection {
        &mut self.connection
    }

    pub(crate) fn explain(&self, error: sqlx::Error) -> crate::Error {
        explain(self.path, error).into()
    }

    /// Runs a statement and returns how many rows it changed.
    pub(crate) async fn execute(
        &mut self,
        query: sqlx::query::Query<'_, Sqlite, sqlx::sqlite::SqliteArguments>,
    ) -> Result<u64> {
        let done = query.execute(&mut self.connection).await;
        let changed = done.map(|done| done.rows_affected()).map_err(|error| self.explain(error))?;
        self.is_changed |= changed > 0;
        Ok(changed)
    }

    /// Says that something was changed by other means.
    pub(crate) fn mark_changed(&mut self) {
        self.is_changed = true;
    }

    /// Commits. A later kill of the process or a power loss loses nothing.
    pub(crate) async fn commit(mut self) -> Result<()> {
        let done = self.connection.execute("COMMIT").await;
        done.map_err(|error| explain(self.path, error))?;
        if self.is_changed {
            crate::wake::announce(self.path);
        }
        *self.slot = Some(self.connection);
        Ok(())
    }
}
