//! How a worker ends: exit status, and what a turn without a report means for the task.

use vestal_agent::{TurnError, TurnOutcome};
use vestal_board::{BlockKind, Outcome};
use vestal_model::ModelError;

/// How a worker ended. The exit code repeats what is on the board, in case the board could not be
/// updated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkerExit {
    /// The task is done or handed over for review, or its review is done.
    Done,
    /// The task is blocked or scheduled for later.
    Waiting,
    /// The worker itself failed.
    Failed,
    /// The model's provider limits requests for now.
    Quota,
    /// The model ended without a report.
    NoReport,
    /// Somebody else holds the task.
    Lost,
    /// It took too long.
    TimedOut,
    /// A signal asked it to end.
    Terminated,
}

impl WorkerExit {
    /// Returns the exit code. It is a public interface.
    pub const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Waiting => 10,
            Self::Failed => 70,
            Self::Quota => 75,
            Self::NoReport => 76,
            Self::Lost => 77,
            Self::TimedOut => 124,
            Self::Terminated => 143,
        }
    }
}

impl std::fmt::Display for WorkerExit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Done => "done",
            Self::Waiting => "waiting",
            Self::Failed => "failed",
            Self::Quota => "rate limited",
            Self::NoReport => "no report",
            Self::Lost => "lost its task",
            Self::TimedOut => "timed out",
            Self::Terminated => "terminated",
        })
    }
}

/// How a worker ended, and the error if there was one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerReport {
    /// How it ended.
    pub exit: WorkerExit,
    /// What went wrong, if anything did.
    pub error: Option<String>,
}

impl WorkerReport {
    pub(crate) const fn new(exit: WorkerExit, error: Option<String>) -> Self {
        Self { exit, error }
    }
}

/// What becomes of a task whose model made no report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Resolution {
    /// The run ends with this outcome.
    End(Outcome, String),
    /// The task is blocked.
    Block(BlockKind, String),
}

impl Resolution {
    /// Returns how the worker exits.
    pub(crate) const fn exit(&self) -> WorkerExit {
        match self {
            Self::Block(..) => WorkerExit::Waiting,
            Self::End(Outcome::RateLimited, _) => WorkerExit::Quota,
            Self::End(Outcome::NoReport, _) => WorkerExit::NoReport,
            Self::End(Outcome::TimedOut, _) => WorkerExit::TimedOut,
            Self::End(Outcome::Terminated, _) => WorkerExit::Terminated,
            Self::End(..) => WorkerExit::Failed,
        }
    }

    pub(crate) fn reason(&self) -> &str {
        match self {
            Self::End(_, reason) | Self::Block(_, reason) => reason,
        }
    }

    /// Maps the outcome of a turn.
    pub(crate) fn from_turn(outcome: &TurnOutcome) -> Self {
        let no_report = |reason: String| Self::End(Outcome::NoReport, reason);
        match outcome {
            TurnOutcome::Completed => no_report(
                "the model stopped without a report, and reminding it did not help".to_owned(),
            ),
            TurnOutcome::BudgetExhausted => no_report(
                "the limit of model calls was reached before there was a report (agent.max_turns)"
                    .to_owned(),
            ),
            TurnOutcome::Looping { reason } => {
                no_report(format!("the model repeated itself without progress: {reason}"))
            }
            // A signal and a person who interrupts look the same from here.
            TurnOutcome::Interrupted => Self::End(Outcome::Terminated, "interrupted".to_owned()),
            TurnOutcome::Refused => Self::Block(
                BlockKind::Capability,
                "the model's provider refused to go on with this task".to_owned(),
            ),
            TurnOutcome::Failed(TurnError::Model(error)) => Self::from_model(error),
            TurnOutcome::Failed(error @ (TurnError::Empty { .. } | TurnError::TooLong(_))) => {
                no_report(error.to_string())
            }
            TurnOutcome::Failed(error @ TurnError::Store(_)) => {
                Self::End(Outcome::Crashed, error.to_string())
            }
        }
    }

