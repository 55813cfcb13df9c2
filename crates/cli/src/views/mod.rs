//! What `--json` prints. Public interfaces: extended, never renamed.

mod job;
mod kanban;
mod run;
mod sandbox;
mod snapshot;
mod turn;

pub(crate) use job::{JobView, state_word};
pub(crate) use kanban::{AttachmentView, MovedView, SheetView, TaskRunView, TaskView, WorkerEnd};
pub(crate) use run::RunView;
pub(crate) use sandbox::{SandboxView, StatsView, state_name};
pub(crate) use snapshot::{ForkedView, RebuiltView, RestoredView, SnapshotView};
pub(crate) use turn::{Cost, TurnView};
