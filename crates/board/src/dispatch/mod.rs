//! Dispatch: a plan, made of a snapshot by a pure function, and its execution.
//!
//! [`BoardSnapshot::take`] reads the board, [`plan()`] decides, and
//! the dispatcher (`vestal-dispatcher`) does what was decided. A dry run ends after
//! the second step, so it cannot change anything.

mod draft;
mod plan;
mod policy;
mod repair;
mod result;
mod slots;
mod snapshot;
#[cfg(test)]
mod testing;

pub use plan::{DispatchPlan, WorkerStart, plan, plan_together};
pub use policy::{Backoff, Budgets, Caps, DispatchPolicy, FailurePolicy, Shown};
pub use repair::{Repair, takes_slot};
pub use result::{Bucket, Capped, CappedBy, DispatchResult, Guarded, Spawned};
pub use snapshot::{BoardSnapshot, DispatchView, Liveness, OutsideLoad, WatchedRun};
