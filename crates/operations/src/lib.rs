#![doc = include_str!("../README.md")]

mod action;
mod plan;
mod record;
mod runner;

pub use action::{Action, ActionError, Done, Verb};
pub use plan::plan;
pub use record::{
    InvalidOperationId, Operation, OperationEnd, OperationError, OperationId, OperationState,
    OperationStore, Outcome, Step,
};
pub use runner::Runner;
