//! A transaction: everything that is read and written goes through one.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::TryStreamExt as _;
use serde_json::Value as Json;
use sqlx::query::Query as Statement;
use sqlx::sqlite::{SqliteArguments, SqliteRow};
use sqlx::{AssertSqlSafe, Executor as _, Sqlite};
use vestal_database::{Patience, is_busy};

use super::connections::{Connections, Lease};
use super::explain::explain;
use super::script::Script;
use crate::event::{Event, NewEvent};
use crate::id::{RunId, TaskId};
use crate::run::{Outcome, Run};
use crate::status::Status;
use crate::store::{Clock, EventQuery, Lane, Query, Read, Relative, Retention, Visitor, Write};
use crate::task::{Attachment, Comment, Failure, LaneKey, Task};
use crate::time::Time;
use crate::{Error, Result};

/// Events that wait to be written at most.
const UNTOLD: usize = 1024;

/// A statement with its values.
pub(super) type Bound<'q> = Statement<'q, Sqlite, SqliteArguments>;

/// A transaction. What is not committed did not happen: the lease takes it back.
pub(super) struct Transaction {
    connections: Arc<Connections>,
    lease: Lease,
    now: Time,
    /// What goes to the database before the next that is asked of it, at the
    /// latest with the commit, so that it costs no trip of its own.
    pub(super) unwritten: Script,
    /// Events that go there before the next that needs them.
    pub(super) untold: Vec<NewEvent>,
    /// Whether something failed, so that there is nothing whole to commit.
    spoiled: bool,
}

impl Transaction {
    /// Begins to read. The board is seen as it is at the first look.
    pub(super) async fn read(connections: &Arc<Connections>, clock: &Clock) -> Result<Self> {
        let mut lease = connections.reader().await?;
        let begun = lease.on().execute("BEGIN").await;
        begun.map_err(|error| explain(connections.path(), error))?;
        Ok(Self::begun(connections, lease, clock))
    }

    /// Begins to write, as soon as no other process does.
    pub(super) async fn write(connections: &Arc<Connections>, clock: &Clock) -> Result<Self> {
        let mut patience = Patience::new(connections.path());
        loop {
            let mut lease = connections.writer().await?;
            // With the lock taken at once, nothing later in the transaction
            // can find the file busy.
            match lease.on().execute("BEGIN IMMEDIATE").await {
                Ok(_) => return Ok(Self::begun(connections, lease, clock)),
                Err(error) if is_busy(&error) => {
                    lease.give_back();
                    patience.pause().await?;
                }
                Err(error) => return Err(explain(connections.path(), error)),
            }
        }
    }

