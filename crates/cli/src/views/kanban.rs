//! Tasks and what hangs on them as JSON.

use serde::Serialize;
use serde_json::Value;
use vestal_board::store::Relative;
use vestal_board::verbs::Sheet;
use vestal_board::{
    Attachment, BlockKind, Board, Comment, Event, Failure, Outcome, Role, Run, RunId, Status, Task,
    TaskId, Time,
};

/// A task.
#[derive(Debug, Serialize)]
pub(crate) struct TaskView {
    id: TaskId,
    title: String,
    body: String,
    assignee: Option<String>,
    status: Status,
    priority: i64,
    tenant: Option<String>,
    workspace_kind: &'static str,
    workspace_path: Option<String>,
    workspace_host: Option<String>,
    branch_name: Option<String>,
    created_by: String,
    created_at: Time,
    updated_at: Time,
    started_at: Option<Time>,
    completed_at: Option<Time>,
    result: Option<String>,
    skills: Vec<String>,
    model: Option<String>,
    max_runtime_seconds: Option<u64>,
    max_retries: Option<u32>,
    session_id: Option<String>,
    idempotency_key: Option<String>,
    current_run_id: Option<RunId>,
    pending_parents: u32,
    wake_at: Option<Time>,
    guard: Option<String>,
    block_kind: Option<BlockKind>,
    block_reason: Option<String>,
    block_recurrences: u32,
    gate: bool,
    attention: Option<String>,
    needs_review: bool,
    reviewer: Option<String>,
    /// Names that tools around boards look for, and for which there is nothing
    /// here yet.
    project_id: (),
    workflow_template_id: (),
    current_step_key: (),
}

impl From<&Task> for TaskView {
    fn from(task: &Task) -> Self {
        let task = task.clone();
        let path = task.workspace.path().map(|path| path.to_string_lossy().into_owned());
        Self {
            workspace_kind: task.workspace.kind(),
            workspace_path: path,
            branch_name: task.workspace.branch().map(str::to_owned),
            id: task.id,
            title: task.title,
            body: task.body,
            assignee: task.assignee.map(|name| name.to_string()),
            status: task.status,
            priority: task.priority,
            tenant: task.tenant,
            workspace_host: task.workspace_host.map(|host| host.to_string()),
            created_by: task.created_by,
            created_at: task.created_at,
            updated_at: task.updated_at,
            started_at: task.started_at,
            completed_at: task.completed_at,
            result: task.result,
            skills: task.skills,
            model: task.model,
            max_runtime_seconds: task.max_runtime.map(|limit| limit.as_secs()),
            max_retries: task.max_retries,
            session_id: task.session_id,
            idempotency_key: task.idempotency_key,
            current_run_id: task.current_run,
            pending_parents: task.pending_parents,
            wake_at: task.wake_at,
            guard: task.guard,
            block_kind: task.block_kind,
            block_reason: task.block_reason,
            block_recurrences: task.block_recurrences,
            gate: task.gate,
            attention: task.attention,
            needs_review: task.needs_review,
            reviewer: task.reviewer.map(|name| name.to_string()),
            project_id: (),
            workflow_template_id: (),
            current_step_key: (),
        }
    }
}

/// A run.
#[derive(Debug, Serialize)]
pub(crate) struct TaskRunView {
    id: RunId,
    task_id: TaskId,
    profile: Option<String>,
    role: Role,
    owner: String,
    host: Option<String>,
    worker_pid: Option<u32>,
    started_at: Time,
    ended_at: Option<Time>,
    claim_expires: Time,
    last_heartbeat_at: Option<Time>,
    note: Option<String>,
    max_runtime_seconds: Option<u64>,
    outcome: Option<Outcome>,
    summary: Option<String>,
    metadata: Option<Value>,
    error: Option<String>,
    workspace: Option<String>,
    session_id: Option<String>,
}

impl From<&Run> for TaskRunView {
    fn from(run: &Run) -> Self {
        let run = run.clone();
        Self {
            host: run.host_name().map(ToString::to_string),
            id: run.id,
            task_id: run.task_id,
            profile: run.profile.map(|name| name.to_string()),
            role: run.role,
            owner: run.owner,
            worker_pid: run.process.map(|process| process.pid),
            started_at: run.started_at,
            ended_at: run.ended_at,
            claim_expires: run.expires_at,
            last_heartbeat_at: run.heartbeat_at,
            note: run.note,
            max_runtime_seconds: run.max_runtime.map(|limit| limit.as_secs()),
            outcome: run.outcome,
            summary: run.summary,
            metadata: run.metadata,
            error: run.error,
            workspace: run.workspace,
            session_id: run.session_id,
        }
    }
}

/// A file of a task, and where it is if it is on this host.
#[derive(Debug, Serialize)]
pub(crate) struct AttachmentView {
    #[serde(flatten)]
    attachment: Attachment,
    pub(crate) path: Option<String>,
}

impl AttachmentView {
    pub(crate) fn new(board: &Board, attachment: &Attachment) -> Self {
        let here = attachment.host == board.host().name;
        let path = || board.attachment_path(attachment).to_string_lossy().into_owned();
        Self { attachment: attachment.clone(), path: here.then(path) }
    }
}

/// Everything about a task.
#[derive(Debug, Serialize)]
pub(crate) struct SheetView<'s> {
    task: TaskView,
    latest_summary: Option<&'s str>,
    parents: &'s [Relative],
    children: &'s [Relative],
    comments: &'s [Comment],
    events: &'s [Event],
    runs: Vec<TaskRunView>,
    attachments: Vec<AttachmentView>,
    failures: &'s [Failure],
}

impl<'s> SheetView<'s> {
    pub(crate) fn new(board: &Board, sheet: &'s Sheet) -> Self {
        let attachments = &sheet.attachments;
        Self {
            task: TaskView::from(&sheet.task),
            latest_summary: sheet.latest_summary.as_deref(),
            parents: &sheet.parents,
            children: &sheet.children,
            comments: &sheet.comments,
            events: &sheet.events,
            runs: sheet.runs.iter().map(TaskRunView::from).collect(),
            attachments: attachments.iter().map(|one| AttachmentView::new(board, one)).collect(),
            failures: &sheet.failures,
        }
    }
}

/// What became of the worker of a run that was ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum WorkerEnd {
    /// There was none.
    None,
    /// It was on this host, and nothing of it is left.
    Stopped,
    /// It is on another host, which sees to it.
    Elsewhere,
    /// It is on this host, and could not be stopped.
    Survives,
}

/// What a change came to.
#[derive(Debug, Serialize)]
pub(crate) struct MovedView {
    task: TaskView,
    ended_run_id: Option<RunId>,
    worker: WorkerEnd,
    promoted: Vec<TaskId>,
}

impl MovedView {
    pub(crate) fn new(
        task: &Task,
        ended: Option<RunId>,
        worker: WorkerEnd,
        promoted: Vec<TaskId>,
    ) -> Self {
        Self { task: TaskView::from(task), ended_run_id: ended, worker, promoted }
    }
}
