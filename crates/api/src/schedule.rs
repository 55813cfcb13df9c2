//! Schedules and their runs, and what is asked about them.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use vestal_schedules::{
    Delivered, Error, MissedPolicy, NewSchedule, Schedule, ScheduleChange, ScheduleRun,
    ScheduleRunStatus, ScheduleState, ScheduleTiming, Trigger, Zone,
};

use crate::dollars;

/// How many of the next moments are shown.
const UPCOMING: usize = 3;

/// A schedule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ScheduleView {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Whether it is due again.
    #[schemars(with = "String")]
    pub state: ScheduleState,
    /// When it is due, as it was written.
    pub schedule: String,
    /// The same in words.
    pub description: String,
    /// The time zone of the clock that it means.
    pub timezone: String,
    /// What the agent is asked.
    pub prompt: String,
    /// Skills whose instructions the agent is given.
    pub skills: Vec<String>,
    /// The model; null for the configured one.
    pub model: Option<String>,
    /// The toolsets; null for the configured ones.
    pub toolsets: Option<Vec<String>>,
    /// The task whose sandbox it works in.
    pub task: String,
    /// The directory of the sandbox that it begins in.
    pub workdir: Option<String>,
    /// A command that is run first, whose output is added to the prompt.
    pub script: Option<String>,
    /// Where its output goes: `local` or `conversation:ID`.
    pub deliver: String,
    /// What happens to moments that were missed.
    #[schemars(with = "String")]
    pub missed: MissedPolicy,
    /// When it was created.
    pub created_at: String,
    /// The next due moment; null unless it is active.
    pub next_run_at: Option<String>,
    /// Whether that moment has passed and nobody has taken it: no gateway runs schedules, or it is
    /// about to.
    #[serde(default)]
    pub overdue: bool,
    /// The next moments from now on.
    pub upcoming: Vec<String>,
    /// When the last run began.
    pub last_run_at: Option<String>,
    /// What became of the last moment or run.
    #[schemars(with = "Option<String>")]
    pub last_status: Option<ScheduleRunStatus>,
    /// Runs that ended, all in all.
    pub runs: u64,
    /// Those of them that did not succeed.
    pub failures: u64,
}

impl ScheduleView {
    /// Returns the view of a schedule at a time.
    pub fn new(schedule: &Schedule, now: Timestamp) -> Self {
        let text = |at: Timestamp| at.to_string();
        Self {
            id: schedule.id.to_string(),
            name: schedule.name.clone(),
            state: schedule.state,
            schedule: schedule.timing.to_string(),
            description: schedule.timing.in_words(),
            timezone: schedule.zone.name().to_owned(),
            prompt: schedule.prompt.clone(),
            skills: schedule.skills.clone(),
            model: schedule.model.clone(),
            toolsets: schedule.toolsets.clone(),
            task: schedule.task.clone(),
            workdir: schedule.workdir.clone(),
            script: schedule.script.clone(),
            deliver: schedule.delivery.to_string(),
            missed: schedule.missed,
            created_at: text(schedule.created_at),
            next_run_at: schedule.next_at.map(text),
            overdue: is_overdue(schedule, now),
            upcoming: schedule.upcoming(now, UPCOMING).into_iter().map(text).collect(),
            last_run_at: schedule.last_run_at.map(text),
            last_status: schedule.last_status,
            runs: schedule.runs,
            failures: schedule.failures,
        }
    }
}

/// Reports whether the next moment of a schedule has passed and nobody has taken it.
pub fn is_overdue(schedule: &Schedule, now: Timestamp) -> bool {
    schedule.state == ScheduleState::Active && schedule.next_at.is_some_and(|next| next <= now)
}

