//! What the end of a turn without a report means for the task.

use vestal_agent::{Outcome as TurnOutcome, TurnError};
use vestal_board::{BlockKind, Outcome};
use vestal_model::ModelError;

use crate::ending::Ending;

/// What becomes of a task whose worker did not report itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The run ends so.
    End(Outcome, String),
    /// The task waits.
    Block(BlockKind, String),
}

impl Verdict {
    /// Returns how the worker ends by it.
    pub(crate) const fn ending(&self) -> Ending {
        match self {
            Self::Block(..) => Ending::Waiting,
            Self::End(Outcome::RateLimited, _) => Ending::Quota,
            Self::End(Outcome::NoReport, _) => Ending::NoReport,
            Self::End(Outcome::TimedOut, _) => Ending::TimedOut,
            Self::End(Outcome::Terminated, _) => Ending::Terminated,
            Self::End(..) => Ending::Failed,
        }
    }

    /// Returns it in words.
    pub(crate) fn words(&self) -> &str {
        match self {
            Self::End(_, words) | Self::Block(_, words) => words,
        }
    }

    /// Decides by how a turn ended.
    pub(crate) fn of_turn(outcome: &TurnOutcome) -> Self {
        let no_report = |words: String| Self::End(Outcome::NoReport, words);
        match outcome {
            TurnOutcome::Completed => no_report(
                "the model stopped without a report, and reminding it did not help".to_owned(),
            ),
            TurnOutcome::BudgetExhausted => no_report(
                "the limit of model calls was reached before there was a report (agent.max_turns)"
                    .to_owned(),
            ),
            TurnOutcome::Looping { reason } => no_report(format!("stopped in a circle: {reason}")),
            // Nobody who could be meant by it is told apart from here.
            TurnOutcome::Interrupted => Self::End(Outcome::Terminated, "interrupted".to_owned()),
            TurnOutcome::Refused => Self::Block(
                BlockKind::Capability,
                "the model's provider refused to go on with this task".to_owned(),
            ),
            TurnOutcome::Failed(TurnError::Model(error)) => Self::of_model(error),
            TurnOutcome::Failed(error @ (TurnError::Empty { .. } | TurnError::TooLong(_))) => {
                no_report(error.to_string())
            }
            TurnOutcome::Failed(error @ TurnError::Store(_)) => {
                Self::End(Outcome::Crashed, error.to_string())
            }
        }
    }

    /// Decides by why there is no answer. Of several reasons the one counts
    /// that soonest goes away by itself.
    fn of_model(error: &ModelError) -> Self {
        let words = format!("{error}; {}", error.advice());
        match nature(error) {
            Nature::Limited => Self::End(Outcome::RateLimited, words),
            Nature::Passing => Self::Block(BlockKind::Transient, words),
            Nature::Lasting => Self::Block(BlockKind::Capability, words),
        }
    }
}

/// What helps against an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Nature {
    /// Only a person.
    Lasting,
    /// Time.
    Passing,
    /// Time, and the provider says so.
    Limited,
}

fn nature(error: &ModelError) -> Nature {
    match error {
        ModelError::RateLimited { .. } | ModelError::Quota { .. } => Nature::Limited,
        ModelError::Unreachable { .. }
        | ModelError::Timeout { .. }
        | ModelError::Server { .. }
        | ModelError::Cut { .. }
        // One answer that makes no sense says little about the next; the board counts how often.
        | ModelError::Protocol { .. } => Nature::Passing,
        ModelError::NotConfigured { .. }
        | ModelError::Authentication { .. }
        | ModelError::NotFound { .. }
        | ModelError::BadRequest { .. }
        | ModelError::ContextOverflow { .. }
        | ModelError::Refused { .. } => Nature::Lasting,
        ModelError::Exhausted { failures } => {
            failures.iter().map(nature).max().unwrap_or(Nature::Lasting)
        }
    }
}

#[cfg(test)]
#[path = "verdict_tests.rs"]
mod tests;
