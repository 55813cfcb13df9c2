#![doc = include_str!("../README.md")]

mod action;
mod plan;
mod record;
mod recording;
mod runner;
mod snapshot_name;
mod store;

pub use action::{Action, ActionError, Done, Verb, fork_target};
pub use plan::plan;
pub use record::{
    InvalidOperationId, Operation, OperationEnd, OperationId, OperationState, Outcome, Step,
};
pub use recording::Recording;
pub use runner::Runner;
pub use snapshot_name::free_snapshot_name;
pub use store::{OperationError, OperationStore, WatchedOperations};
