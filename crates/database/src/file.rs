//! A file as a process has it open: its readers, its one writer, its transactions.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::query::Query;
use sqlx::sqlite::{SqliteArguments, SqliteConnectOptions, SqlitePoolOptions, SqliteRow};
use sqlx::{
    ConnectOptions as _, Connection as _, Execute as _, Executor as _, Sqlite, SqliteConnection,
    SqlitePool,
};
use tokio::sync::{Mutex, MutexGuard};

use crate::{
    BusyWait, Error, Layout, Result, begin_write, explain, is_busy, is_there, make, reader_options,
};

/// How a process opens a file.
#[derive(Debug, Clone)]
pub struct DatabaseOptions {
    /// The layout that the file has, or is upgraded to.
    pub layout: Layout,
    /// The most readers at once; further ones wait.
    pub readers: u32,
    /// The options of the one writer.
    pub writer: SqliteConnectOptions,
}

/// An open file. Any number of processes may have the same one open.
pub struct Database {
    path: PathBuf,
    readers: SqlitePool,
    /// Connected on the first write.
    writer: Mutex<Option<SqliteConnection>>,
    writer_options: SqliteConnectOptions,
}

impl Database {
    /// Opens a file, creating it if needed, readable by its owner only.
    pub async fn open(path: &Path, options: DatabaseOptions) -> Result<Self> {
        make(path)?;
        Self::prepare(path, options).await
    }

    /// Opens a file if it exists.
    pub async fn open_existing(path: &Path, options: DatabaseOptions) -> Result<Option<Self>> {
        if !is_there(path)? {
            return Ok(None);
        }
        Self::prepare(path, options).await.map(Some)
    }

    async fn prepare(path: &Path, options: DatabaseOptions) -> Result<Self> {
        let DatabaseOptions { layout, readers, writer } = options;
        let readers = SqlitePoolOptions::new()
            .max_connections(readers)
            .idle_timeout(None)
            .max_lifetime(None)
            .test_before_acquire(false)
            .acquire_timeout(Duration::from_mins(1))
            .connect_lazy_with(reader_options(path));
        let database = Self {
            path: path.to_owned(),
            readers,
            writer: Mutex::new(None),
            writer_options: writer,
        };
        let mut reader = database.reader().await?;
        let is_current = layout.is_current(path, &mut reader).await?;
        drop(reader);
        if !is_current {
            layout.upgrade(path, &database.writer_options).await?;
        }
        Ok(database)
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns a connection that reads.
    pub async fn reader(&self) -> Result<PoolConnection<Sqlite>> {
        self.readers.acquire().await.map_err(|error| self.explain(error))
    }

    /// Returns what an error of the database means for this file.
    pub fn explain(&self, error: sqlx::Error) -> Error {
        explain(&self.path, error)
    }

    /// Begins a write transaction, waiting for other processes.
    pub async fn write(&self) -> Result<WriteTransaction<'_>> {
        let mut slot = self.writer.lock().await;
        let mut connection = self.connected(&mut slot).await?;
        begin_write(&mut connection, &self.path).await?;
        Ok(WriteTransaction { slot, connection, path: &self.path })
    }

    /// Runs the statements of a query in a transaction of their own, and returns their rows.
    ///
    /// Each statement of a [`write`](Self::write) goes to the thread of the writer and back, and while
    /// it does the next writer waits: with hundreds of them that is most of the time. These go there
    /// together. Their parameters are plain `?`, bound in the order in which they stand: the driver
    /// counts on from one statement to the next, and only over these.
    pub async fn write_at_once(
        &self,
        mut query: Query<'_, Sqlite, SqliteArguments>,
    ) -> Result<Vec<SqliteRow>> {
        let arguments = query.take_arguments().map_err(sqlx::Error::Encode);
        let arguments = arguments.map_err(|error| self.explain(error))?.unwrap_or_default();
        let text = format!("BEGIN IMMEDIATE; {}; COMMIT", query.sql().as_str());
        let mut slot = self.writer.lock().await;
        let mut wait = BusyWait::new(&self.path);
        loop {
            // Dropped on every way out but the last, which rolls back what was begun.
            let mut connection = self.connected(&mut slot).await?;
            // Made of a text that was safe by itself.
            let statements = sqlx::AssertSqlSafe(text.clone());
            let done = sqlx::query_with(statements, arguments.clone()).fetch_all(&mut connection);
            match done.await {
                Ok(rows) => {
                    *slot = Some(connection);
                    return Ok(rows);
                }
                Err(error) if is_busy(&error) => wait.pause().await?,
                Err(error) => return Err(self.explain(error)),
            }
        }
    }

