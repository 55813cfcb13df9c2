//! Rows of events, and pruning of old ones.

use async_trait::async_trait;
use sqlx::sqlite::SqliteRow;

use super::row::{ColumnValue, Columns, StatementBatch};
use super::tasks::folded;
use super::transaction::Transaction;
use crate::Result;
use crate::event::{NewTaskEvent, TaskEvent};
use crate::id::TaskId;
use crate::store::{EventQuery, ReadEvents, Retention, WriteEvents};
use crate::time::Time;

/// Events that are written by one statement.
const BATCH: usize = 64;

/// The most events that wait in a transaction before they are written.
const MAX_PENDING_EVENTS: usize = 1024;

fn read(row: &SqliteRow) -> Result<TaskEvent> {
    let mut columns = Columns::of(row, "an event");
    Ok(TaskEvent {
        id: columns.int()?,
        task_id: columns.word()?,
        run_id: columns.runs()?,
        kind: columns.text()?,
        created_at: columns.time()?,
        payload: columns.json()?,
    })
}

/// Adds the statement that adds events; nothing for none.
fn insertion(script: &mut StatementBatch, events: &[NewTaskEvent], now: Time) {
    if events.is_empty() {
        return;
    }
    script.push("INSERT INTO events (task_id, run_id, kind, created_at, payload) VALUES ");
    for (at, event) in events.iter().enumerate() {
        let values: [ColumnValue<'_>; 5] = [
            (&event.task).into(),
            event.run.into(),
            event.kind.as_str().into(),
            now.into(),
            event.payload.to_string().into(),
        ];
        script.push(if at > 0 { "," } else { "" }).tuple(&values);
    }
    script.end();
}

impl Transaction {
    /// Writes what is to be written and the events that are to be reported, but for
    /// the last of it, which is returned.
    pub(super) async fn write_events_but_last(&mut self) -> Result<StatementBatch> {
        let now = self.moment();
        let events = std::mem::take(&mut self.pending_events);
        let mut rest = events.as_slice();
        while rest.len() > BATCH {
            let (batch, others) = rest.split_at(BATCH);
            let mut script = std::mem::take(&mut self.unwritten);
            insertion(&mut script, batch, now);
            Self::run_script(self, script).await?;
            rest = others;
        }
        let mut script = std::mem::take(&mut self.unwritten);
        insertion(&mut script, rest, now);
        Ok(script)
    }

    /// Writes the events that are to be reported.
    pub(super) async fn write_events(&mut self) -> Result<()> {
        let last = self.write_events_but_last().await?;
        self.unwritten = last;
        Ok(())
    }
}

#[async_trait]
impl ReadEvents for Transaction {
    async fn events(&mut self, id: &TaskId, last: u32) -> Result<Vec<TaskEvent>> {
        self.write_events().await?;
        let text = "SELECT id, task_id, run_id, kind, created_at, payload FROM events \
                    WHERE task_id = $1 ORDER BY id DESC LIMIT $2";
        let statement = sqlx::query(text).bind(id.as_str()).bind(i64::from(last));
        let mut events = self.each(statement, read).await?;
        events.reverse();
        Ok(events)
    }

    async fn last_event(&mut self) -> Result<i64> {
        self.write_events().await?;
        let row = self.first(sqlx::query("SELECT max(id) FROM events")).await?;
        let newest = row.as_ref().map_or(Ok(None), |row| Columns::of(row, "an event").ints())?;
        Ok(newest.unwrap_or(0))
    }

    async fn events_after(&mut self, query: &EventQuery) -> Result<Vec<TaskEvent>> {
        self.write_events().await?;
        let mut script = StatementBatch::of(
            "SELECT events.id, events.task_id, events.run_id, events.kind, events.created_at, \
             events.payload FROM events",
        );
        if query.assignee.is_some() || query.tenant.is_some() {
            script.push(" JOIN tasks ON tasks.id = events.task_id");
        }
        script.push(" WHERE events.id > ").value(query.after);
        script.push(" AND events.task_id IS NOT NULL");
        if let Some(task) = &query.task {
            script.push(" AND events.task_id = ").value(task);
        }
        if !query.kinds.is_empty() {
            let kinds: Vec<ColumnValue<'_>> =
                query.kinds.iter().map(|kind| ColumnValue::from(kind.as_str())).collect();
            script.push(" AND events.kind IN ").tuple(&kinds);
        }
        if let Some(assignee) = &query.assignee {
            script.push(" AND tasks.assignee = ").value(folded(assignee));
        }
        if let Some(tenant) = &query.tenant {
            script.push(" AND tasks.tenant = ").value(tenant.as_str());
        }
        script.push(" ORDER BY events.id LIMIT ").value(query.limit);
        self.ask(script).await?.iter().map(read).collect()
    }
}

#[async_trait]
impl WriteEvents for Transaction {
    async fn prune(&mut self, keep: &Retention) -> Result<(u64, u64)> {
        self.write_events().await?;
        let age = i64::try_from(keep.events.as_millis()).unwrap_or(i64::MAX);
        let before = self.moment().millis().saturating_sub(age);
        let events = sqlx::query(
            "DELETE FROM events WHERE created_at < $1 AND kind <> 'created' \
             AND task_id IS NOT NULL AND id < (SELECT max(id) FROM events) AND $2 <= ( \
                 SELECT count(*) FROM ( \
                     SELECT 1 FROM events AS newer \
                     WHERE newer.task_id = events.task_id AND newer.id > events.id LIMIT $2 \
                 ) AS kept)",
        )
        .bind(before)
        .bind(i64::from(keep.events_per_task));
        let events = self.execute(events).await?;
        // The newest row keeps its number from coming back.
        let places = "DELETE FROM events WHERE task_id IS NULL \
                      AND id < (SELECT max(id) FROM events)";
        self.execute(sqlx::query(places)).await?;
        // A run that may have left something is kept until that is settled.
        let runs = sqlx::query(
            "DELETE FROM runs WHERE ended_at < $1 AND gone = 1 AND $2 <= ( \
                 SELECT count(*) FROM ( \
                     SELECT 1 FROM runs AS newer \
                     WHERE newer.task_id = runs.task_id AND newer.id > runs.id LIMIT $2 \
                 ) AS kept)",
        )
        .bind(before)
        .bind(i64::from(keep.runs_per_task));
        let runs = self.execute(runs).await?;
        let lanes = "DELETE FROM lanes WHERE queued = 0 AND guarded = 0 AND running = 0";
        self.execute(sqlx::query(lanes)).await?;
        Ok((events, runs))
    }

    async fn add_events(&mut self, events: &[NewTaskEvent]) -> Result<()> {
        self.pending_events.extend_from_slice(events);
        // Many events at once are not kept in memory.
        if self.pending_events.len() > MAX_PENDING_EVENTS {
            self.write_events().await
        } else {
            Ok(())
        }
    }
}
