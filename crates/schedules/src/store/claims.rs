//! Taking what is due: at most one run for each due moment, on any number of processes.

use async_recursion::async_recursion as boxed;
use jiff::{SignedDuration, Timestamp};
use sqlx::{AssertSqlSafe, Row as _};

use super::row::{self, SCHEDULE};
use super::runs::{NewScheduleRun, open_run, prune, stored};
use super::schedules::{get_in, set_next};
use super::{ScheduleStore, ScheduleTransaction};
use crate::plan::{MomentPlan, plan};
use crate::run::{RunOwner, ScheduleRunId, ScheduleRunStatus, Trigger, lost_reason};
use crate::schedule::{Schedule, ScheduleId, ScheduleState};
use crate::{Error, Result};

/// How long taken moments are remembered: a clock that is set back by less repeats nothing.
const REMEMBER: SignedDuration = SignedDuration::from_hours(8 * 24);

/// How long a run that was asked for waits for somebody who takes it.
const REQUEST_WITHIN: SignedDuration = SignedDuration::from_hours(1);

/// What was due, and is now this process's to run.
#[derive(Debug, Default)]
pub struct Taken {
    /// Runs that this process has claimed and must begin or end.
    pub runs: Vec<(Schedule, ScheduleRunId)>,
    /// Entries that were recorded without a run: moments that were missed or skipped, runs that were
    /// lost.
    pub recorded: Vec<(ScheduleId, ScheduleRunStatus)>,
    /// Schedules that cannot be read; they stay as they are.
    pub unreadable: Vec<Error>,
    /// The next due moment of all schedules.
    pub next_at: Option<Timestamp>,
}

impl ScheduleStore {
    /// Takes what is due, in one transaction: claims the moments, records those that were missed or
    /// skipped, finds each schedule's next moment, and records runs whose process is gone as lost.
    #[boxed]
    pub async fn take_due(&self, owner: &RunOwner, now: Timestamp) -> Result<Taken> {
        if !self.has_work(now).await? {
            return Ok(Taken { next_at: self.next_after(now).await?, ..Taken::default() });
        }
        let mut taken = Taken::default();
        let mut write = self.write().await?;
        for (schedule, _) in recover(&mut write, owner, now).await? {
            taken.recorded.push((schedule, ScheduleRunStatus::Lost));
        }
        take_requests(&mut write, owner, now, &mut taken).await?;
        let query = format!(
            "SELECT {SCHEDULE}, planned_at FROM schedules WHERE state = 'active' \
             AND (next_at <= ?1 OR planned_at > ?1) ORDER BY next_at, id"
        );
        let due =
            sqlx::query(AssertSqlSafe(query)).bind(now.as_millisecond()).fetch_all(write.on());
        for row in due.await.map_err(|error| self.explain(error))? {
            let schedule = match row::schedule(&row) {
                Ok(schedule) => schedule,
                Err(error) => {
                    taken.unreadable.push(error);
                    continue;
                }
            };
            let planned: i64 = row.try_get("planned_at").map_err(|error| self.explain(error))?;
            take(&mut write, schedule, planned > now.as_millisecond(), owner, now, &mut taken)
                .await?;
        }
        write.commit().await?;
        taken.next_at = self.next_after(now).await?;
        Ok(taken)
    }

    /// Returns the first due moment of all schedules after a time. What was due before and is still
    /// there cannot be read, and is not waited for.
    async fn next_after(&self, now: Timestamp) -> Result<Option<Timestamp>> {
        let mut reader = self.reader().await?;
        let next: Option<i64> = sqlx::query_scalar(
            "SELECT min(next_at) FROM schedules WHERE state = 'active' AND next_at > ?",
        )
        .bind(now.as_millisecond())
        .fetch_one(&mut *reader)
        .await
        .map_err(|error| self.explain(error))?;
        Ok(next.and_then(|millis| Timestamp::from_millisecond(millis).ok()))
    }

    /// Reports whether there may be anything to take. It only reads, so that waiting costs no write.
    async fn has_work(&self, now: Timestamp) -> Result<bool> {
        let mut reader = self.reader().await?;
        sqlx::query_scalar(
            "SELECT EXISTS (SELECT 1 FROM schedules WHERE state = 'active' \
                AND (next_at <= ?1 OR planned_at > ?1)) \
             OR EXISTS (SELECT 1 FROM runs WHERE status IN ('requested', 'waiting', 'running'))",
        )
        .bind(now.as_millisecond())
        .fetch_one(&mut *reader)
        .await
        .map_err(|error| self.explain(error))
    }
}

