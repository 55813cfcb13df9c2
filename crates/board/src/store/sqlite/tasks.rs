//! Tasks, one or some at a time.

use super::lanes::Deltas;
use super::row::Value;
use super::script::Script;
use super::task_row::{self, COLUMNS, WIDTH};
use super::transaction::Transaction;
use crate::id::{RunId, TaskId};
use crate::task::Task;
use crate::{Error, Result};

/// Tasks that are written by one statement: more gain nothing.
const BATCH: usize = 32;

/// Keeps the numbers of events from coming back when the newest go.
const PLACEHOLDER: &str =
    "INSERT INTO events (task_id, kind, created_at, payload) VALUES (NULL, 'deleted', ";

impl Transaction {
    pub(super) async fn task_named(&mut self, id: &TaskId) -> Result<Option<Task>> {
        let text = concat!("SELECT ", task_row::columns!(), " FROM tasks WHERE id = $1");
        let row = self.first(sqlx::query(text).bind(id.as_str())).await?;
        row.as_ref().map(task_row::read).transpose()
    }

    pub(super) async fn task_names(&mut self, prefix: &str, limit: u32) -> Result<Vec<TaskId>> {
        if !TaskId::is_prefix(prefix) {
            return Ok(Vec::new());
        }
        // All names that begin like this lie between it and it with a letter
        // behind that is larger than any of a name.
        let text = "SELECT id FROM tasks WHERE id >= $1 AND id < $2 ORDER BY id LIMIT $3";
        let statement = sqlx::query(text)
            .bind(prefix.to_owned())
            .bind(format!("{prefix}~"))
            .bind(i64::from(limit));
        self.each(statement, |row| super::row::Columns::of(row, "a task").word()).await
    }

    pub(super) async fn task_keyed(&mut self, key: &str) -> Result<Option<Task>> {
        let text = concat!(
            "SELECT ",
            task_row::columns!(),
            " FROM tasks WHERE idempotency_key = $1 AND status <> 'archived'"
        );
        let row = self.first(sqlx::query(text).bind(key.to_owned())).await?;
        row.as_ref().map(task_row::read).transpose()
    }

    pub(super) async fn tasks_made_by(&mut self, run: RunId) -> Result<u32> {
        let text = "SELECT count(*) FROM tasks WHERE created_by_run = $1";
        let row = self.first(sqlx::query(text).bind(run.get())).await?;
        row.as_ref().map_or(Ok(0), |row| super::row::Columns::of(row, "a count").count())
    }

    pub(super) async fn add_tasks(&mut self, tasks: &[Task]) -> Result<()> {
        let mut lanes = Deltas::default();
        for task in tasks {
            lanes.add(task, 1);
        }
        let mut batches = tasks.chunks(BATCH).peekable();
        while let Some(batch) = batches.next() {
            let rows: Vec<_> = batch.iter().map(task_row::write).collect::<Result<_>>()?;
            let mut script = std::mem::take(&mut self.unwritten);
            insertion(&mut script, &rows);
            if batches.peek().is_some() {
                Self::run(self, script).await?;
            } else {
                lanes.write(&mut script);
                self.unwritten = script;
            }
        }
        Ok(())
    }

    pub(super) async fn change_task(&mut self, before: &Task, after: &Task) -> Result<()> {
        let (old, new) = (task_row::write(before)?, task_row::write(after)?);
        let mut script = Script::of("UPDATE tasks SET ");
        // Only what changes is written: an index is touched when one of its
        // columns is named, whatever its value.
        let changes = COLUMNS.iter().zip(old.iter().zip(&new)).filter(|(_, (old, new))| old != new);
        let mut any = false;
        for (column, (_, value)) in changes {
            script.push(if any { ", " } else { "" }).push(column).push(" = ").bind(value);
            any = true;
        }
        if !any {
            return Ok(());
        }
        script.push(" WHERE id = ").value(&before.id).end();
        let mut lanes = Deltas::default();
        lanes.add(before, -1);
        lanes.add(after, 1);
        let changed = 1 + lanes.write(&mut script);
        self.expect(script, changed, "a task").await
    }

    pub(super) async fn remove_task(&mut self, task: &Task) -> Result<()> {
        // What is still to be told about it goes with it.
        self.untold.retain(|event| event.task != task.id);
        let mut script = Script::of(PLACEHOLDER);
        script.value(self.moment()).push(", '{}')").end();
        script.push("DELETE FROM tasks WHERE id = ").value(&task.id).end();
        let mut lanes = Deltas::default();
        lanes.add(task, -1);
        let changed = 2 + lanes.write(&mut script);
        self.expect(script, changed, "a task").await
    }

    /// Does it, and makes sure that it changed as many rows as it had to.
    async fn expect(&mut self, script: Script, rows: usize, what: &str) -> Result<()> {
        let changed = Self::run(self, script).await?;
        if usize::try_from(changed) == Ok(rows) {
            return Ok(());
        }
        let reason = format!("{changed} rows were changed in place of {rows}; nothing was kept");
        Err(self.spoil(Error::Unreadable { what: what.to_owned(), reason }))
    }
}

/// Adds the statement that adds tasks.
fn insertion(script: &mut Script, rows: &[[Value<'_>; WIDTH]]) {
    script.push("INSERT INTO tasks (").push(&COLUMNS.join(", ")).push(") VALUES ");
    for (at, values) in rows.iter().enumerate() {
        script.push(if at > 0 { "," } else { "" }).tuple(values);
    }
    script.end();
}
