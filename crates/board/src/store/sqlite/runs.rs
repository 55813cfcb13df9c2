//! Attempts at tasks, and how they failed.

use super::row::Columns;
use super::run_row::{self, COLUMNS};
use super::script::Script;
use super::transaction::{Bound, Transaction};
use crate::id::{RunId, TaskId};
use crate::run::{Outcome, Run};
use crate::task::Failure;
use crate::{Error, Result};

impl Transaction {
    pub(super) async fn run_numbered(&mut self, id: RunId) -> Result<Option<Run>> {
        let text = concat!("SELECT ", run_row::columns!(), " FROM runs WHERE id = $1");
        let row = self.first(sqlx::query(text).bind(id.get())).await?;
        row.as_ref().map(run_row::read).transpose()
    }

    pub(super) async fn last_runs(&mut self, id: &TaskId, last: u32) -> Result<Vec<Run>> {
        let text = concat!(
            "SELECT ",
            run_row::columns!(),
            " FROM runs WHERE task_id = $1 ORDER BY id DESC LIMIT $2"
        );
        let statement = sqlx::query(text).bind(id.as_str()).bind(i64::from(last));
        let mut runs = self.each(statement, run_row::read).await?;
        runs.reverse();
        Ok(runs)
    }

    pub(super) async fn runs_alive(&mut self) -> Result<Vec<Run>> {
        let text = concat!(
            "SELECT ",
            run_row::columns!(),
            " FROM runs WHERE ended_at IS NULL OR gone = 0 ORDER BY id"
        );
        self.each(sqlx::query(text), run_row::read).await
    }

    pub(super) async fn runs_completed_by(
        &mut self,
        profile: &str,
        last: u32,
    ) -> Result<Vec<(Run, String)>> {
        let text = concat!(
            "SELECT ",
            run_row::columns!(),
            ", tasks.title FROM runs JOIN tasks ON tasks.id = runs.task_id \
             WHERE runs.profile = $1 AND runs.outcome = 'completed' \
             ORDER BY runs.ended_at DESC, runs.id DESC LIMIT $2"
        );
        let statement = sqlx::query(text).bind(profile.to_owned()).bind(i64::from(last));
        self.each(statement, |row| {
            let title = Columns::of(row, "a task").skip(run_row::WIDTH + 1).text()?;
            Ok((run_row::read(row)?, title))
        })
        .await
    }

    pub(super) async fn add_run(&mut self, run: &Run) -> Result<RunId> {
        let mut script = Script::of("INSERT INTO runs (");
        script.push(&COLUMNS.join(", ")).push(") VALUES ").tuple(&run_row::write(run));
        script.push(" RETURNING id");
        let rows = self.ask(script).await?;
        let row = rows.first().ok_or_else(|| Error::Unreadable {
            what: "the number of a run".to_owned(),
            reason: "there is none".to_owned(),
        })?;
        Ok(RunId::new(Columns::of(row, "a run").int()?))
    }

    pub(super) async fn change_run(&mut self, run: &Run) -> Result<()> {
        let mut script = Script::of("UPDATE runs SET ");
        for (at, (column, value)) in COLUMNS.iter().zip(&run_row::write(run)).enumerate() {
            script.push(if at > 0 { ", " } else { "" }).push(column).push(" = ").bind(value);
        }
        script.push(" WHERE id = ").value(run.id);
        match Self::run(self, script).await? {
            1 => Ok(()),
            _ => Err(Error::Unreadable {
                what: format!("run {}", run.id),
                reason: "it is not there".to_owned(),
            }),
        }
    }

    pub(super) async fn failures_of(&mut self, id: &TaskId) -> Result<Vec<Failure>> {
        let text = "SELECT cause, count, error, at FROM failures WHERE task_id = $1 ORDER BY cause";
        self.each(sqlx::query(text).bind(id.as_str()), |row| {
            let mut columns = Columns::of(row, "a failure");
            Ok(Failure {
                cause: columns.word()?,
                count: columns.count()?,
                error: columns.text()?,
                at: columns.time()?,
            })
        })
        .await
    }

    pub(super) async fn add_failure(
        &mut self,
        id: &TaskId,
        cause: Outcome,
        error: &str,
    ) -> Result<u32> {
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

    pub(super) async fn forget_failures(&mut self, id: &TaskId) -> Result<()> {
        let text = "DELETE FROM failures WHERE task_id = $1";
        self.execute(sqlx::query(text).bind(id.as_str())).await?;
        Ok(())
    }

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