/// Takes what is due of one schedule.
async fn take(
    write: &mut ScheduleTransaction<'_>,
    schedule: Schedule,
    was_set_back: bool,
    owner: &RunOwner,
    now: Timestamp,
    taken: &mut Taken,
) -> Result<()> {
    let id = schedule.id.clone();
    let Schedule { timing, zone, anchor, .. } = &schedule;
    if was_set_back {
        // The clock was ahead when the next moment was found, perhaps by years. Moments that were
        // taken then are not taken again.
        let next = timing.next_after(now, *anchor, zone);
        let next = next.or(schedule.next_at);
        return set_next(write, &id, ScheduleState::Active, next, now).await;
    }
    let Some(due) = schedule.next_at else { return Ok(()) };
    let MomentPlan { missed, run, next_at } =
        plan(timing, *anchor, zone, schedule.missed, due, now);
    let state = if next_at.is_some() { ScheduleState::Active } else { ScheduleState::Done };
    set_next(write, &id, state, next_at, now).await?;
    if let Some(missed) = missed {
        let new = NewScheduleRun {
            due_at: Some(missed.first),
            trigger: Trigger::Due,
            status: ScheduleRunStatus::Missed,
        };
        let entry = new.insert(write, &id, None, now).await?;
        let query = sqlx::query("UPDATE runs SET missed = ?, error = ? WHERE id = ?")
            .bind(stored(missed.count))
            .bind("no gateway was running")
            .bind(entry.get());
        write.execute(query).await?;
        set_last(write, &id, ScheduleRunStatus::Missed).await?;
        taken.recorded.push((id.clone(), ScheduleRunStatus::Missed));
    }
    if let Some(run) = run
        && claim_moment(write, &id, run.due_at, now).await?
    {
        let due_at = Some(run.due_at);
        let trigger = if run.is_late { Trigger::CatchUp } else { Trigger::Due };
        match open_run(write, &id, None).await? {
            Some(running) => {
                let new = NewScheduleRun { due_at, trigger, status: ScheduleRunStatus::Skipped };
                let entry = new.insert(write, &id, None, now).await?;
                explain_entry(write, entry, &format!("run {running} was still in progress"))
                    .await?;
                set_last(write, &id, ScheduleRunStatus::Skipped).await?;
                taken.recorded.push((id.clone(), ScheduleRunStatus::Skipped));
            }
            None => {
                let new = NewScheduleRun { due_at, trigger, status: ScheduleRunStatus::Waiting };
                let claimed = new.insert(write, &id, Some(owner), now).await?;
                taken.runs.push((schedule, claimed));
            }
        }
    }
    prune(write, &id).await
}

/// Claims a due moment; false if it was taken before.
async fn claim_moment(
    write: &mut ScheduleTransaction<'_>,
    id: &ScheduleId,
    due_at: Timestamp,
    now: Timestamp,
) -> Result<bool> {
    let query =
        sqlx::query("INSERT INTO moments (schedule, due_at) VALUES (?, ?) ON CONFLICT DO NOTHING")
            .bind(id.as_str().to_owned())
            .bind(due_at.as_millisecond());
    let is_new = write.execute(query).await? == 1;
    let forgotten = now.min(due_at).checked_sub(REMEMBER).unwrap_or(Timestamp::MIN);
    let query = sqlx::query("DELETE FROM moments WHERE schedule = ? AND due_at < ?")
        .bind(id.as_str().to_owned())
        .bind(forgotten.as_millisecond());
    write.execute(query).await?;
    Ok(is_new)
}

