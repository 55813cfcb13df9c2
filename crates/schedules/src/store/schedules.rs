//! Creating, changing, finding and removing schedules.

use async_recursion::async_recursion as boxed;
use jiff::Timestamp;
use sqlx::{AssertSqlSafe, Row as _};

use super::row::{self, SCHEDULE};
use super::{ScheduleStore, ScheduleTransaction};
use crate::schedule::{NewSchedule, Schedule, ScheduleChange, ScheduleId, ScheduleState};
use crate::timing::whole_second;
use crate::{Error, Result};

/// The most schedules of a home. Each is looked at when it is due only; this is against loops.
const MAX_SCHEDULES: i64 = 10_000;

impl ScheduleStore {
    /// Creates a schedule. One that never comes is refused.
    #[boxed]
    pub async fn create(&self, new: NewSchedule, now: Timestamp) -> Result<Schedule> {
        let is_named = new.name.as_deref().is_some_and(|name| !name.trim().is_empty());
        let mut new = new.checked()?;
        let anchor = whole_second(now);
        let next = next_of(&new, anchor, now)?;
        let mut write = self.write().await?;
        self.refuse_more(&mut write).await?;
        let name = new.name.take().unwrap_or_default();
        let name = if is_named {
            refuse_taken(&mut write, &name, None).await?;
            name
        } else {
            free_name(&mut write, &name).await?
        };
        let id = loop {
            let id = ScheduleId::generate()?;
            if find_row(&mut write, &id).await?.is_none() {
                break id;
            }
        };
        insert(&mut write, &id, name, new, (now, anchor, next)).await?;
        let created = get_in(&mut write, &id).await?;
        write.commit().await?;
        Ok(created)
    }

    /// Refuses one more schedule than there may be.
    async fn refuse_more(&self, write: &mut ScheduleTransaction<'_>) -> Result<()> {
        let count: i64 = sqlx::query_scalar("SELECT count(*) FROM schedules")
            .fetch_one(write.on())
            .await
            .map_err(|error| self.explain(error))?;
        if count >= MAX_SCHEDULES {
            return Err(Error::Invalid {
                field: "this profile",
                reason: format!("has {MAX_SCHEDULES} schedules, which is the limit; remove some"),
            });
        }
        Ok(())
    }

    /// Creates a schedule of another program under an id that is made from the one it has there. Returns
    /// none where that id is taken: it was taken over before. A name that is taken gets a number.
    #[boxed]
    pub async fn adopt(
        &self,
        id: &ScheduleId,
        new: NewSchedule,
        state: ScheduleState,
        now: Timestamp,
    ) -> Result<Option<Schedule>> {
        let mut new = new.checked()?;
        let anchor = whole_second(now);
        let next = next_of(&new, anchor, now)?;
        let mut write = self.write().await?;
        if find_row(&mut write, id).await?.is_some() {
            return Ok(None);
        }
        self.refuse_more(&mut write).await?;
        let name = new.name.take().unwrap_or_default();
        let name = free_name(&mut write, &name).await?;
        insert(&mut write, id, name, new, (now, anchor, next)).await?;
        if state == ScheduleState::Paused {
            set_next(&mut write, id, state, None, now).await?;
        }
        let created = get_in(&mut write, id).await?;
        write.commit().await?;
        Ok(Some(created))
    }

    /// Changes a schedule. Where its time is changed, its next moment is found again, and one that had
    /// come is due again.
    #[boxed]
    pub async fn edit(
        &self,
        id: &ScheduleId,
        change: ScheduleChange,
        now: Timestamp,
    ) -> Result<Schedule> {
        let mut write = self.write().await?;
        let old = get_in(&mut write, id).await?;
        let moves = change.moves();
        let new = change.applied_to(&old).checked()?;
        let name = new.name.as_deref().unwrap_or_default();
        // Two that had one name before this was refused stay as they are.
        if name != old.name {
            refuse_taken(&mut write, name, Some(id)).await?;
        }
        let query = sqlx::query(
            "UPDATE schedules SET name = ?, timing = ?, zone = ?, prompt = ?, skills = ?, model = ?, \
             toolsets = ?, task = ?, workdir = ?, script = ?, delivery = ?, missed = ? WHERE id = ?",
        )
        .bind(new.name.clone().unwrap_or_default())
        .bind(new.timing.to_string())
        .bind(new.zone.name().to_owned())
        .bind(new.prompt.clone())
        .bind(row::list_text(&new.skills))
        .bind(new.model.clone())
        .bind(new.toolsets.as_deref().map(row::list_text))
        .bind(new.task.clone())
        .bind(new.workdir.clone())
        .bind(new.script.clone())
        .bind(new.delivery.to_string())
        .bind(new.missed.word())
        .bind(id.as_str());
        write.execute(query).await?;
        if moves {
            let anchor = whole_second(now);
            let next = next_of(&new, anchor, now)?;
            let state = match old.state {
                ScheduleState::Paused => ScheduleState::Paused,
                ScheduleState::Active | ScheduleState::Done => ScheduleState::Active,
            };
            let next = (state == ScheduleState::Active).then_some(next);
            let query = sqlx::query("UPDATE schedules SET anchor = ? WHERE id = ?")
                .bind(anchor.as_millisecond())
                .bind(id.as_str());
            write.execute(query).await?;
            set_next(&mut write, id, state, next, now).await?;
        }
        let edited = get_in(&mut write, id).await?;
        write.commit().await?;
        Ok(edited)
    }

