//! What `--json` prints. Public interfaces: extended, never renamed.

mod kanban;
mod turn;

pub(crate) use kanban::{AttachmentView, MovedView, SheetView, TaskRunView, TaskView, WorkerEnd};
pub(crate) use turn::{Cost, TurnView};
