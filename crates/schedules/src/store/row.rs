//! Rows as values.

use jiff::Timestamp;
use sqlx::Row as _;
use sqlx::sqlite::SqliteRow;

use crate::moments::Zone;
use crate::run::{Delivered, RunOwner, ScheduleRun, ScheduleRunId, ScheduleRunStatus, Trigger};
use crate::schedule::{MissedPolicy, Schedule, ScheduleDelivery, ScheduleId, ScheduleState};
use crate::timing::ScheduleTiming;
use crate::{Error, Result};

/// The columns that [`schedule`] reads.
pub(super) const SCHEDULE: &str = "id, name, state, timing, zone, prompt, skills, model, toolsets, \
    task, workdir, script, delivery, missed, created_at, anchor, next_at, last_run_at, last_status, \
    runs, failures";

/// The columns that [`run`] reads.
pub(super) const RUN: &str = "id, schedule, trigger, status, due_at, missed, claimed_at, started_at, \
    ended_at, owner, conversation, output, output_omitted, error, tokens, micro_usd, delivered, \
    delivery_error";

/// Reads columns of one row; an error says which.
struct RowReader<'r> {
    row: &'r SqliteRow,
    id: String,
}

impl RowReader<'_> {
    fn unreadable(&self, what: &'static str, reason: impl Into<String>) -> Error {
        Error::Unreadable { id: self.id.clone(), what, reason: reason.into() }
    }

    fn text(&self, name: &'static str) -> Result<String> {
        self.row.try_get(name).map_err(|error| self.unreadable(name, error.to_string()))
    }

    fn optional_text(&self, name: &'static str) -> Result<Option<String>> {
        self.row.try_get(name).map_err(|error| self.unreadable(name, error.to_string()))
    }

    fn number(&self, name: &'static str) -> Result<u64> {
        let number: i64 =
            self.row.try_get(name).map_err(|error| self.unreadable(name, error.to_string()))?;
        Ok(u64::try_from(number).unwrap_or_default())
    }

    fn optional_number(&self, name: &'static str) -> Result<Option<u64>> {
        let number: Option<i64> =
            self.row.try_get(name).map_err(|error| self.unreadable(name, error.to_string()))?;
        Ok(number.and_then(|number| u64::try_from(number).ok()))
    }

    fn time(&self, name: &'static str) -> Result<Timestamp> {
        let millis: i64 =
            self.row.try_get(name).map_err(|error| self.unreadable(name, error.to_string()))?;
        Timestamp::from_millisecond(millis)
            .map_err(|error| self.unreadable(name, error.to_string()))
    }

    fn optional_time(&self, name: &'static str) -> Result<Option<Timestamp>> {
        let millis: Option<i64> =
            self.row.try_get(name).map_err(|error| self.unreadable(name, error.to_string()))?;
        let time = millis.map(Timestamp::from_millisecond).transpose();
        time.map_err(|error| self.unreadable(name, error.to_string()))
    }

    /// Reads a word that stands for a value.
    fn word<T>(&self, name: &'static str, read: impl Fn(&str) -> Option<T>) -> Result<T> {
        let word = self.text(name)?;
        read(&word).ok_or_else(|| self.unreadable(name, format!("{word:?} is not known")))
    }

    fn list(&self, name: &'static str) -> Result<Option<Vec<String>>> {
        let text = self.optional_text(name)?;
        let list = text.map(|text| serde_json::from_str(&text)).transpose();
        list.map_err(|error| self.unreadable(name, error.to_string()))
    }
}

pub(super) fn schedule(row: &SqliteRow) -> Result<Schedule> {
    let id: String = row.try_get("id").unwrap_or_default();
    let columns = RowReader { row, id };
    let created_at = columns.time("created_at")?;
    let timing = ScheduleTiming::parse(&columns.text("timing")?, created_at)
        .map_err(|error| columns.unreadable("the timing", error.to_string()))?;
    let zone = Zone::named(&columns.text("zone")?)
        .map_err(|error| columns.unreadable("the time zone", error.to_string()))?;
    let delivery = columns.text("delivery")?;
    Ok(Schedule {
        id: columns.id.parse()?,
        name: columns.text("name")?,
        state: columns.word("state", |word| match word {
            "active" => Some(ScheduleState::Active),
            "paused" => Some(ScheduleState::Paused),
            "done" => Some(ScheduleState::Done),
            _ => None,
        })?,
        timing,
        zone,
        prompt: columns.text("prompt")?,
        skills: columns.list("skills")?.unwrap_or_default(),
        model: columns.optional_text("model")?,
        toolsets: columns.list("toolsets")?,
        task: columns.text("task")?,
        workdir: columns.optional_text("workdir")?,
        script: columns.optional_text("script")?,
        delivery: delivery
            .parse::<ScheduleDelivery>()
            .map_err(|error| columns.unreadable("the delivery", error.to_string()))?,
        missed: columns.word("missed", |word| match word {
            "run" => Some(MissedPolicy::Run),
            "skip" => Some(MissedPolicy::Skip),
            _ => None,
        })?,
        created_at,
        anchor: columns.time("anchor")?,
        next_at: columns.optional_time("next_at")?,
        last_run_at: columns.optional_time("last_run_at")?,
        last_status: columns
            .optional_text("last_status")?
            .and_then(|word| ScheduleRunStatus::from_word(&word)),
        runs: columns.number("runs")?,
        failures: columns.number("failures")?,
    })
}

pub(super) fn run(row: &SqliteRow) -> Result<ScheduleRun> {
    let id: String = row.try_get("schedule").unwrap_or_default();
    let columns = RowReader { row, id };
    let number: i64 =
        row.try_get("id").map_err(|error| columns.unreadable("a run", error.to_string()))?;
    let schedule: ScheduleId = columns.id.parse()?;
    Ok(ScheduleRun {
        id: ScheduleRunId::new(number),
        schedule,
        trigger: columns.word("trigger", Trigger::from_word)?,
        status: columns.word("status", ScheduleRunStatus::from_word)?,
        due_at: columns.optional_time("due_at")?,
        missed: columns.number("missed")?,
        claimed_at: columns.time("claimed_at")?,
        started_at: columns.optional_time("started_at")?,
        ended_at: columns.optional_time("ended_at")?,
        owner: columns.optional_text("owner")?.and_then(|owner| self::owner(&owner)),
        conversation: columns.optional_text("conversation")?,
        output: columns.text("output")?,
        output_omitted: columns.number("output_omitted")?,
        error: columns.optional_text("error")?,
        tokens: columns.optional_number("tokens")?,
        micro_usd: columns.optional_number("micro_usd")?,
        delivered: columns.word("delivered", Delivered::from_word)?,
        delivery_error: columns.optional_text("delivery_error")?,
    })
}

/// Reads an owner; one that cannot be read is nobody.
pub(super) fn owner(text: &str) -> Option<RunOwner> {
    serde_json::from_str(text).ok()
}

/// Returns a list as it is stored.
pub(super) fn list_text(list: &[String]) -> String {
    serde_json::Value::from(list.to_vec()).to_string()
}
