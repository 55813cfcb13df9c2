//! One turn: from what a person says to what the model answers.

mod ask;
mod batch;
mod calls;
mod control;
mod guardrails;
mod outcome;
mod partial;
mod preview;
mod recollect;
mod run;
mod shrink;
mod summary;

pub use control::Control;
pub use guardrails::Guardrails;
pub use outcome::{CostSum, Outcome, TurnError, TurnResult};
pub(crate) use partial::recover;
pub(crate) use preview::preview;
pub(crate) use run::{Begin, run};
