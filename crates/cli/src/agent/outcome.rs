//! How a turn's end ends the program.

use vestal_agent::{Outcome, TurnError, TurnResult};
use vestal_model::ModelError;
use vestal_sandbox::Termination;

use crate::error::Failure;
use crate::exit::Exit;

/// Returns the exit code of a turn. An interrupted one has that of the signal.
pub(crate) fn exit_of(result: &TurnResult, signal: Option<Termination>) -> Exit {
    match &result.outcome {
        Outcome::Completed => Exit::Success,
        Outcome::BudgetExhausted | Outcome::Looping { .. } => Exit::Stopped,
        Outcome::Refused => Exit::Refused,
        Outcome::Interrupted => Exit::Terminated(signal.unwrap_or(Termination::Interrupt)),
        Outcome::Failed(TurnError::Model(error)) if is_refusal(error) => Exit::Refused,
        Outcome::Failed(TurnError::Model(ModelError::NotConfigured { .. })) => Exit::No,
        Outcome::Failed(TurnError::Model(_) | TurnError::Empty { .. } | TurnError::TooLong(_)) => {
            Exit::Provider
        }
        Outcome::Failed(TurnError::Store(_)) => Exit::Failed,
    }
}

/// Returns what to tell a person about a turn without a whole answer.
pub(crate) fn failure_of(result: &TurnResult, signal: Option<Termination>) -> Option<Failure> {
    let exit = exit_of(result, signal);
    let failure = match &result.outcome {
        Outcome::Completed | Outcome::Interrupted => return None,
        Outcome::BudgetExhausted => Failure::new(format!(
            "stopped after {} calls of the model, before it was done",
            result.model_calls
        ))
        .advise("to let it go on: vestal chat -c -q 'go on'")
        .advise("to allow more: --max-turns N, or agent.max_turns in the settings"),
        Outcome::Looping { reason } => {
            Failure::new(format!("stopped because the model went round in circles: {reason}"))
                .advise("to go on with a hint: vestal chat -c -q 'try it differently'")
        }
        Outcome::Refused => Failure::new("the provider refused to answer")
            .advise("say it differently, or ask another model: -m PROVIDER:MODEL"),
        Outcome::Failed(TurnError::Model(error)) => {
            Failure::new(error.to_string()).advise(error.advice())
        }
        Outcome::Failed(error @ (TurnError::Empty { .. } | TurnError::TooLong(_))) => {
            Failure::new(error.to_string()).advise("ask another model: -m PROVIDER:MODEL")
        }
        Outcome::Failed(error @ TurnError::Store(_)) => Failure::new(error.to_string()),
    };
    Some(failure.with_exit(exit))
}

/// Reports whether everybody who was asked refused to answer.
fn is_refusal(error: &ModelError) -> bool {
    match error {
        ModelError::Refused { .. } => true,
        ModelError::Exhausted { failures } => failures.iter().all(is_refusal),
        _ => false,
    }
}
