//! Runs of a schedule: the outcome of its due moments.

use std::fmt;
use std::os::unix::fs::MetadataExt as _;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use vestal_process::ProcessId;

use crate::schedule::ScheduleId;
use crate::{Error, Result};

/// Bytes of a run's output that are kept. All of it is in its conversation.
pub const MAX_OUTPUT: usize = 64 << 10;

/// Bytes of an error that are kept.
const MAX_ERROR: usize = 4 << 10;

/// The number of a run. It grows with every run of a home.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ScheduleRunId(i64);

impl ScheduleRunId {
    /// Returns the run with this number.
    pub const fn new(number: i64) -> Self {
        Self(number)
    }

    /// Returns the number.
    pub const fn get(self) -> i64 {
        self.0
    }
}

impl fmt::Display for ScheduleRunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Why a run was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trigger {
    /// It was due.
    Due,
    /// It makes up for moments that were missed.
    CatchUp,
    /// A person or a program asked for it.
    Manual,
}

impl Trigger {
    /// Returns the word that is stored and shown.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Due => "due",
            Self::CatchUp => "catch_up",
            Self::Manual => "manual",
        }
    }

    pub(crate) fn from_word(word: &str) -> Option<Self> {
        [Self::Due, Self::CatchUp, Self::Manual].into_iter().find(|one| one.word() == word)
    }
}

/// The outcome of a due moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScheduleRunStatus {
    /// It was asked for, and nobody has taken it yet.
    Requested,
    /// It is claimed, and waits for others to end.
    Waiting,
    /// It is in progress.
    Running,
    /// The agent answered.
    Succeeded,
    /// It did not come to an answer; the error says why.
    Failed,
    /// It took too long and was interrupted.
    TimedOut,
    /// It was interrupted, as when its gateway stopped.
    Interrupted,
    /// Its process died. How far it came is unknown, so it is not repeated by itself.
    Lost,
    /// The run before it was still in progress.
    Skipped,
    /// Nobody was there to run it.
    Missed,
}

impl ScheduleRunStatus {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Requested,
        Self::Waiting,
        Self::Running,
        Self::Succeeded,
        Self::Failed,
        Self::TimedOut,
        Self::Interrupted,
        Self::Lost,
        Self::Skipped,
        Self::Missed,
    ];

    /// Returns the word that is stored and shown.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Requested => "requested",
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::TimedOut => "timed_out",
            Self::Interrupted => "interrupted",
            Self::Lost => "lost",
            Self::Skipped => "skipped",
            Self::Missed => "missed",
        }
    }

    pub(crate) fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.word() == word)
    }

    /// Reports whether it is yet to end.
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Requested | Self::Waiting | Self::Running)
    }

    /// Reports whether a person should know of it.
    pub const fn is_failure(self) -> bool {
        matches!(
            self,
            Self::Failed | Self::TimedOut | Self::Interrupted | Self::Lost | Self::Missed
        )
    }
}

/// The process that runs something. A pid means nothing in another process namespace, such as
/// another container's, so that is part of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunOwner {
    process: ProcessId,
    namespace: u64,
}

impl RunOwner {
    /// Returns this process.
    pub fn current() -> Result<Self> {
        let process = ProcessId::current().map_err(Error::Process)?;
        let namespace = std::fs::metadata("/proc/self/ns/pid").map_err(Error::Process)?.ino();
        Ok(Self { process, namespace })
    }

    /// Returns its pid.
    pub fn pid(&self) -> u32 {
        self.process.pid
    }

    /// Reports whether it is certainly gone; nothing if this process, `here`, cannot tell.
    pub(crate) fn is_gone(&self, here: &Self) -> Option<bool> {
        if self.process.boot != here.process.boot {
            return Some(true);
        }
        (self.namespace == here.namespace).then(|| !self.process.is_alive())
    }
}

/// The outcome of the delivery of a run's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Delivered {
    /// There is none to be made.
    None,
    /// It is yet to be made.
    Pending,
    /// It is being made.
    Begun,
    /// It was made.
    Done,
    /// It was not made; `delivery_error` says why.
    Failed,
}

impl Delivered {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Pending => "pending",
            Self::Begun => "begun",
            Self::Done => "done",
            Self::Failed => "failed",
        }
    }

    pub(crate) fn from_word(word: &str) -> Option<Self> {
        let all = [Self::None, Self::Pending, Self::Begun, Self::Done, Self::Failed];
        all.into_iter().find(|one| one.word() == word)
    }
}

