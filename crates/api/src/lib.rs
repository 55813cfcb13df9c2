#![doc = include_str!("../README.md")]

mod board;
mod conversation;
mod error;
mod job;
mod sandbox;
mod snapshot;
mod transfer;
mod turn;

pub use board::{
    AssigneeView, AttachedFileView, AttachmentView, BoardPlaceView, BoardTaskView, BoardView,
    BulkMovedView, CommentView, CommentedView, CurrentBoardView, DeletedTaskView, DetachedView,
    EventView, HeartbeatView, MovedView, RelativeView, RemovedBoardView, RestoredBoardView,
    TaskContextView, TaskDetailsView, TaskFailureView, TaskLogView, TaskRunView, TaskView,
    WorkerEnd,
};
pub use conversation::{
    ConversationDetailsView, ConversationView, DeletedConversationView, EXPORT_VERSION, ExportLine,
    ExportedConversationView, HitView, ParentView, RenamedConversationView, UndoneView, UsageView,
};
pub use error::{ErrorView, TaskErrorView};
pub use job::{
    EndCause, JobPhase, JobView, RunSandboxView, RunView, SandboxBefore, SessionResult, timestamp,
};
pub use sandbox::{
    DriftView, GuestFacts, GuestView, OverridesView, ReapCause, ReapedView, RemovedView,
    SandboxDetailsView, SandboxState, SandboxView, StatsView, StoppedView, TaskStatsView,
};
pub use snapshot::{ForkedView, RebuiltView, RestoredView, SnapshotView};
pub use transfer::{CopiedView, Endpoint, TransferError, TransferPlan};
pub use turn::{CostOrigin, CostStatus, KnownCost, TurnExitReason, TurnView, dollars};
