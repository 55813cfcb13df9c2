//! Rows of runs, and counts of failures.

use async_trait::async_trait;
use sqlx::sqlite::SqliteRow;

use super::row::{ColumnValue, Columns, StatementBatch};
use super::transaction::{Bound, Transaction};
use crate::id::{HostId, HostName, RunId, TaskId};
use crate::run::{Outcome, Run, RunProcess};
use crate::store::{ReadRuns, WriteRuns};
use crate::task::FailureCount;
use crate::{Error, Result};

/// How many columns a run is written to.
pub(super) const WIDTH: usize = 26;

/// The columns that a run is written to.
pub(super) const COLUMNS: [&str; WIDTH] = [
    "task_id",
    "profile",
    "role",
    "owner",
    "host_name",
    "host_boot",
    "process_host",
    "process_boot",
    "process_pid",
    "process_start",
    "started_at",
    "expires_at",
    "heartbeat_at",
    "activity_at",
    "graced",
    "max_runtime",
    "stopping",
    "ended_at",
    "outcome",
    "gone",
    "workspace",
    "session_id",
    "note",
    "error",
    "summary",
    "metadata",
];

/// The columns that a run is read from, in the order of [`read`].
macro_rules! columns {
    () => {
        "runs.id, runs.task_id, runs.profile, runs.role, runs.owner, runs.host_name, \
         runs.host_boot, runs.process_host, runs.process_boot, runs.process_pid, \
         runs.process_start, runs.started_at, runs.expires_at, runs.heartbeat_at, \
         runs.activity_at, runs.graced, runs.max_runtime, runs.stopping, runs.ended_at, \
         runs.outcome, runs.gone, runs.workspace, runs.session_id, runs.note, runs.error, \
         runs.summary, runs.metadata"
    };
}

/// Returns what is written, in the order of [`COLUMNS`].
pub(super) fn write(run: &Run) -> [ColumnValue<'_>; WIDTH] {
    let (host, process) = (run.host.as_ref(), run.process.as_ref());
    [
        (&run.task_id).into(),
        run.profile.as_ref().into(),
        run.role.as_str().into(),
        run.owner.as_str().into(),
        host.map(|host| &host.name).into(),
        host.map(|host| host.boot.as_str()).into(),
        process.map(|process| &process.host.name).into(),
        process.map(|process| process.host.boot.as_str()).into(),
        process.map(|process| process.pid).into(),
        // Ticks since a boot are far from what the type cannot hold.
        process.map(|process| i64::try_from(process.start).unwrap_or(i64::MAX)).into(),
        run.started_at.into(),
        run.expires_at.into(),
        run.heartbeat_at.into(),
        run.activity_at.into(),
        run.graced.into(),
        run.max_runtime.into(),
        run.stopping.map(Outcome::as_str).into(),
        run.ended_at.into(),
        run.outcome.map(Outcome::as_str).into(),
        run.gone.into(),
        run.workspace.as_deref().into(),
        run.session_id.as_deref().into(),
        run.note.as_deref().into(),
        run.error.as_deref().into(),
        run.summary.as_deref().into(),
        run.metadata.as_ref().map(serde_json::Value::to_string).into(),
    ]
}

/// Returns the run of a row of [`columns`].
pub(super) fn read(row: &SqliteRow) -> Result<Run> {
    let mut columns = Columns::of(row, "a run");
    Ok(Run {
        id: RunId::new(columns.int()?),
        task_id: columns.word()?,
        profile: columns.profiles()?,
        role: columns.word()?,
        owner: columns.text()?,
        host: host(&mut columns)?,
        process: process(&mut columns)?,
        started_at: columns.time()?,
        expires_at: columns.time()?,
        heartbeat_at: columns.times()?,
        activity_at: columns.times()?,
        graced: columns.bool()?,
        max_runtime: columns.durations()?,
        stopping: columns.words()?,
        ended_at: columns.times()?,
        outcome: columns.words()?,
        gone: columns.bool()?,
        workspace: columns.texts()?,
        session_id: columns.texts()?,
        note: columns.texts()?,
        error: columns.texts()?,
        summary: columns.texts()?,
        metadata: columns.jsons()?,
    })
}

fn host(columns: &mut Columns<'_>) -> Result<Option<HostId>> {
    let (name, boot) = (columns.texts()?, columns.texts()?);
    Ok(name.zip(boot).map(|(name, boot)| HostId { name: HostName::new(&name), boot }))
}

fn process(columns: &mut Columns<'_>) -> Result<Option<RunProcess>> {
    let host = host(columns)?;
    let (pid, start) = (columns.counts()?, columns.counts()?);
    Ok(host.zip(pid).zip(start).map(|((host, pid), start)| RunProcess { host, pid, start }))
}

