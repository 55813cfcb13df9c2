//! Deliveries of what runs said: at most once each, tried again only while nothing was sent.

use async_recursion::async_recursion as boxed;
use jiff::{SignedDuration, Timestamp};
use sqlx::sqlite::SqliteRow;
use sqlx::{AssertSqlSafe, Row as _};

use super::row::{self, RUN};
use super::schedules::get_in;
use super::{ScheduleStore, ScheduleTransaction};
use crate::run::{Delivered, RunOwner, ScheduleRun, ScheduleRunId};
use crate::schedule::{Schedule, ScheduleDelivery};
use crate::{Error, Result};

/// How long a delivery is tried.
const TRY_WITHIN: SignedDuration = SignedDuration::from_hours(24);

impl ScheduleStore {
    /// Takes the deliveries that are to be made. A delivery that a process began and did not live to
    /// finish is not made again: it may be there. Only those in `wanted` are taken.
    pub async fn take_deliveries(
        &self,
        owner: &RunOwner,
        now: Timestamp,
        wanted: impl Fn(ScheduleRunId) -> bool + Send,
    ) -> Result<Vec<(Schedule, ScheduleRun)>> {
        if !self.has_deliveries().await? {
            return Ok(Vec::new());
        }
        let query =
            format!("SELECT {RUN} FROM runs WHERE delivered IN ('pending', 'begun') ORDER BY id");
        let mut write = self.write().await?;
        let rows = sqlx::query(AssertSqlSafe(query)).fetch_all(write.on()).await;
        let rows = rows.map_err(|error| write.explain(error))?;
        let mut taken = Vec::new();
        for row in &rows {
            let run = match row::run(row) {
                Ok(run) => run,
                Err(error) => {
                    give_up(&mut write, row, &error).await?;
                    continue;
                }
            };
            let verdict = match run.delivered {
                Delivered::Begun => {
                    let is_gone =
                        run.owner.as_ref().is_none_or(|of| of.is_gone(owner) != Some(false));
                    is_gone.then_some("its process died while it was delivered; it may be there")
                }
                _ if is_over(&run, now) => Some("it could not be delivered within a day"),
                _ => None,
            };
            if let Some(reason) = verdict {
                let query = sqlx::query(
                    "UPDATE runs SET delivered = 'failed', delivery_error = ? WHERE id = ?",
                )
                .bind(reason)
                .bind(run.id.get());
                write.execute(query).await?;
                continue;
            }
            if run.delivered == Delivered::Begun || !wanted(run.id) {
                continue;
            }
            let schedule = match get_in(&mut write, &run.schedule).await {
                Ok(schedule) => schedule,
                Err(error @ (Error::Unreadable { .. } | Error::NotFound { .. })) => {
                    give_up(&mut write, row, &error).await?;
                    continue;
                }
                Err(error) => return Err(error),
            };
            let next = match schedule.delivery {
                ScheduleDelivery::Local => Delivered::None,
                ScheduleDelivery::Conversation(_) => Delivered::Begun,
            };
            let query = sqlx::query("UPDATE runs SET delivered = ?, owner = ? WHERE id = ?")
                .bind(next.word())
                .bind(serde_json::to_string(owner).ok())
                .bind(run.id.get());
            write.execute(query).await?;
            if next == Delivered::Begun {
                taken.push((schedule, run));
            }
        }
        write.commit().await?;
        Ok(taken)
    }

    /// Records the outcome of a delivery that was taken. One that is to be tried again is pending.
    #[boxed]
    pub async fn delivered(
        &self,
        run: ScheduleRunId,
        delivered: Delivered,
        error: Option<&str>,
    ) -> Result<()> {
        let mut write = self.write().await?;
        let query = sqlx::query(
            "UPDATE runs SET delivered = ?, delivery_error = ? WHERE id = ? AND delivered = 'begun'",
        )
        .bind(delivered.word())
        .bind(error.map(str::to_owned))
        .bind(run.get());
        write.execute(query).await?;
        write.commit().await
    }

    async fn has_deliveries(&self) -> Result<bool> {
        let mut reader = self.reader().await?;
        let row = sqlx::query(
            "SELECT EXISTS (SELECT 1 FROM runs WHERE delivered IN ('pending', 'begun'))",
        )
        .fetch_one(&mut *reader)
        .await
        .map_err(|error| self.explain(error))?;
        row.try_get(0).map_err(|error| self.explain(error))
    }
}

fn is_over(run: &ScheduleRun, now: Timestamp) -> bool {
    run.ended_at.is_some_and(|ended| now.duration_since(ended) > TRY_WITHIN)
}

/// Records that an output is not delivered because its run or its schedule cannot be read. One such
/// row keeps no other from being delivered.
async fn give_up(
    write: &mut ScheduleTransaction<'_>,
    row: &SqliteRow,
    reason: &Error,
) -> Result<()> {
    let id: i64 = row.try_get("id").map_err(|error| write.explain(error))?;
    let query =
        sqlx::query("UPDATE runs SET delivered = 'failed', delivery_error = ? WHERE id = ?")
            .bind(reason.to_string())
            .bind(id);
    write.execute(query).await?;
    Ok(())
}