    /// Takes the writer's connection, which is made when it is first needed.
    async fn connected(&self, slot: &mut Option<SqliteConnection>) -> Result<SqliteConnection> {
        match slot.take() {
            Some(connection) => Ok(connection),
            None => self.writer_options.connect().await.map_err(|error| self.explain(error)),
        }
    }

    /// Closes the file after running calls. Nothing is lost without it; it merges the log into the
    /// file.
    pub async fn close(&self) -> Result<()> {
        self.readers.close().await;
        let writer = self.writer.lock().await.take();
        match writer {
            Some(writer) => writer.close().await.map_err(|error| self.explain(error)),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").field("path", &self.path).finish_non_exhaustive()
    }
}

/// A transaction that holds the file's write lock. Dropped without a commit, it closes its
/// connection, which rolls it back.
pub struct WriteTransaction<'d> {
    slot: MutexGuard<'d, Option<SqliteConnection>>,
    connection: SqliteConnection,
    path: &'d Path,
}

impl WriteTransaction<'_> {
    /// Returns the connection.
    pub fn on(&mut self) -> &mut SqliteConnection {
        &mut self.connection
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        self.path
    }

    /// Returns what an error of the database means for this file.
    pub fn explain(&self, error: sqlx::Error) -> Error {
        explain(self.path, error)
    }

    /// Commits. A later kill of the process loses nothing; what a power cut may lose is up to the
    /// [`Durability`](crate::Durability) of the writer.
    pub async fn commit(mut self) -> Result<()> {
        self.connection.execute("COMMIT").await.map_err(|error| explain(self.path, error))?;
        *self.slot = Some(self.connection);
        Ok(())
    }
}

impl fmt::Debug for WriteTransaction<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteTransaction").field("path", &self.path).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Durability, writer_options};

    const BOTH: &str = "INSERT INTO words (word) VALUES (?) RETURNING word; \
                        INSERT INTO words (word) VALUES (?) RETURNING word";

    async fn open(dir: &tempfile::TempDir) -> Database {
        let path = dir.path().join("words.db");
        let layout = Layout {
            application: 0x5673_7454,
            steps: &["CREATE TABLE words (word TEXT NOT NULL UNIQUE) STRICT"],
        };
        let writer = writer_options(&path, Durability::Normal);
        Database::open(&path, DatabaseOptions { layout, readers: 1, writer }).await.unwrap()
    }

    fn both(first: &'static str, second: &'static str) -> Query<'static, Sqlite, SqliteArguments> {
        sqlx::query(BOTH).bind(first).bind(second)
    }

    async fn words(database: &Database) -> Vec<String> {
        let mut reader = database.reader().await.unwrap();
        let words = sqlx::query_scalar("SELECT word FROM words ORDER BY rowid");
        words.fetch_all(&mut *reader).await.unwrap()
    }

    #[tokio::test]
    async fn statements_that_are_written_at_once_are_all_done_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let database = open(&dir).await;
        let rows = database.write_at_once(both("a", "b")).await.unwrap();
        let returned: Vec<String> = rows.iter().map(|row| sqlx::Row::get(row, 0)).collect();
        assert_eq!(returned, ["a", "b"]);
        database.write_at_once(both("c", "a")).await.unwrap_err();
        assert_eq!(words(&database).await, ["a", "b"]);
        // The writer is as good as new.
        database.write_at_once(both("d", "e")).await.unwrap();
        assert_eq!(words(&database).await, ["a", "b", "d", "e"]);
    }

    #[tokio::test]
    async fn a_caller_that_does_not_wait_leaves_no_half_of_what_it_writes() {
        let dir = tempfile::tempdir().unwrap();
        let database = open(&dir).await;
        database.write_at_once(both("a", "b")).await.unwrap();
        {
            let mut writing = std::pin::pin!(database.write_at_once(both("c", "d")));
            // Once: it has been sent, and nobody hears what becomes of it (or has, on a machine
            // where the writer was faster than this).
            std::future::poll_fn(|context| {
                let answer = writing.as_mut().poll(context);
                assert!(!matches!(answer, std::task::Poll::Ready(Err(_))), "{answer:?}");
                std::task::Poll::Ready(())
            })
            .await;
        }
        database.write_at_once(both("e", "f")).await.unwrap();
        let found = words(&database).await;
        let without = ["a", "b", "e", "f"].map(str::to_owned).to_vec();
        let with = ["a", "b", "c", "d", "e", "f"].map(str::to_owned).to_vec();
        assert!(found == without || found == with, "{found:?}");
    }
}
