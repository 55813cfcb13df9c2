#![doc = include_str!("../README.md")]

mod agent_run;
mod board;
mod conversation;
pub mod dashboard;
mod dispatch;
mod error;
mod extensions;
mod file;
mod find;
mod gateway;
mod gateway_addresses;
mod health;
mod job;
pub mod keys;
mod logs;
mod message_lines;
mod model;
mod operation;
mod profile;
mod sandbox;
mod sandbox_page;
mod schedule;
mod schema;
mod secret_keys;
mod snapshot;
mod sync;
mod task;
mod task_change;
mod task_diff;
mod transfer;
mod turn;
mod usage;

pub use agent_run::{
    AgentRunError, AgentRunQuestion, AgentRunQuestionKind, AgentRunStatus, AgentRunUsage,
    AgentRunView,
};
pub use board::{
    AssigneeView, BoardMoveView, BoardPlaceView, BoardTileView, BoardView, CurrentBoardView,
    DispatchPlanView, RemovedBoardView, RestoredBoardView, TaskPageView,
};
pub use conversation::{
    ConversationDetailsView, ConversationView, DeletedConversationView, EXPORT_VERSION, ExportLine,
    ExportedConversationView, HitView, ParentView, RenamedConversationView, UndoneView, UsageView,
};
pub use dispatch::{CollectedView, DispatchEventView, KeptTreeView};
pub use error::{ErrorView, TaskErrorView};
pub use extensions::{
    BrokenSkillView, InstalledSkillView, McpServerView, McpTestView, MissingVariableView,
    NotesView, RemovedSkillView, SkillCheckView, SkillDetailsView, SkillFileView,
    SkillVariableView, SkillView, SkillsView,
};
pub use file::{
    DirectoryView, EntryView, FileType, FileView, FoundView, LogsView, MatchView, OutputView,
    WrittenView,
};
pub use find::{JobNotFound, JobPrefix, closest_name};
pub use gateway::{
    DASHBOARD_SLOT, GatewayExitView, GatewayListenerView, GatewayLogLineView, GatewayOutcomeView,
    GatewayStatusView, GatewayView, ManagerKind, ManagerView, UnitView, gateway_command,
    profile_order,
};
pub use gateway_addresses::{
    ForeignListenerView, ListenerSandboxView, SharedApiAddress, api_address, shared_api_addresses,
};
pub use health::{Health, HealthCheckView, HealthReportView};
pub use job::{
    EndCause, ExitLost, JobPhase, JobView, RunSandboxView, RunView, SandboxBefore, SessionResult,
    timestamp,
};
pub use logs::{
    LogSource, UnknownLogSource, agent_log_files, dashboard_log_dir, errors_log_files, log_sources,
};
pub use message_lines::{MessageLine, MessageLines};
pub use model::{DefaultModelView, ListSource, ModelsView, ProviderView, explained};
pub use operation::{OperationPhase, OperationView};
pub use profile::{
    ChosenProfileView, CreatedProfileView, DeletedProfileView, ExportedProfileView,
    ImportedProfileView, RenamedProfileView, SettingValueView, safety_settings,
};
pub use sandbox::{
    DriftView, ForgottenView, GuestFacts, GuestView, LastKnownView, OverridesView, ReapCause,
    ReapedView, RemovalView, RemovedView, SandboxDetailsView, SandboxState, SandboxView, StatsView,
    StoppedView, TaskStatsView,
};
pub use sandbox_page::{
    ActionPlanView, DirectoryPageView, FilePageView, FileShape, OperationsView, PortView,
    PortsView, PreviewView, StartedOperationView, TerminalsView, UsageSampleView,
};
pub use schedule::{
    ScheduleRequest, ScheduleRunView, ScheduleStatusView, ScheduleView, SchedulesRunner, is_overdue,
};
pub use schema::{inherited_variables, schema};
pub use secret_keys::{KeyUseView, KeyView, KeysPageView, SecretSettingView};
pub use snapshot::{ForkedView, RebuiltView, RestoredView, SnapshotView};
pub use sync::{SyncConflictView, SyncFailureView, SyncView};
pub use task::{
    AttachedFileView, AttachmentView, BoardTaskView, CommentView, EventView, RelativeView,
    TaskDetailsView, TaskFailureView, TaskRunView, TaskView,
};
pub use task_change::{
    BulkMovedView, CommentedView, DeletedTaskView, DetachedView, HeartbeatView, MovedView,
    TaskContextView, TaskLogView, WorkerEnd,
};
pub use task_diff::{
    ChangeView, ChangedFileView, ExportedPatchView, MergeObstacleView, MergePlanView, MergedView,
    TaskDiffView,
};
pub use transfer::{
    CopiedView, MachineAddress, TransferEndpoint, TransferError, TransferPlace, TransferPlan,
};
pub use turn::{CostOrigin, CostStatus, KnownCost, TurnExitReason, TurnView, dollars};
pub use usage::{
    UnreadLedgerView, UsageGrouping, UsageKey, UsageLineView, UsageReport, UsageReportView,
};