    /// Pauses a schedule: it is not due until it is resumed. One that is paused stays so.
    #[boxed]
    pub async fn pause(&self, id: &ScheduleId, now: Timestamp) -> Result<Schedule> {
        let mut write = self.write().await?;
        let schedule = get_in(&mut write, id).await?;
        if schedule.state == ScheduleState::Active {
            set_next(&mut write, id, ScheduleState::Paused, None, now).await?;
        }
        let schedule = get_in(&mut write, id).await?;
        write.commit().await?;
        Ok(schedule)
    }

    /// Resumes a schedule: its next moment is the first from now on. What passed while it was paused
    /// was not missed. One that comes once and whose moment has passed is refused.
    #[boxed]
    pub async fn resume(&self, id: &ScheduleId, now: Timestamp) -> Result<Schedule> {
        let mut write = self.write().await?;
        let schedule = get_in(&mut write, id).await?;
        if schedule.state != ScheduleState::Active {
            let next = schedule.timing.next_after(now, schedule.anchor, &schedule.zone);
            let Some(next) = next else {
                let timing = schedule.timing.to_string();
                return Err(Error::Never {
                    timing,
                    reason: "its moment has passed; give it another",
                });
            };
            set_next(&mut write, id, ScheduleState::Active, Some(next), now).await?;
        }
        let schedule = get_in(&mut write, id).await?;
        write.commit().await?;
        Ok(schedule)
    }

    /// Removes a schedule with its runs, and returns what it was. A run in progress continues, and is
    /// not recorded.
    #[boxed]
    pub async fn remove(&self, id: &ScheduleId) -> Result<Schedule> {
        let mut write = self.write().await?;
        let schedule = get_in(&mut write, id).await?;
        let query = sqlx::query("DELETE FROM schedules WHERE id = ?").bind(id.as_str());
        write.execute(query).await?;
        write.commit().await?;
        Ok(schedule)
    }

    /// Returns a schedule.
    #[boxed]
    pub async fn get(&self, id: &ScheduleId) -> Result<Schedule> {
        let query = format!("SELECT {SCHEDULE} FROM schedules WHERE id = ?");
        let mut reader = self.reader().await?;
        let found = sqlx::query(AssertSqlSafe(query)).bind(id.as_str());
        let found =
            found.fetch_optional(&mut *reader).await.map_err(|error| self.explain(error))?;
        row::schedule(&found.ok_or_else(|| not_found(id.as_str()))?)
    }

    /// Returns all schedules: those that are due next first, then the others by name. One that cannot
    /// be read does not hide the others: it is an error in its place.
    #[boxed]
    pub async fn list(&self) -> Result<Vec<Result<Schedule>>> {
        let query =
            format!("SELECT {SCHEDULE} FROM schedules ORDER BY next_at IS NULL, next_at, name, id");
        let mut reader = self.reader().await?;
        let rows = sqlx::query(AssertSqlSafe(query)).fetch_all(&mut *reader).await;
        let rows = rows.map_err(|error| self.explain(error))?;
        Ok(rows.iter().map(row::schedule).collect())
    }

    /// Finds the schedule that a person means: by its id, a beginning of it, or its name.
    #[boxed]
    pub async fn find(&self, wanted: &str) -> Result<ScheduleId> {
        let wanted = wanted.trim();
        let mut reader = self.reader().await?;
        let rows = sqlx::query("SELECT id, name FROM schedules ORDER BY id")
            .fetch_all(&mut *reader)
            .await
            .map_err(|error| self.explain(error))?;
        let mut all = Vec::with_capacity(rows.len());
        for row in &rows {
            let read =
                |at: usize| row.try_get::<String, _>(at).map_err(|error| self.explain(error));
            all.push((read(0)?.parse::<ScheduleId>()?, read(1)?));
        }
        let named = all.iter().filter(|(id, name)| id.as_str() == wanted || name == wanted);
        let named: Vec<_> = named.cloned().collect();
        let found = if named.is_empty() {
            all.into_iter().filter(|(id, _)| id.begins_with(wanted)).collect()
        } else {
            named
        };
        match found.as_slice() {
            [] => Err(not_found(wanted)),
            [(id, _)] => Ok(id.clone()),
            _ => Err(Error::Ambiguous { wanted: wanted.to_owned(), candidates: found }),
        }
    }
}

