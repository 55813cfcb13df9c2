//! The store as this process has it open: opening the file, its readers, its one writer.

mod claims;
mod deliveries;
mod row;
mod runs;
mod schedules;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use sqlx::pool::PoolConnection;
use sqlx::{Sqlite, SqliteConnection};
use vestal_database::{
    Database, DatabaseOptions, Durability, Layout, WriteTransaction, writer_options,
};

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
    database: Arc<Database>,
}

impl ScheduleStore {
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

    /// Returns the file.
    pub fn path(&self) -> &Path {
        self.database.path()
    }

    /// Closes the file for all clones of this store, after running calls. Nothing is lost without
    /// it; it merges the log into the file.
    #[boxed]
    pub async fn close(self) -> Result<()> {
        Ok(self.database.close().await?)
    }

    pub(crate) async fn reader(&self) -> Result<PoolConnection<Sqlite>> {
        Ok(self.database.reader().await?)
    }

    pub(crate) fn explain(&self, error: sqlx::Error) -> crate::Error {
        self.database.explain(error).into()
    }

    /// Begins a write transaction, waiting for other processes.
    pub(crate) async fn write(&self) -> Result<ScheduleTransaction<'_>> {
        let transaction = self.database.write().await?;
        Ok(ScheduleTransaction { transaction, is_changed: false })
    }
}

impl fmt::Debug for ScheduleStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScheduleStore").field("path", &self.path()).finish_non_exhaustive()
    }
}

/// Returns how a process opens the file. A claim must outlive a power loss, or the moment would be
/// run again after it.
fn options(path: &Path) -> DatabaseOptions {
    let writer = writer_options(path, Durability::Full);
    DatabaseOptions { layout: LAYOUT, readers: READERS, writer }
}

/// A write transaction that announces what it has changed.
pub(crate) struct ScheduleTransaction<'s> {
    transaction: WriteTransaction<'s>,
    /// Whether anything was changed, which others are to notice.
    is_changed: bool,
}

impl ScheduleTransaction<'_> {
    pub(crate) fn on(&mut self) -> &mut SqliteConnection {
        self.transaction.on()
    }

    pub(crate) fn explain(&self, error: sqlx::Error) -> crate::Error {
        self.transaction.explain(error).into()
    }

    /// Runs a statement and returns how many rows it changed.
    pub(crate) async fn execute(
        &mut self,
        query: sqlx::query::Query<'_, Sqlite, sqlx::sqlite::SqliteArguments>,
    ) -> Result<u64> {
        let done = query.execute(self.on()).await;
        let changed = done.map(|done| done.rows_affected()).map_err(|error| self.explain(error))?;
        self.is_changed |= changed > 0;
        Ok(changed)
    }

    /// Notes that something was changed by other means.
    pub(crate) fn mark_changed(&mut self) {
        self.is_changed = true;
    }

    /// Commits. A later kill of the process or a power loss loses nothing.
    pub(crate) async fn commit(self) -> Result<()> {
        let path = self.transaction.path().to_owned();
        self.transaction.commit().await?;
        if self.is_changed {
            crate::wake::announce(&path);
        }
        Ok(())
    }
}
