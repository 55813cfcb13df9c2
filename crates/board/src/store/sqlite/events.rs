//! What happened to tasks.

use sqlx::sqlite::SqliteRow;

use super::row::{Columns, Value};
use super::script::Script;
use super::task_row::folded;
use super::transaction::Transaction;
use crate::Result;
use crate::event::{Event, NewEvent};
use crate::id::TaskId;
use crate::store::EventQuery;
use crate::time::Time;

/// Events that are written by one statement.
const BATCH: usize = 64;

fn read(row: &SqliteRow) -> Result<Event> {
    let mut columns = Columns::of(row, "an event");
    Ok(Event {
        id: columns.int()?,
        task_id: columns.word()?,
        run_id: columns.runs()?,
        kind: columns.text()?,
        created_at: columns.time()?,
        payload: columns.json()?,
    })
}

/// Adds the statement that adds events; nothing for none.
fn insertion(script: &mut Script, events: &[NewEvent], now: Time) {
    if events.is_empty() {
        return;
    }
    script.push("INSERT INTO events (task_id, run_id, kind, created_at, payload) VALUES ");
    for (at, event) in events.iter().enumerate() {
        let values: [Value<'_>; 5] = [
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
    /// Writes what is to be written and the events that are to be told, but for
    /// the last of it, which is returned.
    pub(super) async fn tell_all_but_last(&mut self) -> Result<Script> {
        let now = self.moment();
        let events = std::mem::take(&mut self.untold);
        let mut rest = events.as_slice();
        while rest.len() > BATCH {
            let (batch, others) = rest.split_at(BATCH);
            let mut script = std::mem::take(&mut self.unwritten);
            insertion(&mut script, batch, now);
            Self::run(self, script).await?;
            rest = others;
        }
        let mut script = std::mem::take(&mut self.unwritten);
        insertion(&mut script, rest, now);
        Ok(script)
    }

    /// Writes the events that are to be told.
    pub(super) async fn tell_all(&mut self) -> Result<()> {
        let last = self.tell_all_but_last().await?;
        self.unwritten = last;
        Ok(())
    }

    pub(super) async fn last_events(&mut self, id: &TaskId, last: u32) -> Result<Vec<Event>> {
        self.tell_all().await?;
        let text = "SELECT id, task_id, run_id, kind, created_at, payload FROM events \
                    WHERE task_id = $1 ORDER BY id DESC LIMIT $2";
        let statement = sqlx::query(text).bind(id.as_str()).bind(i64::from(last));
        let mut events = self.each(statement, read).await?;
        events.reverse();
        Ok(events)
    }

    pub(super) async fn newest_event(&mut self) -> Result<i64> {
        self.tell_all().await?;
        let row = self.first(sqlx::query("SELECT max(id) FROM events")).await?;
        let newest = row.as_ref().map_or(Ok(None), |row| Columns::of(row, "an event").ints())?;
        Ok(newest.unwrap_or(0))
    }

    pub(super) async fn events_since(&mut self, query: &EventQuery) -> Result<Vec<Event>> {
        self.tell_all().await?;
        let mut script = Script::of(
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
            let kinds: Vec<Value<'_>> =
                query.kinds.iter().map(|kind| Value::from(kind.as_str())).collect();
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
