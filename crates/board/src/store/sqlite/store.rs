//! A board in an `SQLite` file: opening it, its layout, how connections are set up.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use rustix::fs::{Access, access};
use sqlx::sqlite::SqliteConnectOptions;
pub use vestal_database::Durability;
use vestal_database::Layout;

use super::changes::ChangeWatch;
use super::transaction::{BoardConnections, Transaction};
use crate::store::{BoardStore, Changes, Clock, Read, Write};
use crate::{Error, Result};

/// How a store is opened.
#[derive(Debug, Clone, Default)]
pub struct SqliteOptions {
    /// What a commit survives.
    pub durability: Durability,
    /// What it tells the time by.
    pub clock: Clock,
}

/// A board in an `SQLite` file. Any number of processes of this host may have it
/// open, and any number of stores in one process.
pub struct SqliteStore {
    connections: Arc<BoardConnections>,
    clock: Clock,
}

impl SqliteStore {
    pub(super) fn connected_to(path: &Path, options: SqliteOptions) -> Self {
        let connections = Arc::new(BoardConnections::new(path, options.durability));
        Self { connections, clock: options.clock }
    }

    pub(super) fn connections(&self) -> &Arc<BoardConnections> {
        &self.connections
    }

    /// Returns the file.
    pub fn path(&self) -> &Path {
        self.connections.path()
    }
}

#[async_trait]
impl BoardStore for SqliteStore {
    async fn read(&self) -> Result<Box<dyn Read + '_>> {
        Ok(Box::new(Transaction::read(&self.connections, &self.clock).await?))
    }

    async fn write(&self) -> Result<Box<dyn Write + '_>> {
        Ok(Box::new(Transaction::write(&self.connections, &self.clock).await?))
    }

    fn changes(&self) -> Result<Box<dyn Changes>> {
        Ok(Box::new(ChangeWatch::new(Arc::clone(&self.connections))?))
    }

    async fn close(&self) -> Result<()> {
        self.connections.close().await
    }
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore").field("path", &self.path()).finish_non_exhaustive()
    }
}

impl SqliteStore {
    /// Opens the board in a file, which is made if it is not there, readable
    /// for its owner alone.
    pub async fn open(path: impl AsRef<Path>, options: SqliteOptions) -> Result<Self> {
        let path = path.as_ref();
        vestal_database::make(path)?;
        Self::prepare(path, options).await
    }

    /// Opens the board in a file, if there is one; makes none.
    pub async fn open_existing(
        path: impl AsRef<Path>,
        options: SqliteOptions,
    ) -> Result<Option<Self>> {
        let path = path.as_ref();
        if !vestal_database::is_there(path)? {
            return Ok(None);
        }
        Self::prepare(path, options).await.map(Some)
    }

    async fn prepare(path: &Path, options: SqliteOptions) -> Result<Self> {
        let durability = options.durability;
        let store = Self::connected_to(path, options);
        if !is_current(store.connections()).await? {
            LAYOUT.upgrade(path, &writer(path, durability)).await?;
        }
        Ok(store)
    }
}

async fn is_current(connections: &BoardConnections) -> Result<bool> {
    let mut lease = connections.reader().await?;
    let path = connections.path();
    // A read-only file is read without its log, and cannot be upgraded.
    let is_current = if is_at_rest(path) {
        LAYOUT.is_readable(path, lease.on()).await?
    } else {
        LAYOUT.is_current(path, lease.on()).await?
    };
    lease.give_back();
    Ok(is_current)
}

/// The layout of the file, marked with `VstB`.
pub(super) const LAYOUT: Layout =
    Layout { application: 0x5673_7442, steps: &[include_str!("schema/1.sql")] };

/// The version of the file's layout, in its `user_version`.
pub const VERSION: i64 = LAYOUT.version();

/// The size to which the write-ahead log is truncated after a checkpoint.
const WAL_BYTES: &str = "16777216";

/// Pages of the log at which it is merged into the file. Many, because pages that were written several
/// times are merged once.
const WAL_PAGES: &str = "4000";

/// The number of prepared statements that are kept: more than there are.
const STATEMENTS: usize = 256;

/// The page cache, in KiB; a negative number means KiB to `SQLite`.
const CACHE: &str = "-8192";

/// Returns the options of the one writer of a process.
pub(super) fn writer(path: &Path, durability: Durability) -> SqliteConnectOptions {
    tuned(vestal_database::writer_options(path, durability))
        .pragma("journal_size_limit", WAL_BYTES)
        .pragma("wal_autocheckpoint", WAL_PAGES)
}

/// Returns the options of a reader.
pub(super) fn reader(path: &Path) -> SqliteConnectOptions {
    let options = tuned(vestal_database::reader_options(path));
    if is_at_rest(path) { options.immutable(true) } else { options }
}

fn tuned(options: SqliteConnectOptions) -> SqliteConnectOptions {
    options.statement_cache_capacity(STATEMENTS).pragma("cache_size", CACHE)
}

/// Reports whether a file is on a read-only disk and has no log with content. Without the `immutable`
/// option even a reader would try to create the index of the log there, and fail.
pub(super) fn is_at_rest(path: &Path) -> bool {
    let Some(dir) = path.parent() else { return false };
    if access(dir, Access::WRITE_OK).is_ok() {
        return false;
    }
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    std::fs::metadata(log).map_or(true, |log| log.len() == 0)
}

/// Turns an error of the database into one that says what it means.
pub(super) fn explain(path: &Path, error: sqlx::Error) -> Error {
    vestal_database::explain(path, error).into()
}