/// A run, or a moment at which there was none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduleRun {
    /// Its number.
    pub id: ScheduleRunId,
    /// The schedule.
    pub schedule: ScheduleId,
    /// Why it was started.
    pub trigger: Trigger,
    /// Its outcome.
    pub status: ScheduleRunStatus,
    /// The due moment; none if somebody asked for it. Of several missed ones, the first.
    pub due_at: Option<Timestamp>,
    /// How many moments were missed, in an entry of missed ones.
    pub missed: u64,
    /// When it was claimed or recorded.
    pub claimed_at: Timestamp,
    /// When it began.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// The process that runs it, or ran it.
    pub owner: Option<RunOwner>,
    /// The conversation.
    pub conversation: Option<String>,
    /// The last message of the agent, as far as it is kept.
    pub output: String,
    /// Bytes of the output that are not kept.
    pub output_omitted: u64,
    /// Why it did not succeed.
    pub error: Option<String>,
    /// Tokens it took, if known.
    pub tokens: Option<u64>,
    /// What it cost, in millionths of a US dollar, if known.
    pub micro_usd: Option<u64>,
    /// The outcome of the delivery.
    pub delivered: Delivered,
    /// Why the output was not delivered.
    pub delivery_error: Option<String>,
}

impl ScheduleRun {
    /// Returns it as it really is: in progress only as far as its process is not gone, by what the
    /// process `here` can tell.
    pub(crate) fn seen_from(mut self, here: &RunOwner) -> Self {
        let has_begun =
            matches!(self.status, ScheduleRunStatus::Waiting | ScheduleRunStatus::Running);
        if has_begun && self.owner.as_ref().is_some_and(|owner| owner.is_gone(here) == Some(true)) {
            self.error = Some(lost_reason(self.status).to_owned());
            self.status = ScheduleRunStatus::Lost;
        }
        self
    }
}

/// Returns why a run is lost that had come so far.
pub(crate) fn lost_reason(status: ScheduleRunStatus) -> &'static str {
    if status == ScheduleRunStatus::Waiting {
        "its process died before it began"
    } else {
        "its process died; how far it came is unknown"
    }
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunOutcome {
    /// With an answer.
    Succeeded,
    /// Without one.
    Failed,
    /// It took too long.
    TimedOut,
    /// It was interrupted.
    Interrupted,
}

impl RunOutcome {
    pub(crate) const fn status(self) -> ScheduleRunStatus {
        match self {
            Self::Succeeded => ScheduleRunStatus::Succeeded,
            Self::Failed => ScheduleRunStatus::Failed,
            Self::TimedOut => ScheduleRunStatus::TimedOut,
            Self::Interrupted => ScheduleRunStatus::Interrupted,
        }
    }
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunReport {
    /// How it ended.
    pub outcome: RunOutcome,
    /// The last message of the agent.
    pub output: String,
    /// Why it did not succeed.
    pub error: Option<String>,
    /// The conversation.
    pub conversation: Option<String>,
    /// Tokens it took, if known.
    pub tokens: Option<u64>,
    /// What it cost, in millionths of a US dollar, if known.
    pub micro_usd: Option<u64>,
}

impl RunReport {
    /// Returns a report without an answer.
    pub fn without_answer(outcome: RunOutcome, error: impl Into<String>) -> Self {
        Self {
            outcome,
            output: String::new(),
            error: Some(error.into()),
            conversation: None,
            tokens: None,
            micro_usd: None,
        }
    }

    /// Returns what is kept of the output, and how many bytes are not.
    pub(crate) fn kept_output(&self) -> (&str, u64) {
        let kept = beginning(&self.output, MAX_OUTPUT);
        (kept, (self.output.len() - kept.len()) as u64)
    }

    pub(crate) fn kept_error(&self) -> Option<&str> {
        self.error.as_deref().map(|error| beginning(error, MAX_ERROR))
    }
}

/// Returns as much of the beginning of a text as fits.
fn beginning(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_is_read_as_it_is_written() {
        for status in ScheduleRunStatus::ALL {
            assert_eq!(ScheduleRunStatus::from_word(status.word()), Some(status));
        }
        assert_eq!(ScheduleRunStatus::from_word("done"), None);
    }

    #[test]
    fn this_process_is_there_and_one_of_another_boot_is_gone() {
        let here = RunOwner::current().unwrap();
        assert_eq!(here.is_gone(&here), Some(false));
        let process = ProcessId { boot: "other".to_owned(), ..here.process.clone() };
        assert_eq!(RunOwner { process, ..here.clone() }.is_gone(&here), Some(true));
        let process = ProcessId { start: here.process.start + 1, ..here.process.clone() };
        assert_eq!(RunOwner { process, ..here.clone() }.is_gone(&here), Some(true));
        let elsewhere = RunOwner { namespace: here.namespace + 1, ..here.clone() };
        assert_eq!(elsewhere.is_gone(&here), None);
    }

    #[test]
    fn a_long_output_is_cut_between_characters() {
        let output = format!("a{}", "é".repeat(MAX_OUTPUT));
        let report = RunReport { output, ..RunReport::without_answer(RunOutcome::Failed, "x") };
        let (kept, omitted) = report.kept_output();
        assert_eq!(kept.len(), MAX_OUTPUT - 1);
        assert_eq!(kept.len() + usize::try_from(omitted).unwrap(), report.output.len());
    }
}