    fn begun(connections: &Arc<Connections>, lease: Lease, clock: &Clock) -> Self {
        let now = clock.now();
        Self {
            connections: Arc::clone(connections),
            lease,
            now,
            unwritten: Script::default(),
            untold: Vec::new(),
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
        script: Script,
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
    pub(super) async fn run(&mut self, script: Script) -> Result<u64> {
        let (text, arguments) = script.into_parts();
        self.execute(sqlx::query_with(AssertSqlSafe(text), arguments)).await
    }

    /// Returns all rows of a statement that was put together.
    pub(super) async fn ask(&mut self, script: Script) -> Result<Vec<SqliteRow>> {
        let (text, arguments) = script.into_parts();
        self.all(sqlx::query_with(AssertSqlSafe(text), arguments)).await
    }
}

#[async_trait]
impl Read for Transaction {
    fn now(&self) -> Time {
        self.now
    }

    async fn task(&mut self, id: &TaskId) -> Result<Option<Task>> {
        self.task_named(id).await
    }

    async fn names_like(&mut self, prefix: &str, limit: u32) -> Result<Vec<TaskId>> {
        self.task_names(prefix, limit).await
    }

    async fn task_with_key(&mut self, key: &str) -> Result<Option<Task>> {
        self.task_keyed(key).await
    }

    async fn list(&mut self, query: &Query) -> Result<Vec<Task>> {
        self.list_tasks(query).await
    }

    async fn visit(&mut self, query: &Query, each: &mut Visitor<'_>) -> Result<()> {
        self.visit_tasks(query, each).await
    }

    async fn count(&mut self, query: &Query) -> Result<u64> {
        self.count_tasks(query).await
    }

    async fn parents(&mut self, id: &TaskId) -> Result<Vec<Relative>> {
        self.parents_of(id).await
    }

    async fn children(&mut self, id: &TaskId) -> Result<Vec<Relative>> {
        self.children_of(id).await
    }

    async fn waits_for(&mut self, from: &TaskId, to: &TaskId) -> Result<bool> {
        self.is_reached(from, to).await
    }

    async fn comments(&mut self, id: &TaskId, last: u32) -> Result<Vec<Comment>> {
        self.last_comments(id, last).await
    }

    async fn events(&mut self, id: &TaskId, last: u32) -> Result<Vec<Event>> {
        self.last_events(id, last).await
    }

    async fn events_after(&mut self, query: &EventQuery) -> Result<Vec<Event>> {
        self.events_since(query).await
    }

    async fn last_event(&mut self) -> Result<i64> {
        self.newest_event().await
    }

    async fn run(&mut self, id: RunId) -> Result<Option<Run>> {
        self.run_numbered(id).await
    }

    async fn finished_after(
        &mut self,
        since: Time,
        seq: i64,
        limit: u32,
    ) -> Result<Vec<(Time, i64, TaskId)>> {
        self.tasks_finished_after(since, seq, limit).await
    }

    async fn runs(&mut self, id: &TaskId, last: u32) -> Result<Vec<Run>> {
        self.last_runs(id, last).await
    }

    async fn live_runs(&mut self) -> Result<Vec<Run>> {
        self.runs_alive().await
    }

    async fn completed_by(&mut self, profile: &str, last: u32) -> Result<Vec<(Run, String)>> {
        self.runs_completed_by(profile, last).await
    }

    async fn made_by(&mut self, run: RunId) -> Result<u32> {
        self.tasks_made_by(run).await
    }

    async fn failures(&mut self, id: &TaskId) -> Result<Vec<Failure>> {
        self.failures_of(id).await
    }

    async fn attachments(&mut self, id: &TaskId) -> Result<Vec<Attachment>> {
        self.attachments_of(id).await
    }

    async fn attachment(&mut self, number: i64) -> Result<Option<Attachment>> {
        self.attachment_numbered(number).await
    }

    async fn stored_files(&mut self) -> Result<Vec<String>> {
        self.files_stored().await
    }

    async fn lanes(&mut self) -> Result<Vec<Lane>> {
        self.lanes_in_use().await
    }

    async fn queue(&mut self, lane: &LaneKey, limit: u32) -> Result<Vec<Task>> {
        self.queue_of(lane, limit).await
    }

    async fn due(&mut self, limit: u32) -> Result<Vec<Task>> {
        self.tasks_due(limit).await
    }

    async fn guarded(&mut self, limit: u32) -> Result<Vec<Task>> {
        self.tasks_guarded(limit).await
    }

    async fn next_moment(&mut self) -> Result<Option<Time>> {
        self.first_moment().await
    }

    async fn running(&mut self) -> Result<Vec<Task>> {
        self.tasks_running().await
    }

    async fn counts(&mut self) -> Result<Vec<(Status, Option<String>, u64)>> {
        self.count_by_status().await
    }

    async fn oldest_queued(&mut self) -> Result<Option<Time>> {
        self.queued_longest().await
    }

    async fn failing(&mut self, at_least: u32, limit: u32) -> Result<Vec<(TaskId, Failure)>> {
        self.tasks_failing(at_least, limit).await
    }

    async fn blocked_before(&mut self, moment: Time, limit: u32) -> Result<Vec<Task>> {
        self.tasks_blocked_before(moment, limit).await
    }

    async fn blocked_often(
        &mut self,
        since: Time,
        at_least: u32,
        limit: u32,
    ) -> Result<Vec<(TaskId, u32)>> {
        self.tasks_blocked_often(since, at_least, limit).await
    }

    async fn note(&mut self, name: &str) -> Result<Option<Json>> {
        self.note_named(name).await
    }
}

#[async_trait]
impl Write for Transaction {
    async fn insert_tasks(&mut self, tasks: &[Task]) -> Result<()> {
        self.add_tasks(tasks).await
    }

    async fn update_task(&mut self, before: &Task, after: &Task) -> Result<()> {
        self.change_task(before, after).await
    }

    async fn delete_task(&mut self, task: &Task) -> Result<()> {
        self.remove_task(task).await
    }

    async fn link(&mut self, parent: &TaskId, child: &TaskId) -> Result<bool> {
        self.add_link(parent, child).await
    }

    async fn unlink(&mut self, parent: &TaskId, child: &TaskId) -> Result<bool> {
        self.remove_link(parent, child).await
    }

    async fn comment(&mut self, id: &TaskId, author: &str, body: &str) -> Result<i64> {
        self.add_comment(id, author, body).await
    }

    async fn tell(&mut self, events: &[NewEvent]) -> Result<()> {
        self.untold.extend_from_slice(events);
        // However much is told at once, little of it waits here.
        if self.untold.len() > UNTOLD { self.tell_all().await } else { Ok(()) }
    }

    async fn insert_run(&mut self, run: &Run) -> Result<RunId> {
        self.add_run(run).await
    }

    async fn update_run(&mut self, run: &Run) -> Result<()> {
        self.change_run(run).await
    }

    async fn count_failure(&mut self, id: &TaskId, cause: Outcome, error: &str) -> Result<u32> {
        self.add_failure(id, cause, error).await
    }

    async fn clear_failures(&mut self, id: &TaskId) -> Result<()> {
        self.forget_failures(id).await
    }

    async fn add_attachment(&mut self, attachment: &Attachment) -> Result<i64> {
        self.insert_attachment(attachment).await
    }

    async fn remove_attachment(&mut self, number: i64) -> Result<()> {
        self.delete_attachment(number).await
    }

    async fn set_note(&mut self, name: &str, value: Option<&Json>) -> Result<()> {
        self.keep_note(name, value).await
    }

    async fn prune(&mut self, keep: &Retention) -> Result<(u64, u64)> {
        self.forget(keep).await
    }

    async fn commit(mut self: Box<Self>) -> Result<()> {
        if self.spoiled {
            let reason = "something in it failed; nothing was kept".to_owned();
            return Err(Error::Unreadable { what: "the transaction".to_owned(), reason });
        }
        let mut last = self.tell_all_but_last().await?;
        last.push("COMMIT");
        Transaction::run(&mut self, last).await?;
        self.lease.give_back();
        Ok(())
    }
}