/// Takes runs that were asked for.
async fn take_requests(
    write: &mut ScheduleTransaction<'_>,
    owner: &RunOwner,
    now: Timestamp,
    taken: &mut Taken,
) -> Result<()> {
    let rows = sqlx::query(
        "SELECT id, schedule, claimed_at FROM runs WHERE status = 'requested' ORDER BY id",
    )
    .fetch_all(write.on())
    .await
    .map_err(|error| write.explain(error))?;
    for row in rows {
        let explain = |error| write.explain(error);
        let run = ScheduleRunId::new(row.try_get(0).map_err(explain)?);
        let id: ScheduleId = row.try_get::<String, _>(1).map_err(explain)?.parse()?;
        let asked: i64 = row.try_get(2).map_err(explain)?;
        let age = now.as_millisecond().saturating_sub(asked);
        if i128::from(age) > REQUEST_WITHIN.as_millis() {
            end_entry(write, run, ScheduleRunStatus::Missed, now).await?;
            explain_entry(write, run, "no gateway took it within an hour").await?;
            set_last(write, &id, ScheduleRunStatus::Missed).await?;
            taken.recorded.push((id, ScheduleRunStatus::Missed));
            continue;
        }
        if let Some(running) = open_run(write, &id, Some(run)).await? {
            end_entry(write, run, ScheduleRunStatus::Skipped, now).await?;
            explain_entry(write, run, &format!("run {running} was still in progress")).await?;
            taken.recorded.push((id, ScheduleRunStatus::Skipped));
            continue;
        }
        let schedule = match get_in(write, &id).await {
            Ok(schedule) => schedule,
            Err(error) => {
                taken.unreadable.push(error);
                continue;
            }
        };
        let deadline = now.checked_add(super::runs::WAIT_WITHIN).unwrap_or(Timestamp::MAX);
        let query = sqlx::query(
            "UPDATE runs SET status = 'waiting', owner = ?, deadline_at = ? WHERE id = ?",
        )
        .bind(serde_json::to_string(owner).ok())
        .bind(deadline.as_millisecond())
        .bind(run.get());
        write.execute(query).await?;
        taken.runs.push((schedule, run));
    }
    Ok(())
}

/// Records runs as lost whose process is gone. They are not repeated: how far they came is unknown.
pub(super) async fn recover(
    write: &mut ScheduleTransaction<'_>,
    here: &RunOwner,
    now: Timestamp,
) -> Result<Vec<(ScheduleId, ScheduleRunId)>> {
    let rows = sqlx::query(
        "SELECT id, schedule, owner, deadline_at, status FROM runs \
         WHERE status IN ('waiting', 'running') ORDER BY id",
    )
    .fetch_all(write.on())
    .await
    .map_err(|error| write.explain(error))?;
    let mut lost = Vec::new();
    for row in rows {
        let explain = |error| write.explain(error);
        let run = ScheduleRunId::new(row.try_get(0).map_err(explain)?);
        let id: ScheduleId = row.try_get::<String, _>(1).map_err(explain)?.parse()?;
        let owner: Option<String> = row.try_get(2).map_err(explain)?;
        let deadline: Option<i64> = row.try_get(3).map_err(explain)?;
        let status: String = row.try_get(4).map_err(explain)?;
        let owner = owner.and_then(|owner| row::owner(&owner));
        let is_late = deadline.is_none_or(|deadline| deadline < now.as_millisecond());
        let is_gone = match &owner {
            Some(owner) => owner.is_gone(here).unwrap_or(is_late),
            None => true,
        };
        if !is_gone {
            continue;
        }
        end_entry(write, run, ScheduleRunStatus::Lost, now).await?;
        let status = ScheduleRunStatus::from_word(&status).unwrap_or(ScheduleRunStatus::Running);
        explain_entry(write, run, lost_reason(status)).await?;
        let query = sqlx::query(
            "UPDATE schedules SET runs = runs + 1, failures = failures + 1, last_status = 'lost' \
             WHERE id = ?",
        )
        .bind(id.as_str().to_owned());
        write.execute(query).await?;
        lost.push((id, run));
    }
    Ok(lost)
}

async fn end_entry(
    write: &mut ScheduleTransaction<'_>,
    run: ScheduleRunId,
    status: ScheduleRunStatus,
    now: Timestamp,
) -> Result<()> {
    let query = sqlx::query("UPDATE runs SET status = ?, ended_at = ? WHERE id = ?")
        .bind(status.word())
        .bind(now.as_millisecond())
        .bind(run.get());
    write.execute(query).await.map(drop)
}

async fn explain_entry(
    write: &mut ScheduleTransaction<'_>,
    run: ScheduleRunId,
    why: &str,
) -> Result<()> {
    let query =
        sqlx::query("UPDATE runs SET error = ? WHERE id = ?").bind(why.to_owned()).bind(run.get());
    write.execute(query).await.map(drop)
}

async fn set_last(
    write: &mut ScheduleTransaction<'_>,
    id: &ScheduleId,
    status: ScheduleRunStatus,
) -> Result<()> {
    let query = sqlx::query("UPDATE schedules SET last_status = ? WHERE id = ?")
        .bind(status.word())
        .bind(id.as_str().to_owned());
    write.execute(query).await.map(drop)
}
