//! Reading runs, and how they begin and end.

use async_recursion::async_recursion as boxed;
use jiff::{SignedDuration, Timestamp};
use sqlx::AssertSqlSafe;

use super::row::{self, RUN};
use super::schedules::{get_in, not_found};
use super::{ScheduleStore, ScheduleTransaction};
use crate::run::{
    Delivered, RunOwner, RunReport, ScheduleRun, ScheduleRunId, ScheduleRunStatus, Trigger,
};
use crate::schedule::{Schedule, ScheduleDelivery, ScheduleId};
use crate::{Error, Result};

/// Runs that are kept of each schedule, those in progress not counted.
pub const KEPT_RUNS: i64 = 50;

/// How long a run of a process that cannot be asked about is taken for alive beyond its time.
const FOREIGN_GRACE: SignedDuration = SignedDuration::from_mins(10);

/// How long a claimed run may wait for others.
pub(super) const WAIT_WITHIN: SignedDuration = SignedDuration::from_hours(24);

impl ScheduleStore {
    /// Returns runs, the latest first: of one schedule, or of all. A run whose process is gone is
    /// shown as lost, also if nobody has recorded that yet.
    #[boxed]
    pub async fn runs(
        &self,
        schedule: Option<&ScheduleId>,
        limit: u32,
    ) -> Result<Vec<ScheduleRun>> {
        let of = if schedule.is_some() { "WHERE schedule = ?1" } else { "WHERE ?1 IS NULL" };
        let query = format!("SELECT {RUN} FROM runs {of} ORDER BY id DESC LIMIT ?2");
        let mut reader = self.reader().await?;
        let rows = sqlx::query(AssertSqlSafe(query))
            .bind(schedule.map(ScheduleId::as_str))
            .bind(limit)
            .fetch_all(&mut *reader)
            .await
            .map_err(|error| self.explain(error))?;
        let here = RunOwner::current()?;
        rows.iter().map(|row| Ok(row::run(row)?.seen_from(&here))).collect()
    }

    /// Returns a run, in the same way.
    #[boxed]
    pub async fn run(&self, id: ScheduleRunId) -> Result<ScheduleRun> {
        let query = format!("SELECT {RUN} FROM runs WHERE id = ?");
        let mut reader = self.reader().await?;
        let found = sqlx::query(AssertSqlSafe(query)).bind(id.get());
        let found =
            found.fetch_optional(&mut *reader).await.map_err(|error| self.explain(error))?;
        Ok(row::run(&found.ok_or(Error::NoRun(id))?)?.seen_from(&RunOwner::current()?))
    }

    /// Requests a run of a schedule now. Refused while one is in progress.
    #[boxed]
    pub async fn request(&self, id: &ScheduleId, now: Timestamp) -> Result<ScheduleRun> {
        let here = RunOwner::current()?;
        let mut write = self.write().await?;
        get_in(&mut write, id).await?;
        super::claims::recover(&mut write, &here, now).await?;
        refuse_overlap(&mut write, id).await?;
        let new = NewScheduleRun {
            due_at: None,
            trigger: Trigger::Manual,
            status: ScheduleRunStatus::Requested,
        };
        let run = new.insert(&mut write, id, None, now).await?;
        write.commit().await?;
        self.run(run).await
    }

    /// Begins a run of a schedule in this process, at a person's wish. Refused while one is in
    /// progress.
    #[boxed]
    pub async fn begin(
        &self,
        id: &ScheduleId,
        owner: &RunOwner,
        now: Timestamp,
    ) -> Result<(Schedule, ScheduleRunId)> {
        let mut write = self.write().await?;
        let schedule = get_in(&mut write, id).await?;
        super::claims::recover(&mut write, owner, now).await?;
        refuse_overlap(&mut write, id).await?;
        let new = NewScheduleRun {
            due_at: None,
            trigger: Trigger::Manual,
            status: ScheduleRunStatus::Waiting,
        };
        let run = new.insert(&mut write, id, Some(owner), now).await?;
        write.commit().await?;
        Ok((schedule, run))
    }

