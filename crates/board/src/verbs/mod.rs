//! What a board can be asked. Each verb is a method of [`Board`](crate::Board)
//! and one transaction: it reads, asks the state machine (`machine`) what becomes
//! of the task, and writes that down with the event (`transition`). Who may ask is
//! decided there, too, against the store.

mod adopt;
mod context;
mod create;
mod diagnostics;
mod edit;
pub(crate) mod limits;
pub(crate) mod machine;
mod moves;
pub mod placement;
mod runs;
pub mod steps;
pub(crate) mod transition;

pub use crate::board::{BoardStats, TaskSheet};
pub use adopt::{AdoptedRun, AdoptedTask};
pub use context::HandedOver;
pub use create::{CreatedTask, Creation, Initial, NewTask};
pub use diagnostics::{Rule, Severity, TaskFinding, Thresholds};
pub use edit::TaskEdit;
pub use limits::{
    MAX_BODY, MAX_COMMENT, MAX_DEPTH, MAX_KEY, MAX_METADATA, MAX_NAME, MAX_REASON, MAX_TITLE,
    TASKS_PER_RUN,
};
pub use moves::{Block, Promotion, TaskCompletion};
pub use runs::{Claim, Heartbeat, RunEnd};
pub use transition::Moved;
