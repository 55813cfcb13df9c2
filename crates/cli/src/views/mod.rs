//! What `--json` prints. Public interfaces: extended, never renamed.

mod kanban;

pub(crate) use kanban::{AttachmentView, MovedView, SheetView, TaskRunView, TaskView, WorkerEnd};