    /// Records that a claimed run begins, and may take so long.
    #[boxed]
    pub async fn started(
        &self,
        run: ScheduleRunId,
        now: Timestamp,
        timeout: std::time::Duration,
    ) -> Result<()> {
        let limit = SignedDuration::try_from(timeout).unwrap_or(SignedDuration::MAX);
        let deadline =
            now.checked_add(limit.saturating_add(FOREIGN_GRACE)).unwrap_or(Timestamp::MAX);
        let mut write = self.write().await?;
        let query = sqlx::query(
            "UPDATE runs SET status = 'running', started_at = ?, deadline_at = ? \
             WHERE id = ? AND status = 'waiting'",
        )
        .bind(now.as_millisecond())
        .bind(deadline.as_millisecond())
        .bind(run.get());
        write.execute(query).await?;
        let query = sqlx::query(
            "UPDATE schedules SET last_run_at = ? WHERE id = (SELECT schedule FROM runs WHERE id = ?)",
        )
        .bind(now.as_millisecond())
        .bind(run.get());
        write.execute(query).await?;
        write.commit().await
    }

    /// Records the conversation of a run as soon as it is known: so it is found also if the run is
    /// lost.
    #[boxed]
    pub async fn note_conversation(&self, run: ScheduleRunId, conversation: &str) -> Result<()> {
        let mut write = self.write().await?;
        let query = sqlx::query("UPDATE runs SET conversation = ? WHERE id = ?")
            .bind(conversation.to_owned())
            .bind(run.get());
        write.execute(query).await?;
        write.commit().await
    }

    /// Records how a run ended. One that was taken for lost and reports after all has its true
    /// result; one whose schedule was removed has no record. Returns whether there is one.
    #[boxed]
    pub async fn finish(
        &self,
        run: ScheduleRunId,
        report: &RunReport,
        now: Timestamp,
    ) -> Result<bool> {
        let mut write = self.write().await?;
        let found = find(&mut write, run).await?;
        let Some(found) =
            found.filter(|run| run.status.is_open() || run.status == ScheduleRunStatus::Lost)
        else {
            write.commit().await?;
            return Ok(false);
        };
        let schedule = get_in(&mut write, &found.schedule).await;
        let delivers = schedule.is_ok_and(|schedule| schedule.delivery != ScheduleDelivery::Local);
        let delivered = if delivers { Delivered::Pending } else { Delivered::None };
        let status = report.outcome.status();
        let (output, omitted) = report.kept_output();
        let query = sqlx::query(
            "UPDATE runs SET status = ?, ended_at = ?, output = ?, output_omitted = ?, error = ?, \
             conversation = coalesce(?, conversation), tokens = ?, micro_usd = ?, delivered = ? \
             WHERE id = ?",
        )
        .bind(status.word())
        .bind(now.as_millisecond())
        .bind(output.to_owned())
        .bind(stored(omitted))
        .bind(report.kept_error().map(str::to_owned))
        .bind(report.conversation.clone())
        .bind(report.tokens.map(stored))
        .bind(report.micro_usd.map(stored))
        .bind(delivered.word())
        .bind(run.get());
        write.execute(query).await?;
        // A run that was lost has been counted as a failure already.
        let counted = i64::from(found.status != ScheduleRunStatus::Lost);
        let failed = i64::from(status != ScheduleRunStatus::Succeeded);
        let query = sqlx::query(
            "UPDATE schedules SET runs = runs + ?, failures = max(0, failures + ?), last_status = ? \
             WHERE id = ?",
        )
        .bind(counted)
        .bind(counted + failed - 1)
        .bind(status.word())
        .bind(found.schedule.as_str().to_owned());
        write.execute(query).await?;
        prune(&mut write, &found.schedule).await?;
        write.commit().await?;
        Ok(true)
    }
}

