//! One action on record: what, by which process, how far, and what came of it.

use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use std::{fmt, io};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use vestal_config::Home;
use vestal_process::ProcessId;
use vestal_sandbox::{Progress, TaskName};

use crate::action::{Action, ActionError, Done, Verb, bytes_in_words};
use crate::store::{OperationError, OperationStore, RecordDurability};

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
    /// It failed; everything that was changed is reported.
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

/// How often the progress of an action is written at most.
const WRITE_EVERY: Duration = Duration::from_millis(250);

/// An action that this process is at, on record. This process alone writes it. One that is dropped
/// without an end is *interrupted* once the process is gone. Cloning gives the same one.
#[derive(Debug, Clone)]
pub struct Recording(Arc<OpenRecord>);

#[derive(Debug)]
struct OpenRecord {
    store: OperationStore,
    operation: Mutex<Operation>,
    /// The newest step, for the task that writes it: whoever reports one must not wait for a disk.
    step: watch::Sender<Option<Step>>,
}

impl Recording {
    /// Puts an action on record before it is begun. `by` is the program, such as `dashboard`. It is
    /// called within a runtime, which writes how far the action is.
    pub fn begin(
        home: &Home,
        task: &TaskName,
        action: &Action,
        by: &str,
    ) -> Result<Self, OperationError> {
        let store = OperationStore::of(home);
        let io = |source| OperationError::Io { path: store.dir().to_owned(), source };
        let operation = Operation::begun(task.to_string(), action, by).map_err(io)?;
        store.forget_old(Timestamp::now());
        store.write(&operation, RecordDurability::Synced)?;
        let (step, steps) = watch::channel(None);
        let record = Arc::new(OpenRecord { store, operation: Mutex::new(operation), step });
        tokio::spawn(write_steps(Arc::downgrade(&record), steps));
        Ok(Self(record))
    }

    /// Returns its id.
    pub fn id(&self) -> OperationId {
        self.0.operation.lock().unwrap_or_else(PoisonError::into_inner).id.clone()
    }

    /// Records how far it is, four times a second at most. What is reported in between is not written.
    pub fn progress(&self, progress: &Progress) {
        self.0.step.send_replace(Some(Step::from(progress)));
    }

    /// Records that it is done.
    pub fn done(&self, done: Done) {
        self.end(Outcome::Done, done.words, done.remarks);
    }

    /// Records that it failed.
    pub fn failed(&self, error: &ActionError) {
        let outcome = if error.is_busy() { Outcome::Busy } else { Outcome::Failed };
        self.end(outcome, error.to_string(), Vec::new());
    }

    /// Records that its process gave it up. `is_undone`: nothing incomplete is left.
    pub fn given_up(&self, is_undone: bool) {
        let undone = if is_undone {
            "nothing incomplete is left"
        } else {
            "what it had begun is undone by the next use of the sandbox"
        };
        self.end(Outcome::GivenUp, format!("its program was ended; {undone}"), Vec::new());
    }

    fn end(&self, outcome: Outcome, words: String, remarks: Vec<String>) {
        let end = OperationEnd { at: Timestamp::now(), outcome, words, remarks };
        self.0.write(|operation| operation.end = Some(end), RecordDurability::Synced);
    }
}

impl OpenRecord {
    /// Changes and writes the record, unless it has ended. One that cannot be written says less than
    /// is known, and nothing wrong.
    fn write(&self, change: impl FnOnce(&mut Operation), durability: RecordDurability) {
        let mut operation = self.operation.lock().unwrap_or_else(PoisonError::into_inner);
        if operation.end.is_some() {
            return;
        }
        change(&mut operation);
        if let Err(error) = self.store.write(&operation, durability) {
            tracing::warn!(%error, id = %operation.id, "an operation was not recorded");
        }
    }
}

/// Writes how far an action is, until nobody is at it any more.
async fn write_steps(record: Weak<OpenRecord>, mut steps: watch::Receiver<Option<Step>>) {
    while steps.changed().await.is_ok() {
        let step = steps.borrow_and_update().clone();
        let Some(record) = record.upgrade() else { return };
        if let Some(step) = step {
            record.write(|operation| operation.set_step(step), RecordDurability::Passing);
        }
        drop(record);
        tokio::time::sleep(WRITE_EVERY).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_reported_is_found_on_record_and_nothing_after_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path());
        let (task, store) = ("web".parse().unwrap(), OperationStore::of(&home));
        let recording = Recording::begin(&home, &task, &Action::Stop, "test").unwrap();
        let found = || store.find(&recording.id()).unwrap();
        assert_eq!(found().state(), OperationState::Running);
        recording.progress(&Progress::Starting { what: "copying".to_owned() });
        vestal_testkit::until("the step is on record", || found().step() == "copying").await;
        recording.done(Done { words: "stopped web".to_owned(), remarks: Vec::new() });
        recording.progress(&Progress::Starting { what: "too late".to_owned() });
        recording.given_up(true);
        let end = found().end.unwrap();
        assert_eq!((end.outcome, end.words.as_str()), (Outcome::Done, "stopped web"));
        assert_eq!(found().step(), "copying");
    }
}
