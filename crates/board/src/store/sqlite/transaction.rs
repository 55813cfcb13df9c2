//! A transaction: everything that is read and written goes through one.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use futures_util::TryStreamExt as _;
use sqlx::query::Query as Statement;
use sqlx::sqlite::{SqliteArguments, SqliteRow};
use sqlx::{
    AssertSqlSafe, ConnectOptions as _, Connection as _, Executor as _, Sqlite, SqliteConnection,
};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard, OwnedSemaphorePermit, Semaphore};
use vestal_database::begin_write;

use super::row::StatementBatch;
use super::store::{self, Durability, explain};
use crate::event::NewTaskEvent;
use crate::store::{Clock, Read, Write};
use crate::time::Time;
use crate::{Error, Result};

/// A statement with its values.
pub(super) type Bound<'q> = Statement<'q, Sqlite, SqliteArguments>;

/// A transaction. What is not committed did not happen: the lease takes it back.
pub(super) struct Transaction {
    connections: Arc<BoardConnections>,
    lease: ConnectionLease,
    now: Time,
    /// What goes to the database before the next that is asked of it, at the
    /// latest with the commit, so that it costs no trip of its own.
    pub(super) unwritten: StatementBatch,
    /// Events that go there before the next that needs them.
    pub(super) pending_events: Vec<NewTaskEvent>,
    /// Whether something failed, so that there is nothing whole to commit.
    spoiled: bool,
}

impl Transaction {
    /// Begins to read. The board is seen as it is at the first look.
    pub(super) async fn read(connections: &Arc<BoardConnections>, clock: &Clock) -> Result<Self> {
        let mut lease = connections.reader().await?;
        let begun = lease.on().execute("BEGIN").await;
        begun.map_err(|error| explain(connections.path(), error))?;
        Ok(Self::begun(connections, lease, clock))
    }

    /// Begins to write, as soon as no other process does.
    pub(super) async fn write(connections: &Arc<BoardConnections>, clock: &Clock) -> Result<Self> {
        let mut lease = connections.writer().await?;
        begin_write(lease.on(), connections.path()).await?;
        Ok(Self::begun(connections, lease, clock))
    }

    fn begun(connections: &Arc<BoardConnections>, lease: ConnectionLease, clock: &Clock) -> Self {
        let now = clock.now();
        Self {
            connections: Arc::clone(connections),
            lease,
            now,
            unwritten: StatementBatch::default(),
            pending_events: Vec::new(),
            spoiled: false,
        }
    }

    fn path(&self) -> &Path {
        self.connections.path()
    }

    /// Says what an error of the database means.
    fn failed(&mut self, error: sqlx::Error) -> Error {
        self.spoil(explain(self.path(), error))
    }

    /// Makes sure that nothing of this transaction is kept.
    pub(super) fn spoil(&mut self, error: Error) -> Error {
        self.spoiled = true;
        error
    }

    /// Returns the moment it began.
    pub(super) const fn moment(&self) -> Time {
        self.now
    }

    /// Writes what is to be written.
    async fn write_down(&mut self) -> Result<()> {
        if self.unwritten.is_empty() {
            return Ok(());
        }
        let (text, arguments) = std::mem::take(&mut self.unwritten).into_parts();
        let statement = sqlx::query_with(AssertSqlSafe(text), arguments);
        let done = statement.execute(self.lease.on()).await;
        done.map(|_| ()).map_err(|error| self.failed(error))
    }

    /// Returns all rows.
    pub(super) async fn all(&mut self, statement: Bound<'_>) -> Result<Vec<SqliteRow>> {
        self.write_down().await?;
        let rows = statement.fetch_all(self.lease.on()).await;
        rows.map_err(|error| self.failed(error))
    }

    /// Hands over the rows of a statement that was put together, one after the other, as the
    /// database finds them.
    pub(super) async fn one_by_one(
        &mut self,
        script: StatementBatch,
        each: &mut (dyn FnMut(&SqliteRow) -> Result<ControlFlow<()>> + Send),
    ) -> Result<()> {
        self.write_down().await?;
        let (text, arguments) = script.into_parts();
        let statement = sqlx::query_with(AssertSqlSafe(text), arguments);
        let failed = {
            let mut rows = statement.fetch(self.lease.on());
            loop {
                match rows.try_next().await {
                    Ok(Some(row)) if each(&row)?.is_break() => return Ok(()),
                    Ok(Some(_)) => {}
                    Ok(None) => return Ok(()),
                    Err(error) => break error,
                }
            }
        };
        Err(self.failed(failed))
    }

    /// Returns all rows, each as what it stands for.
    pub(super) async fn each<T>(
        &mut self,
        statement: Bound<'_>,
        read: impl Fn(&SqliteRow) -> Result<T>,
    ) -> Result<Vec<T>> {
        self.all(statement).await?.iter().map(read).collect()
    }

    /// Returns the first row, if there is one.
    pub(super) async fn first(&mut self, statement: Bound<'_>) -> Result<Option<SqliteRow>> {
        self.write_down().await?;
        let row = statement.fetch_optional(self.lease.on()).await;
        row.map_err(|error| self.failed(error))
    }

    /// Does it, and returns how many rows it changed.
    pub(super) async fn execute(&mut self, statement: Bound<'_>) -> Result<u64> {
        self.write_down().await?;
        let done = statement.execute(self.lease.on()).await;
        Ok(done.map_err(|error| self.failed(error))?.rows_affected())
    }

    /// Does several, and returns how many rows they changed together.
    pub(super) async fn run_script(&mut self, script: StatementBatch) -> Result<u64> {
        let (text, arguments) = script.into_parts();
        self.execute(sqlx::query_with(AssertSqlSafe(text), arguments)).await
    }

