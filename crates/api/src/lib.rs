#![doc = include_str!("../README.md")]

mod board;
mod conversation;
mod error;
mod extensions;
mod find;
mod health;
mod job;
pub mod keys;
mod model;
mod profile;
mod sandbox;
mod schema;
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
pub use extensions::{
    BrokenSkillView, InstalledSkillView, McpServerView, McpTestView, MissingVariableView,
    NotesView, RemovedSkillView, SkillCheckView, SkillDetailsView, SkillFileView,
    SkillVariableView, SkillView, SkillsView,
};
pub use find::{JobNotFound, JobPrefix, closest_name};
pub use health::{CheckView, Health, HealthView};
pub use job::{
    EndCause, JobPhase, JobView, RunSandboxView, RunView, SandboxBefore, SessionResult, timestamp,
};
pub use model::{DefaultModelView, ListSource, ModelsView, ProviderView, explained};
pub use profile::{
    ChosenProfileView, CreatedProfileView, DeletedProfileView, ExportedProfileView,
    ImportedProfileView, RenamedProfileView, SettingValueView,
};
pub use sandbox::{
    DriftView, GuestFacts, GuestView, OverridesView, ReapCause, ReapedView, RemovedView,
    SandboxDetailsView, SandboxState, SandboxView, StatsView, StoppedView, TaskStatsView,
};
pub use schema::{inherited_variables, schema};
pub use snapshot::{ForkedView, RebuiltView, RestoredView, SnapshotView};
pub use transfer::{CopiedView, Endpoint, TransferError, TransferPlan};
pub use turn::{CostOrigin, CostStatus, KnownCost, TurnExitReason, TurnView, dollars};