    /// Maps a model error. Of several errors, the one that goes away soonest counts.
    fn from_model(error: &ModelError) -> Self {
        let reason = format!("{error}; {}", error.advice());
        match classify(error) {
            ErrorClass::Limited => Self::End(Outcome::RateLimited, reason),
            ErrorClass::Transient => Self::Block(BlockKind::Transient, reason),
            ErrorClass::Permanent => Self::Block(BlockKind::Capability, reason),
        }
    }
}

/// What it takes for an error to go away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ErrorClass {
    /// A person has to act.
    Permanent,
    /// It goes away by itself.
    Transient,
    /// It goes away by itself, and the provider says so.
    Limited,
}

fn classify(error: &ModelError) -> ErrorClass {
    match error {
        ModelError::RateLimited { .. } | ModelError::Quota { .. } => ErrorClass::Limited,
        ModelError::Unreachable { .. }
        | ModelError::Timeout { .. }
        | ModelError::Server { .. }
        | ModelError::Cut { .. }
        // One malformed answer says little about the next. The board counts how often it happens.
        | ModelError::Protocol { .. } => ErrorClass::Transient,
        ModelError::NotConfigured { .. }
        | ModelError::Authentication { .. }
        | ModelError::NotFound { .. }
        | ModelError::BadRequest { .. }
        | ModelError::ContextOverflow { .. }
        | ModelError::Refused { .. } => ErrorClass::Permanent,
        ModelError::Exhausted { failures } => {
            failures.iter().map(classify).max().unwrap_or(ErrorClass::Permanent)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use vestal_model::FailureDetail;

    use super::*;

    fn failed(error: ModelError) -> Resolution {
        Resolution::from_turn(&TurnOutcome::Failed(TurnError::Model(error)))
    }

    #[test]
    fn a_provider_that_lets_it_do_no_more_is_no_failure_of_the_task() {
        let limited =
            || ModelError::RateLimited { detail: FailureDetail::default(), retry_after: None };
        let quota = ModelError::Quota { detail: FailureDetail::default() };
        let wrong_key = || ModelError::Authentication { detail: FailureDetail::default() };
        for error in
            [limited(), quota, ModelError::Exhausted { failures: vec![wrong_key(), limited()] }]
        {
            let resolution = failed(error);
            assert!(
                matches!(resolution, Resolution::End(Outcome::RateLimited, _)),
                "{resolution:?}"
            );
            assert_eq!(resolution.exit().code(), 75);
        }
    }

    #[test]
    fn what_only_a_person_can_mend_waits_for_one_and_what_passes_is_tried_again() {
        let resolution = failed(ModelError::Authentication { detail: FailureDetail::default() });
        assert!(
            matches!(resolution, Resolution::Block(BlockKind::Capability, _)),
            "{resolution:?}"
        );
        let after = Duration::from_secs(1);
        let resolution = failed(ModelError::Timeout { detail: FailureDetail::default(), after });
        assert!(matches!(resolution, Resolution::Block(BlockKind::Transient, _)), "{resolution:?}");
        assert_eq!(resolution.exit().code(), 10);
    }

    #[test]
    fn one_answer_that_makes_no_sense_is_tried_again_and_waits_for_nobody() {
        let resolution = failed(ModelError::Protocol { detail: FailureDetail::default() });
        assert!(matches!(resolution, Resolution::Block(BlockKind::Transient, _)), "{resolution:?}");
    }

    #[test]
    fn every_end_has_a_code_of_its_own() {
        let all = [
            WorkerExit::Done,
            WorkerExit::Waiting,
            WorkerExit::Failed,
            WorkerExit::Quota,
            WorkerExit::NoReport,
            WorkerExit::Lost,
            WorkerExit::TimedOut,
            WorkerExit::Terminated,
        ];
        let codes = all.map(WorkerExit::code);
        assert_eq!(codes, [0, 10, 70, 75, 76, 77, 124, 143]);
    }

    #[test]
    fn a_turn_that_ends_without_a_report_says_why() {
        for outcome in [
            TurnOutcome::Completed,
            TurnOutcome::BudgetExhausted,
            TurnOutcome::Looping { reason: "the same call again and again".to_owned() },
        ] {
            let resolution = Resolution::from_turn(&outcome);
            assert!(matches!(resolution, Resolution::End(Outcome::NoReport, _)), "{resolution:?}");
            assert_eq!(resolution.exit().code(), 76);
        }
    }
}
