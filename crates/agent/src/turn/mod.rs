//! One turn: from what a person says to what the model answers.

mod ask;
mod calls;
mod control;
mod outcome;
mod run;

pub use calls::call_summary;
pub use control::{Control, Guardrails};
pub use outcome::{CostSum, TurnError, TurnOutcome, TurnResult};

pub(crate) use ask::recover;
pub(crate) use calls::{preview, summary as call_about};
pub(crate) use run::{TurnInput, run};