impl Transaction {
    /// Returns the one number that a statement answers with.
    pub(super) async fn number(&mut self, statement: Bound<'_>) -> Result<i64> {
        // All rows are asked for, so that the statement is wholly done.
        let rows = self.all(statement).await?;
        let row = rows.first().ok_or_else(|| Error::Unreadable {
            what: "a number".to_owned(),
            reason: "there is none".to_owned(),
        })?;
        Columns::of(row, "a number").int()
    }
}

#[async_trait]
impl ReadRuns for Transaction {
    async fn run(&mut self, id: RunId) -> Result<Option<Run>> {
        let text = concat!("SELECT ", columns!(), " FROM runs WHERE id = $1");
        let row = self.first(sqlx::query(text).bind(id.get())).await?;
        row.as_ref().map(read).transpose()
    }

    async fn runs(&mut self, id: &TaskId, last: u32) -> Result<Vec<Run>> {
        let text = concat!(
            "SELECT ",
            columns!(),
            " FROM runs WHERE task_id = $1 ORDER BY id DESC LIMIT $2"
        );
        let statement = sqlx::query(text).bind(id.as_str()).bind(i64::from(last));
        let mut runs = self.each(statement, read).await?;
        runs.reverse();
        Ok(runs)
    }

    async fn live_runs(&mut self) -> Result<Vec<Run>> {
        let text = concat!(
            "SELECT ",
            columns!(),
            " FROM runs WHERE ended_at IS NULL OR gone = 0 ORDER BY id"
        );
        self.each(sqlx::query(text), read).await
    }

    async fn completed_by(&mut self, profile: &str, last: u32) -> Result<Vec<(Run, String)>> {
        let text = concat!(
            "SELECT ",
            columns!(),
            ", tasks.title FROM runs JOIN tasks ON tasks.id = runs.task_id \
             WHERE runs.profile = $1 AND runs.outcome = 'completed' \
             ORDER BY runs.ended_at DESC, runs.id DESC LIMIT $2"
        );
        let statement = sqlx::query(text).bind(profile.to_owned()).bind(i64::from(last));
        self.each(statement, |row| {
            let title = Columns::of(row, "a task").skip(WIDTH + 1).text()?;
            Ok((read(row)?, title))
        })
        .await
    }

    async fn failures(&mut self, id: &TaskId) -> Result<Vec<FailureCount>> {
        let text = "SELECT cause, count, error, at FROM failures WHERE task_id = $1 ORDER BY cause";
        self.each(sqlx::query(text).bind(id.as_str()), |row| {
            let mut columns = Columns::of(row, "a failure");
            Ok(FailureCount {
                cause: columns.word()?,
                count: columns.count()?,
                error: columns.text()?,
                at: columns.time()?,
            })
        })
        .await
    }
}

#[async_trait]
impl WriteRuns for Transaction {
    async fn insert_run(&mut self, run: &Run) -> Result<RunId> {
        let mut script = StatementBatch::of("INSERT INTO runs (");
        script.push(&COLUMNS.join(", ")).push(") VALUES ").tuple(&write(run));
        script.push(" RETURNING id");
        let rows = self.ask(script).await?;
        let row = rows.first().ok_or_else(|| Error::Unreadable {
            what: "the number of a run".to_owned(),
            reason: "there is none".to_owned(),
        })?;
        Ok(RunId::new(Columns::of(row, "a run").int()?))
    }

    async fn update_run(&mut self, run: &Run) -> Result<()> {
        let mut script = StatementBatch::of("UPDATE runs SET ");
        for (at, (column, value)) in COLUMNS.iter().zip(&write(run)).enumerate() {
            script.push(if at > 0 { ", " } else { "" }).push(column).push(" = ").bind(value);
        }
        script.push(" WHERE id = ").value(run.id);
        match Self::run_script(self, script).await? {
            1 => Ok(()),
            _ => Err(Error::Unreadable {
                what: format!("run {}", run.id),
                reason: "it is not there".to_owned(),
            }),
        }
    }

    async fn count_failure(&mut self, id: &TaskId, cause: Outcome, error: &str) -> Result<u32> {
        let text = "INSERT INTO failures (task_id, cause, count, error, at) \
                    VALUES ($1, $2, 1, $3, $4) \
                    ON CONFLICT (task_id, cause) DO UPDATE SET count = failures.count + 1, \
                    error = excluded.error, at = excluded.at RETURNING count";
        let statement = sqlx::query(text)
            .bind(id.as_str())
            .bind(cause.as_str())
            .bind(error.to_owned())
            .bind(self.moment().millis());
        let count = self.number(statement).await?;
        Ok(u32::try_from(count).unwrap_or(u32::MAX))
    }

    async fn clear_failures(&mut self, id: &TaskId) -> Result<()> {
        let text = "DELETE FROM failures WHERE task_id = $1";
        self.execute(sqlx::query(text).bind(id.as_str())).await?;
        Ok(())
    }
}
