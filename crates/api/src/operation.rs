//! Long actions on sandboxes: how far they are, and what came of them.

use serde::{Deserialize, Serialize};
use vestal_operations::{Operation, OperationState, Outcome, Verb};

/// Where a long action is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OperationPhase {
    /// A process is at it.
    Running,
    /// It is done.
    Done,
    /// It failed.
    Failed,
    /// It was refused because jobs run; it may be tried again with them ended.
    Busy,
    /// Its program was ended in order, and what it had begun is undone.
    GivenUp,
    /// Its process died over it; the next use of the sandbox finishes or undoes it.
    Interrupted,
}

impl OperationPhase {
    /// Returns the word for it, as JSON has it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Busy => "busy",
            Self::GivenUp => "given_up",
            Self::Interrupted => "interrupted",
        }
    }
}

impl From<OperationState> for OperationPhase {
    fn from(state: OperationState) -> Self {
        match state {
            OperationState::Running => Self::Running,
            OperationState::Ended(Outcome::Done) => Self::Done,
            OperationState::Ended(Outcome::Failed) => Self::Failed,
            OperationState::Ended(Outcome::Busy) => Self::Busy,
            OperationState::Ended(Outcome::GivenUp) => Self::GivenUp,
            OperationState::Interrupted => Self::Interrupted,
        }
    }
}

/// A long action on a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperationView {
    /// Its id: `o-` and hexadecimal digits; ids sort by the time they were made.
    pub id: String,
    /// The profile.
    pub profile: String,
    /// The task of the sandbox.
    pub task: String,
    /// What is done.
    pub verb: Verb,
    /// The same in words, such as `saving it as before-upgrade`.
    pub what: String,
    /// The program that does it.
    pub by: String,
    /// Where it is in its life.
    pub state: OperationPhase,
    /// When it began.
    pub started_at: String,
    /// When it ended.
    pub ended_at: Option<String>,
    /// What is being done, or was at last.
    pub step: String,
    /// How many bytes of it are done, where that is counted.
    pub done: Option<u64>,
    /// How many there are, once that is known.
    pub total: Option<u64>,
    /// What came of it, in a sentence.
    pub result: Option<String>,
    /// What else is to be known.
    pub remarks: Vec<String>,
}

impl OperationView {
    /// Returns the view of an action in a profile.
    pub fn new(profile: &str, operation: &Operation) -> Self {
        let (state, end) = (operation.state().into(), operation.end.as_ref());
        let interrupted = || {
            "the program that did it died; the next use of the sandbox finishes or undoes it"
                .to_owned()
        };
        let progress = operation.progress();
        Self {
            id: operation.id.to_string(),
            profile: profile.to_owned(),
            task: operation.task.clone(),
            verb: operation.verb,
            what: operation.what.clone(),
            by: operation.by.clone(),
            state,
            started_at: operation.started_at.to_string(),
            ended_at: end.map(|end| end.at.to_string()),
            step: progress.words.clone(),
            done: progress.done,
            total: progress.total,
            result: end
                .map(|end| end.words.clone())
                .or_else(|| (state == OperationPhase::Interrupted).then(interrupted)),
            remarks: end.map(|end| end.remarks.clone()).unwrap_or_default(),
        }
    }

    /// Returns how much of it is done, in hundredths, where that is counted.
    pub fn percent(&self) -> Option<u64> {
        let (done, total) = (self.done?, self.total.filter(|total| *total > 0)?);
        u64::try_from(u128::from(done.min(total)) * 100 / u128::from(total)).ok()
    }
}