/// A run of a schedule, or a moment at which there was none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ScheduleRunView {
    /// Its number.
    pub id: i64,
    /// The schedule.
    pub schedule_id: String,
    /// Why it was begun.
    #[schemars(with = "String")]
    pub trigger: Trigger,
    /// What became of it.
    #[schemars(with = "String")]
    pub status: ScheduleRunStatus,
    /// The due moment; null if somebody asked for it. Of several missed ones, the first.
    pub due_at: Option<String>,
    /// How many moments were missed, in an entry of missed ones.
    pub missed: u64,
    /// When it was claimed or recorded.
    pub claimed_at: String,
    /// When it began.
    pub started_at: Option<String>,
    /// When it ended.
    pub ended_at: Option<String>,
    /// How long it took.
    pub duration_ms: Option<i64>,
    /// Its conversation.
    pub conversation: Option<String>,
    /// What the agent said last, as far as it is kept.
    pub output: String,
    /// Bytes of the output that are not kept.
    pub output_omitted: u64,
    /// Why it did not succeed.
    pub error: Option<String>,
    /// Tokens it took; null if unknown.
    pub tokens: Option<u64>,
    /// What it cost in US dollars; null if unknown.
    pub cost_usd: Option<f64>,
    /// What became of the delivery of the output.
    #[schemars(with = "String")]
    pub delivery: Delivered,
    /// Why the output was not delivered.
    pub delivery_error: Option<String>,
}

impl From<&ScheduleRun> for ScheduleRunView {
    fn from(run: &ScheduleRun) -> Self {
        let text = |at: Timestamp| at.to_string();
        let took = run.started_at.zip(run.ended_at);
        let took = took.map(|(from, to)| to.as_millisecond() - from.as_millisecond());
        Self {
            id: run.id.get(),
            schedule_id: run.schedule.to_string(),
            trigger: run.trigger,
            status: run.status,
            due_at: run.due_at.map(text),
            missed: run.missed,
            claimed_at: text(run.claimed_at),
            started_at: run.started_at.map(text),
            ended_at: run.ended_at.map(text),
            duration_ms: took,
            conversation: run.conversation.clone(),
            output: run.output.clone(),
            output_omitted: run.output_omitted,
            error: run.error.clone(),
            tokens: run.tokens,
            cost_usd: run.micro_usd.map(dollars),
            delivery: run.delivered,
            delivery_error: run.delivery_error.clone(),
        }
    }
}

/// Who runs the schedules of a profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchedulesRunner {
    /// Whether somebody does.
    pub is_running: bool,
    /// The gateway's process.
    pub pid: Option<u32>,
    /// Why schedules are not run, and what to do about it.
    pub reason: Option<String>,
}

/// What `cron status` prints.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScheduleStatusView {
    /// Who runs schedules.
    pub runner: SchedulesRunner,
    /// Schedules that are due again.
    pub active: usize,
    /// Schedules that are paused.
    pub paused: usize,
    /// What is due next.
    pub next: Option<ScheduleView>,
    /// Runs in progress.
    pub running: Vec<ScheduleRunView>,
    /// The last entry of each schedule that failed, was lost or was missed, the latest first.
    pub trouble: Vec<ScheduleRunView>,
    /// Schedules that cannot be read, and why.
    pub unreadable: Vec<String>,
}

/// What is asked of a schedule: all of a new one, or what changes about another. A member that is
/// not there stays as it is, one that is null goes back to the default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScheduleRequest {
    /// Its name.
    #[serde(default)]
    pub name: Option<String>,
    /// When it is due: a cron expression, `every 2h`, `at 2026-12-24T18:00`, `in 20m`.
    #[serde(default)]
    pub schedule: Option<String>,
    /// The time zone by its IANA name; that of the machine unless given.
    #[serde(default)]
    pub timezone: Option<String>,
    /// What the agent is asked.
    #[serde(default)]
    pub prompt: Option<String>,
    /// Skills whose instructions the agent is given.
    #[serde(default)]
    pub skills: Option<Vec<String>>,
    /// The model.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "Option<String>")]
    pub model: Option<Option<String>>,
    /// The toolsets.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "Option<Vec<String>>")]
    pub toolsets: Option<Option<Vec<String>>>,
    /// The task whose sandbox it works in.
    #[serde(default)]
    pub task: Option<String>,
    /// The directory of the sandbox that it begins in.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "Option<String>")]
    pub workdir: Option<Option<String>>,
    /// A command that is run first.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "Option<String>")]
    pub script: Option<Option<String>>,
    /// Where its output goes.
    #[serde(default)]
    pub deliver: Option<String>,
    /// What happens to moments that were missed.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub missed: Option<MissedPolicy>,
}

