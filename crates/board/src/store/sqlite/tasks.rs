//! Rows of tasks.

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use sqlx::sqlite::SqliteRow;
use vestal_config::ProfileName;

use super::queue::Deltas;
use super::row::{ColumnValue, Columns, StatementBatch};
use super::transaction::Transaction;
use crate::id::{HostName, RunId, TaskId};
use crate::store::{ReadTasks, WriteTasks};
use crate::task::{BlockKind, Status, Task, TaskWorkspace};
use crate::{Error, Result};

/// How many columns a task is written to.
pub(super) const WIDTH: usize = 41;

/// The columns that a task is written to.
pub(super) const COLUMNS: [&str; WIDTH] = [
    "id",
    "status",
    "shelf",
    "queue_as",
    "rank",
    "assignee",
    "tenant",
    "workspace_host",
    "priority",
    "created_at",
    "updated_at",
    "started_at",
    "completed_at",
    "queued_at",
    "wake_at",
    "guard",
    "pending_parents",
    "current_run",
    "running_as",
    "created_by",
    "created_by_run",
    "depth",
    "session_id",
    "workspace_kind",
    "workspace_path",
    "workspace_branch",
    "max_runtime",
    "max_retries",
    "model",
    "idempotency_key",
    "block_kind",
    "block_recurrences",
    "gate",
    "needs_review",
    "reviewer",
    "title",
    "attention",
    "skills",
    "block_reason",
    "result",
    "body",
];

/// The columns that a task is read from, in the order of [`read`].
macro_rules! columns {
    () => {
        "seq, id, status, assignee, tenant, workspace_host, priority, created_at, updated_at, \
         started_at, completed_at, queued_at, wake_at, guard, pending_parents, current_run, \
         running_as, created_by, created_by_run, depth, session_id, workspace_kind, \
         workspace_path, workspace_branch, max_runtime, max_retries, model, idempotency_key, \
         block_kind, block_recurrences, gate, needs_review, reviewer, title, attention, skills, \
         block_reason, result, body"
    };
}
pub(super) use columns;

/// Where lists show a task, before its rank: first what a person should look
/// at, then the rest, by where it stands.
pub(super) const fn shelf(status: Status, attention: bool) -> i64 {
    let place = match status {
        Status::Running => 0,
        Status::Review => 1,
        Status::Blocked => 2,
        Status::Ready => 3,
        Status::Scheduled => 4,
        Status::Todo => 5,
        Status::Triage => 6,
        Status::Done => 7,
        Status::Archived => return ARCHIVED,
    };
    if attention { place } else { CALM + place }
}

/// The first shelf of tasks that nobody needs to look at.
pub(super) const CALM: i64 = 10;
/// The last shelf.
pub(super) const ARCHIVED: i64 = 19;

/// Returns the status of tasks on a shelf.
pub(super) fn status_on(wanted: i64) -> Option<Status> {
    let holds = |status: Status| [true, false].iter().any(|on| shelf(status, *on) == wanted);
    Status::ALL.iter().copied().find(|status| holds(*status))
}

fn path(path: Option<&Path>) -> Result<ColumnValue<'_>> {
    let Some(path) = path else { return Ok(ColumnValue::Null) };
    path.to_str().map(ColumnValue::from).ok_or_else(|| Error::Invalid {
        what: format!("the directory {}", path.display()),
        reason: "is not named in UTF-8".to_owned(),
    })
}

