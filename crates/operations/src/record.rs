//! One action on record: what, by which process, how far, and what came of it.

use std::fmt;
use std::io;
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use vestal_process::ProcessId;
use vestal_sandbox::Progress;

use crate::action::{Action, Verb, bytes_in_words};

/// The version of the file.
pub(crate) const VERSION: u64 = 1;

/// Digits of an id.
const ID_LENGTH: usize = 20;

/// The id of an action: `o-` and hexadecimal digits; ids sort by the time they were made.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct OperationId(String);

/// A text that is no id of an action.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not the id of an operation: `o-` and {ID_LENGTH} hexadecimal digits")]
pub struct InvalidOperationId(String);

impl OperationId {
    pub(crate) fn new() -> io::Result<Self> {
        let mut random = [0; 4];
        getrandom::fill(&mut random)?;
        let millis = u64::try_from(Timestamp::now().as_millisecond()).unwrap_or_default();
        let random = u32::from_ne_bytes(random);
        Ok(Self(format!("o-{:012x}{random:08x}", millis & 0xffff_ffff_ffff)))
    }

    /// Returns it as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for OperationId {
    type Err = InvalidOperationId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_digit = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
        let digits = text.strip_prefix("o-").filter(|digits| digits.len() == ID_LENGTH);
        match digits {
            Some(digits) if digits.chars().all(is_digit) => Ok(Self(text.to_owned())),
            _ => Err(InvalidOperationId(text.chars().take(64).collect())),
        }
    }
}

impl TryFrom<String> for OperationId {
    type Error = InvalidOperationId;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<OperationId> for String {
    fn from(id: OperationId) -> Self {
        id.0
    }
}

impl fmt::Display for OperationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How far an action is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// What is being done, for people.
    pub words: String,
    /// How much of it is done, in bytes, where that is counted.
    #[serde(default)]
    pub done: Option<u64>,
    /// How much there is to do, once that is known.
    #[serde(default)]
    pub total: Option<u64>,
}

impl From<&Progress> for Step {
    fn from(progress: &Progress) -> Self {
        match progress {
            Progress::Pulling { image, layers_done, layers, bytes, total } => Self {
                words: format!("pulling image {image}: {layers_done} of {layers} layers"),
                done: Some(*bytes),
                total: Some(*total).filter(|total| *total > 0),
            },
            Progress::Pulled { image } => Self::named(format!("pulled image {image}")),
            Progress::Copying { what, files, bytes, total } => Self {
                words: format!("copying {what}: {files} files, {}", bytes_in_words(*bytes)),
                done: Some(*bytes),
                total: *total,
            },
            Progress::EndingProcesses { processes, .. } => {
                let word = if *processes == 1 { "process" } else { "processes" };
                Self::named(format!("ending {processes} {word} that commands left behind"))
            }
            Progress::Starting { what } => Self::named(what.clone()),
        }
    }
}

impl Step {
    pub(crate) fn named(words: String) -> Self {
        Self { words, done: None, total: None }
    }
}

/// What became of an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It is done.
    Done,
    /// It failed, and nothing was changed that is not said.
    Failed,
    /// It failed because jobs run; it may be tried again with them ended.
    Busy,
    /// It was given up in order, because its process ended; what it had begun is undone.
    GivenUp,
}

/// The end of an action.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperationEnd {
    /// When.
    pub at: Timestamp,
    /// What became of it.
    pub outcome: Outcome,
    /// The same in a sentence.
    pub words: String,
    /// What else is to be known, a sentence each.
    #[serde(default)]
    pub remarks: Vec<String>,
}

/// An action on record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operation {
    version: u64,
    /// Its id.
    pub id: OperationId,
    /// The task of the sandbox.
    pub task: String,
    /// What is done.
    pub verb: Verb,
    /// The same in words.
    pub what: String,
    /// The program that does it, such as `dashboard`.
    pub by: String,
    /// The process that does it.
    pub(crate) process: ProcessId,
    /// When it began.
    pub started_at: Timestamp,
    step: Step,
    /// How it ended, once it has.
    pub end: Option<OperationEnd>,
}

/// Where an action is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperationState {
    /// Its process is at it.
    Running,
    /// It has ended, and this became of it.
    Ended(Outcome),
    /// Its process died over it. The next use of the sandbox finishes or undoes it.
    Interrupted,
}

impl Operation {
    pub(crate) fn begun(task: String, action: &Action, by: &str) -> io::Result<Self> {
        Ok(Self {
            version: VERSION,
            id: OperationId::new()?,
            task,
            verb: action.verb(),
            what: action.to_string(),
            by: by.to_owned(),
            process: ProcessId::current()?,
            started_at: Timestamp::now(),
            step: Step::named("waiting for the sandbox".to_owned()),
            end: None,
        })
    }

    /// Returns where it is in its life.
    pub fn state(&self) -> OperationState {
        match &self.end {
            Some(end) => OperationState::Ended(end.outcome),
            None if self.process.is_alive() => OperationState::Running,
            None => OperationState::Interrupted,
        }
    }

    /// Returns how far it is, or was.
    pub fn progress(&self) -> &Step {
        &self.step
    }

    /// Returns what is being done, for people.
    pub fn step(&self) -> &str {
        &self.step.words
    }

    pub(crate) fn set_step(&mut self, step: Step) {
        self.step = step;
    }
}
