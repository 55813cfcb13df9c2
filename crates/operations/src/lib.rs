#![doc = include_str!("../README.md")]

mod action;
mod plan;
mod record;
mod runner;
mod store;

pub use action::{Action, ActionError, Done, Verb, fork_target, free_snapshot_name};
pub use plan::plan;
pub use record::{
    InvalidOperationId, Operation, OperationEnd, OperationId, OperationState, Outcome, Recording,
    Step,
};
pub use runner::Runner;
pub use store::{OperationError, OperationStore, WatchedOperations};