/// Returns what is written, in the order of [`COLUMNS`].
pub(super) fn write(task: &Task) -> Result<[ColumnValue<'_>; WIDTH]> {
    let skills = if task.skills.is_empty() {
        ColumnValue::from("[]")
    } else {
        ColumnValue::from(serde_json::Value::from(task.skills.clone()).to_string())
    };
    Ok([
        (&task.id).into(),
        task.status.as_str().into(),
        shelf(task.status, task.attention.is_some()).into(),
        task.queue_as().into(),
        task.rank().into(),
        task.assignee.as_ref().into(),
        task.tenant.as_deref().unwrap_or_default().into(),
        task.workspace_host.as_ref().map_or("", HostName::as_str).into(),
        task.priority.into(),
        task.created_at.into(),
        task.updated_at.into(),
        task.started_at.into(),
        task.completed_at.into(),
        task.queued_at.into(),
        task.wake_at.into(),
        task.guard.as_deref().into(),
        task.pending_parents.into(),
        task.current_run.into(),
        task.running_as.as_ref().into(),
        task.created_by.as_str().into(),
        task.created_by_run.into(),
        task.depth.into(),
        task.session_id.as_deref().into(),
        task.workspace.kind().into(),
        path(task.workspace.path())?,
        task.workspace.branch().into(),
        task.max_runtime.into(),
        task.max_retries.into(),
        task.model.as_deref().into(),
        task.idempotency_key.as_deref().into(),
        task.block_kind.map(BlockKind::as_str).into(),
        task.block_recurrences.into(),
        task.gate.into(),
        task.needs_review.into(),
        task.reviewer.as_ref().into(),
        task.title.as_str().into(),
        task.attention.as_deref().into(),
        skills,
        task.block_reason.as_deref().into(),
        task.result.as_deref().into(),
        task.body.as_str().into(),
    ])
}

/// Returns the task of a row of [`columns`].
pub(super) fn read(row: &SqliteRow) -> Result<Task> {
    let mut columns = Columns::of(row, "a task");
    Ok(Task {
        seq: columns.int()?,
        id: columns.word()?,
        status: columns.word()?,
        assignee: columns.profiles()?,
        tenant: Some(columns.text()?).filter(|tenant| !tenant.is_empty()),
        workspace_host: Some(columns.text()?)
            .filter(|host| !host.is_empty())
            .map(|host| HostName::new(&host)),
        priority: columns.int()?,
        created_at: columns.time()?,
        updated_at: columns.time()?,
        started_at: columns.times()?,
        completed_at: columns.times()?,
        queued_at: columns.times()?,
        wake_at: columns.times()?,
        guard: columns.texts()?,
        pending_parents: columns.count()?,
        current_run: columns.runs()?,
        running_as: columns.profiles()?,
        created_by: columns.text()?,
        created_by_run: columns.runs()?,
        depth: columns.count()?,
        session_id: columns.texts()?,
        workspace: workspace(&mut columns)?,
        max_runtime: columns.durations()?,
        max_retries: columns.counts()?,
        model: columns.texts()?,
        idempotency_key: columns.texts()?,
        block_kind: columns.words()?,
        block_recurrences: columns.count()?,
        gate: columns.bool()?,
        needs_review: columns.bool()?,
        reviewer: columns.profiles()?,
        title: columns.text()?,
        attention: columns.texts()?,
        skills: columns.json()?,
        block_reason: columns.texts()?,
        result: columns.texts()?,
        body: columns.text()?,
    })
}

fn workspace(columns: &mut Columns<'_>) -> Result<TaskWorkspace> {
    let (kind, path, branch) = (columns.text()?, columns.texts()?, columns.texts()?);
    match (kind.as_str(), path.map(PathBuf::from)) {
        ("scratch", _) => Ok(TaskWorkspace::Scratch),
        ("dir", Some(path)) => Ok(TaskWorkspace::Dir { path }),
        ("worktree", Some(path)) => Ok(TaskWorkspace::Worktree { path, branch }),
        _ => Err(Error::Unreadable {
            what: "the workspace of a task".to_owned(),
            reason: format!("{kind:?} is not a kind of workspace, or has no directory"),
        }),
    }
}

/// Returns the profile's name as it is stored.
pub(super) fn folded(name: &str) -> String {
    ProfileName::new(name).map_or_else(|_| name.to_owned(), |name| name.as_str().to_owned())
}