/// Distinguishes a member that is null from one that is not there.
#[expect(clippy::option_option, reason = "not there, null, and a value are three things")]
fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

impl ScheduleRequest {
    /// Returns the schedule that is to be created.
    pub fn create(self, now: Timestamp) -> Result<NewSchedule, Error> {
        let missing = |field| Error::Invalid { field, reason: "is missing".to_owned() };
        let timing = self.schedule.as_deref().ok_or_else(|| missing("the schedule"))?;
        let timing = ScheduleTiming::parse(timing, now)?;
        let prompt = self.prompt.ok_or_else(|| missing("the prompt"))?;
        let zone = match &self.timezone {
            Some(name) => Zone::named(name)?,
            None => Zone::system(),
        };
        let new = NewSchedule::new(timing, zone, prompt);
        Ok(NewSchedule {
            name: self.name,
            skills: self.skills.unwrap_or_default(),
            model: self.model.flatten(),
            toolsets: self.toolsets.flatten(),
            task: self.task.unwrap_or_else(|| new.task.clone()),
            workdir: self.workdir.flatten(),
            script: self.script.flatten(),
            delivery: self.deliver.as_deref().unwrap_or("local").parse()?,
            missed: self.missed.unwrap_or_default(),
            ..new
        })
    }

    /// Returns what is to be changed.
    pub fn change(self, now: Timestamp) -> Result<ScheduleChange, Error> {
        let timing =
            self.schedule.as_deref().map(|text| ScheduleTiming::parse(text, now)).transpose()?;
        Ok(ScheduleChange {
            name: self.name,
            timing,
            zone: self.timezone.as_deref().map(Zone::named).transpose()?,
            prompt: self.prompt,
            skills: self.skills,
            model: self.model,
            toolsets: self.toolsets,
            task: self.task,
            workdir: self.workdir,
            script: self.script,
            delivery: self.deliver.as_deref().map(str::parse).transpose()?,
            missed: self.missed,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-01-31T10:00:00Z".parse().unwrap()
    }

    #[test]
    fn a_member_that_is_null_is_not_one_that_is_missing() {
        let read = |text: &str| serde_json::from_str::<ScheduleRequest>(text).unwrap();
        assert_eq!(read("{}").change(now()).unwrap().model, None);
        assert_eq!(read(r#"{"model":null}"#).change(now()).unwrap().model, Some(None));
        let named = read(r#"{"model":"m","deliver":"conversation:k3f9ab"}"#).change(now()).unwrap();
        assert_eq!(named.model, Some(Some("m".to_owned())));
        assert!(serde_json::from_str::<ScheduleRequest>(r#"{"promt":"x"}"#).is_err());
    }

    #[test]
    fn a_new_schedule_needs_a_time_and_a_prompt() {
        for (request, reason) in [
            (r#"{"prompt":"x"}"#, "the schedule is missing"),
            (r#"{"schedule":"every 2h"}"#, "the prompt is missing"),
            (r#"{"schedule":"soon","prompt":"x"}"#, "is not a schedule"),
            (r#"{"schedule":"every 2h","prompt":"x","timezone":"Mars/O"}"#, "no time zone"),
            (r#"{"schedule":"every 2h","prompt":"x","deliver":"mail"}"#, "the delivery"),
        ] {
            let request: ScheduleRequest = serde_json::from_str(request).unwrap();
            let error = request.create(now()).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }
}