/// Returns a number as the file has it.
pub(super) fn stored(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(super) async fn find(
    write: &mut ScheduleTransaction<'_>,
    run: ScheduleRunId,
) -> Result<Option<ScheduleRun>> {
    let query = format!("SELECT {RUN} FROM runs WHERE id = ?");
    let found = sqlx::query(AssertSqlSafe(query)).bind(run.get()).fetch_optional(write.on()).await;
    let found = found.map_err(|error| write.explain(error))?;
    found.as_ref().map(row::run).transpose()
}

/// Returns the run of a schedule that is in progress.
pub(super) async fn open_run(
    write: &mut ScheduleTransaction<'_>,
    schedule: &ScheduleId,
    besides: Option<ScheduleRunId>,
) -> Result<Option<ScheduleRunId>> {
    let found: Option<i64> = sqlx::query_scalar(
        "SELECT id FROM runs WHERE schedule = ? AND status IN ('requested', 'waiting', 'running') \
         AND id <> ? ORDER BY id LIMIT 1",
    )
    .bind(schedule.as_str())
    .bind(besides.map_or(0, ScheduleRunId::get))
    .fetch_optional(write.on())
    .await
    .map_err(|error| write.explain(error))?;
    Ok(found.map(ScheduleRunId::new))
}

async fn refuse_overlap(write: &mut ScheduleTransaction<'_>, id: &ScheduleId) -> Result<()> {
    match open_run(write, id, None).await? {
        Some(run) => Err(Error::Running { id: id.clone(), run }),
        None => Ok(()),
    }
}

/// A run to be recorded.
pub(super) struct NewScheduleRun {
    pub(super) due_at: Option<Timestamp>,
    pub(super) trigger: Trigger,
    pub(super) status: ScheduleRunStatus,
}

impl NewScheduleRun {
    pub(super) async fn insert(
        self,
        write: &mut ScheduleTransaction<'_>,
        schedule: &ScheduleId,
        owner: Option<&RunOwner>,
        now: Timestamp,
    ) -> Result<ScheduleRunId> {
        let deadline = now.checked_add(WAIT_WITHIN).unwrap_or(Timestamp::MAX);
        let owner = owner.and_then(|owner| serde_json::to_string(owner).ok());
        let ended = (!self.status.is_open()).then_some(now.as_millisecond());
        let number: i64 = sqlx::query_scalar(
            "INSERT INTO runs (schedule, trigger, status, due_at, claimed_at, ended_at, owner, \
             deadline_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?) RETURNING id",
        )
        .bind(schedule.as_str())
        .bind(self.trigger.word())
        .bind(self.status.word())
        .bind(self.due_at.map(Timestamp::as_millisecond))
        .bind(now.as_millisecond())
        .bind(ended)
        .bind(owner)
        .bind(deadline.as_millisecond())
        .fetch_one(write.on())
        .await
        .map_err(|error| match &error {
            // The schedule was removed meanwhile.
            sqlx::Error::Database(refused) if refused.is_foreign_key_violation() => {
                not_found(schedule.as_str())
            }
            _ => write.explain(error),
        })?;
        write.mark_changed();
        Ok(ScheduleRunId::new(number))
    }
}

/// Removes the records of the oldest runs.
pub(super) async fn prune(
    write: &mut ScheduleTransaction<'_>,
    schedule: &ScheduleId,
) -> Result<()> {
    let query = sqlx::query(
        "DELETE FROM runs WHERE schedule = ?1 AND status NOT IN ('requested', 'waiting', 'running') \
         AND id NOT IN (SELECT id FROM runs WHERE schedule = ?1 \
         AND status NOT IN ('requested', 'waiting', 'running') ORDER BY id DESC LIMIT ?2)",
    )
    .bind(schedule.as_str().to_owned())
    .bind(KEPT_RUNS);
    write.execute(query).await.map(drop)
}