/// Tasks that are written by one statement: more gain nothing.
const BATCH: usize = 32;

/// Keeps the numbers of events from coming back when the newest go.
const PLACEHOLDER: &str =
    "INSERT INTO events (task_id, kind, created_at, payload) VALUES (NULL, 'deleted', ";

impl Transaction {
    /// Does it, and makes sure that it changed as many rows as it had to.
    async fn expect(&mut self, script: StatementBatch, rows: usize, what: &str) -> Result<()> {
        let changed = Self::run_script(self, script).await?;
        if usize::try_from(changed) == Ok(rows) {
            return Ok(());
        }
        let reason = format!("{changed} rows were changed in place of {rows}; nothing was kept");
        Err(self.spoil(Error::Unreadable { what: what.to_owned(), reason }))
    }
}

/// Adds the statement that adds tasks.
fn insertion(script: &mut StatementBatch, rows: &[[ColumnValue<'_>; WIDTH]]) {
    script.push("INSERT INTO tasks (").push(&COLUMNS.join(", ")).push(") VALUES ");
    for (at, values) in rows.iter().enumerate() {
        script.push(if at > 0 { "," } else { "" }).tuple(values);
    }
    script.end();
}

#[async_trait]
impl ReadTasks for Transaction {
    async fn task(&mut self, id: &TaskId) -> Result<Option<Task>> {
        let text = concat!("SELECT ", columns!(), " FROM tasks WHERE id = $1");
        let row = self.first(sqlx::query(text).bind(id.as_str())).await?;
        row.as_ref().map(read).transpose()
    }

    async fn names_like(&mut self, prefix: &str, limit: u32) -> Result<Vec<TaskId>> {
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

    async fn task_with_key(&mut self, key: &str) -> Result<Option<Task>> {
        let text = concat!(
            "SELECT ",
            columns!(),
            " FROM tasks WHERE idempotency_key = $1 AND status <> 'archived'"
        );
        let row = self.first(sqlx::query(text).bind(key.to_owned())).await?;
        row.as_ref().map(read).transpose()
    }

    async fn made_by(&mut self, run: RunId) -> Result<u32> {
        let text = "SELECT count(*) FROM tasks WHERE created_by_run = $1";
        let row = self.first(sqlx::query(text).bind(run.get())).await?;
        row.as_ref().map_or(Ok(0), |row| super::row::Columns::of(row, "a count").count())
    }
}

#[async_trait]
impl WriteTasks for Transaction {
    async fn insert_tasks(&mut self, tasks: &[Task]) -> Result<()> {
        let mut lanes = Deltas::default();
        for task in tasks {
            lanes.add(task, 1);
        }
        let mut batches = tasks.chunks(BATCH).peekable();
        while let Some(batch) = batches.next() {
            let rows: Vec<_> = batch.iter().map(write).collect::<Result<_>>()?;
            let mut script = std::mem::take(&mut self.unwritten);
            insertion(&mut script, &rows);
            if batches.peek().is_some() {
                Self::run_script(self, script).await?;
            } else {
                lanes.write(&mut script);
                self.unwritten = script;
            }
        }
        Ok(())
    }

    async fn update_task(&mut self, before: &Task, after: &Task) -> Result<()> {
        let (old, new) = (write(before)?, write(after)?);
        let mut script = StatementBatch::of("UPDATE tasks SET ");
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

    async fn delete_task(&mut self, task: &Task) -> Result<()> {
        // Pending reports about it go with it.
        self.pending_events.retain(|event| event.task != task.id);
        let mut script = StatementBatch::of(PLACEHOLDER);
        script.value(self.moment()).push(", '{}')").end();
        script.push("DELETE FROM tasks WHERE id = ").value(&task.id).end();
        let mut lanes = Deltas::default();
        lanes.add(task, -1);
        let changed = 2 + lanes.write(&mut script);
        self.expect(script, changed, "a task").await
    }
}
