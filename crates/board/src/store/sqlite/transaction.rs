//! A transaction: everything that is read and written goes through one.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::TryStreamExt as _;
use sqlx::query::Query as Statement;
use sqlx::sqlite::{SqliteArguments, SqliteRow};
use sqlx::{AssertSqlSafe, Executor as _, Sqlite};
use vestal_database::begin_write;

use super::connections::{BoardConnections, ConnectionLease};
use super::row::StatementBatch;
use super::store::explain;
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