/// Adds a schedule; its times are now, what intervals are counted from, and the first moment.
async fn insert(
    write: &mut ScheduleTransaction<'_>,
    id: &ScheduleId,
    name: String,
    new: NewSchedule,
    (now, anchor, next): (Timestamp, Timestamp, Timestamp),
) -> Result<()> {
    let query = sqlx::query(
        "INSERT INTO schedules (id, name, state, timing, zone, prompt, skills, model, toolsets, \
         task, workdir, script, delivery, missed, created_at, anchor, next_at, planned_at) \
         VALUES (?, ?, 'active', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )
    .bind(id.as_str())
    .bind(name)
    .bind(new.timing.to_string())
    .bind(new.zone.name().to_owned())
    .bind(new.prompt)
    .bind(row::list_text(&new.skills))
    .bind(new.model)
    .bind(new.toolsets.as_deref().map(row::list_text))
    .bind(new.task)
    .bind(new.workdir)
    .bind(new.script)
    .bind(new.delivery.to_string())
    .bind(new.missed.word())
    .bind(now.as_millisecond())
    .bind(anchor.as_millisecond())
    .bind(next.as_millisecond())
    .bind(now.as_millisecond());
    write.execute(query).await.map(drop)
}

pub(super) fn not_found(wanted: &str) -> Error {
    Error::NotFound { wanted: wanted.chars().take(80).collect() }
}

/// Returns the first moment of a new schedule.
fn next_of(new: &NewSchedule, anchor: Timestamp, now: Timestamp) -> Result<Timestamp> {
    new.timing.next_after(now, anchor, &new.zone).ok_or_else(|| Error::Never {
        timing: new.timing.to_string(),
        reason: if new.timing.is_once() { "it has passed" } else { "there is no such date" },
    })
}

/// Sets whether a schedule is due again, and when.
pub(super) async fn set_next(
    write: &mut ScheduleTransaction<'_>,
    id: &ScheduleId,
    state: ScheduleState,
    next: Option<Timestamp>,
    now: Timestamp,
) -> Result<()> {
    let query =
        sqlx::query("UPDATE schedules SET state = ?, next_at = ?, planned_at = ? WHERE id = ?")
            .bind(state.word())
            .bind(next.map(Timestamp::as_millisecond))
            .bind(now.as_millisecond())
            .bind(id.as_str());
    write.execute(query).await.map(drop)
}

/// Refuses the name of another schedule: commands find a schedule by its name, too.
async fn refuse_taken(
    write: &mut ScheduleTransaction<'_>,
    name: &str,
    own: Option<&ScheduleId>,
) -> Result<()> {
    match named(write, name).await? {
        Some(id) if own.is_none_or(|own| own.as_str() != id) => {
            Err(Error::NameTaken { name: name.to_owned(), id })
        }
        _ => Ok(()),
    }
}

/// Returns a name that was made of the prompt, with a number behind it if it is taken.
async fn free_name(write: &mut ScheduleTransaction<'_>, name: &str) -> Result<String> {
    let mut free = name.to_owned();
    let mut number = 2;
    while named(write, &free).await?.is_some() {
        free = format!("{name} {number}");
        number += 1;
    }
    Ok(free)
}

/// Returns the id of the schedule that has a name.
async fn named(write: &mut ScheduleTransaction<'_>, name: &str) -> Result<Option<String>> {
    let query = sqlx::query_scalar("SELECT id FROM schedules WHERE name = ? LIMIT 1").bind(name);
    let found = query.fetch_optional(write.on()).await;
    found.map_err(|error| write.explain(error))
}

async fn find_row(
    write: &mut ScheduleTransaction<'_>,
    id: &ScheduleId,
) -> Result<Option<sqlx::sqlite::SqliteRow>> {
    let query = format!("SELECT {SCHEDULE} FROM schedules WHERE id = ?");
    let found =
        sqlx::query(AssertSqlSafe(query)).bind(id.as_str()).fetch_optional(write.on()).await;
    found.map_err(|error| write.explain(error))
}

/// Returns a schedule, within a transaction.
pub(super) async fn get_in(
    write: &mut ScheduleTransaction<'_>,
    id: &ScheduleId,
) -> Result<Schedule> {
    let found = find_row(write, id).await?;
    row::schedule(&found.ok_or_else(|| not_found(id.as_str()))?)
}