    /// Returns all rows of a statement that was put together.
    pub(super) async fn ask(&mut self, script: StatementBatch) -> Result<Vec<SqliteRow>> {
        let (text, arguments) = script.into_parts();
        self.all(sqlx::query_with(AssertSqlSafe(text), arguments)).await
    }
}

#[async_trait]
impl Read for Transaction {
    fn now(&self) -> Time {
        self.now
    }
}

#[async_trait]
impl Write for Transaction {
    async fn commit(mut self: Box<Self>) -> Result<()> {
        if self.spoiled {
            let reason = "something in it failed; nothing was kept".to_owned();
            return Err(Error::Unreadable { what: "the transaction".to_owned(), reason });
        }
        let mut last = self.write_events_but_last().await?;
        last.push("COMMIT");
        Self::run_script(&mut self, last).await?;
        self.lease.give_back();
        Ok(())
    }
}

/// Readers at once; more wait for one of them.
const READERS: u32 = 4;

/// The connections of a process to one file. Each is made when it is first
/// needed, and stays.
pub(super) struct BoardConnections {
    path: PathBuf,
    durability: Durability,
    writer: Arc<AsyncMutex<Option<SqliteConnection>>>,
    seats: Arc<Semaphore>,
    idle: Arc<Mutex<Vec<SqliteConnection>>>,
    closed: AtomicBool,
}

impl BoardConnections {
    pub(super) fn new(path: &Path, durability: Durability) -> Self {
        Self {
            path: path.to_owned(),
            durability,
            writer: Arc::default(),
            seats: Arc::new(Semaphore::new(READERS as usize)),
            idle: Arc::default(),
            closed: AtomicBool::new(false),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the writer, once nobody else in this process has it.
    pub(super) async fn writer(&self) -> Result<ConnectionLease> {
        let mut slot = Arc::clone(&self.writer).lock_owned().await;
        self.check_open()?;
        let connection = match slot.take() {
            Some(connection) => connection,
            None => {
                let options = store::writer(&self.path, self.durability);
                options.connect().await.map_err(|error| explain(&self.path, error))?
            }
        };
        Ok(ConnectionLease { connection: Some(connection), home: Some(ReturnTo::Writer(slot)) })
    }

    /// Returns a reader, once one is free.
    pub(super) async fn reader(&self) -> Result<ConnectionLease> {
        let seat = Arc::clone(&self.seats).acquire_owned().await;
        let seat = seat.map_err(|_| self.is_closed())?;
        self.check_open()?;
        let free = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let connection = match free {
            Some(connection) => connection,
            None => self.stranger().await?,
        };
        let home = ReturnTo::Reader(seat, Arc::clone(&self.idle));
        Ok(ConnectionLease { connection: Some(connection), home: Some(home) })
    }

    /// Returns a reader that belongs to the caller.
    pub(super) async fn stranger(&self) -> Result<SqliteConnection> {
        self.check_open()?;
        let connected = store::reader(&self.path).connect().await;
        connected.map_err(|error| explain(&self.path, error))
    }

    fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::SeqCst) { Err(self.is_closed()) } else { Ok(()) }
    }

    fn is_closed(&self) -> Error {
        let reason = "it was closed".to_owned();
        vestal_database::Error::Access { path: self.path.clone(), reason }.into()
    }

    /// Closes all, once those at work are done.
    pub(super) async fn close(&self) -> Result<()> {
        self.closed.store(true, Ordering::SeqCst);
        // A caller at work has a seat, and gives it back with the connection.
        let seats = self.seats.acquire_many(READERS).await;
        let idle = std::mem::take(&mut *self.idle.lock().unwrap_or_else(PoisonError::into_inner));
        let mut outcome = Ok(());
        for reader in idle {
            outcome = outcome.and(reader.close().await);
        }
        drop(seats);
        self.seats.close();
        // The writer is the last: it can put the log into the file.
        if let Some(writer) = self.writer.lock().await.take() {
            outcome = outcome.and(writer.close().await);
        }
        outcome.map_err(|error| explain(&self.path, error))
    }
}

/// Where a connection goes back to.
enum ReturnTo {
    Writer(OwnedMutexGuard<Option<SqliteConnection>>),
    Reader(OwnedSemaphorePermit, Arc<Mutex<Vec<SqliteConnection>>>),
}

impl ReturnTo {
    fn take_back(self, connection: SqliteConnection) {
        match self {
            Self::Writer(mut slot) => *slot = Some(connection),
            Self::Reader(seat, idle) => {
                idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
                drop(seat);
            }
        }
    }
}

/// A connection in use. One that is dropped takes back what was done since its
/// transaction began, whatever it was doing.
pub(super) struct ConnectionLease {
    connection: Option<SqliteConnection>,
    home: Option<ReturnTo>,
}

impl ConnectionLease {
    /// Returns the connection.
    #[expect(clippy::expect_used, reason = "only `drop` and `give_back` take it, at the end")]
    pub(super) fn on(&mut self) -> &mut SqliteConnection {
        self.connection.as_mut().expect("a lease has its connection")
    }

    /// Gives back a connection that is in no transaction.
    pub(super) fn give_back(mut self) {
        if let (Some(connection), Some(home)) = (self.connection.take(), self.home.take()) {
            home.take_back(connection);
        }
    }
}

impl Drop for ConnectionLease {
    fn drop(&mut self) {
        let (Some(mut connection), Some(home)) = (self.connection.take(), self.home.take()) else {
            return;
        };
        // The thread of the connection does one thing after the other, so this
        // comes after whatever was still going on. Where it fails, or nothing
        // is left to run it, closing the connection does the same.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                if connection.execute("ROLLBACK").await.is_ok() {
                    home.take_back(connection);
                }
            });
        }
    }
}
