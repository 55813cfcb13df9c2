//! Tasks of the board and what hangs on them. Times are whole seconds since 1970.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use vestal_board::boards::Slug;
use vestal_board::store::Relative;
use vestal_board::verbs::TaskSheet;
use vestal_board::{
    Attachment, BlockKind, Board, Comment, FailureCount, Outcome, Role, Run, RunId, Status, Task,
    TaskEvent, Time,
};

/// A task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskView {
    /// Its id: `t_` and twelve of `0-9a-z` without i, l, o and u.
    pub id: String,
    /// What it is about, in a line.
    pub title: String,
    /// What is to be done.
    pub body: String,
    /// The profile that works on it.
    pub assignee: Option<String>,
    /// Where it stands.
    pub status: Status,
    /// How urgent it is; larger goes first.
    pub priority: i64,
    /// Whom it is for, where a board serves several.
    pub tenant: Option<String>,
    /// Where it is worked on: `scratch`, `dir` or `worktree`.
    pub workspace_kind: String,
    /// The directory or repository.
    pub workspace_path: Option<String>,
    /// The host that has it.
    pub workspace_host: Option<String>,
    /// The branch of a worktree.
    pub branch_name: Option<String>,
    /// Who made it.
    pub created_by: String,
    /// When it was made.
    pub created_at: i64,
    /// When it last changed.
    pub updated_at: i64,
    /// When work on it began first.
    pub started_at: Option<i64>,
    /// When it was done.
    pub completed_at: Option<i64>,
    /// What came of it.
    pub result: Option<String>,
    /// Skills that its worker is given.
    pub skills: Vec<String>,
    /// The model that works on it, in place of the profile's.
    pub model: Option<String>,
    /// How long a run may take.
    pub max_runtime_seconds: Option<u64>,
    /// How often it is tried again.
    pub max_retries: Option<u32>,
    /// The conversation of its last run.
    pub session_id: Option<String>,
    /// The key under which it is made only once.
    pub idempotency_key: Option<String>,
    /// The run that holds it.
    pub current_run_id: Option<i64>,
    /// How many of the tasks it waits for are not finished.
    pub pending_parents: u32,
    /// When it goes on by itself.
    pub wake_at: Option<i64>,
    /// Why it is not started, though it is ready.
    pub guard: Option<String>,
    /// What kind of block it is.
    pub block_kind: Option<BlockKind>,
    /// Why it is blocked.
    pub block_reason: Option<String>,
    /// How often in a row it was blocked like this.
    pub block_recurrences: u32,
    /// Whether it waits for a person.
    pub gate: bool,
    /// What a person should look at.
    pub attention: Option<String>,
    /// Whether its work is looked at before it is done.
    pub needs_review: bool,
    /// The profile that looks at it; null: a person does.
    pub reviewer: Option<String>,
    /// Null in this version.
    pub project_id: (),
    /// Null in this version.
    pub workflow_template_id: (),
    /// Null in this version.
    pub current_step_key: (),
}

impl From<&Task> for TaskView {
    fn from(task: &Task) -> Self {
        let task = task.clone();
        let path = task.workspace.path().map(|path| path.to_string_lossy().into_owned());
        Self {
            workspace_kind: task.workspace.kind().to_owned(),
            workspace_path: path,
            branch_name: task.workspace.branch().map(str::to_owned),
            id: task.id.to_string(),
            title: task.title,
            body: task.body,
            assignee: task.assignee.map(|name| name.to_string()),
            status: task.status,
            priority: task.priority,
            tenant: task.tenant,
            workspace_host: task.workspace_host.map(|host| host.to_string()),
            created_by: task.created_by,
            created_at: task.created_at.seconds(),
            updated_at: task.updated_at.seconds(),
            started_at: task.started_at.map(Time::seconds),
            completed_at: task.completed_at.map(Time::seconds),
            result: task.result,
            skills: task.skills,
            model: task.model,
            max_runtime_seconds: task.max_runtime.map(|limit| limit.as_secs()),
            max_retries: task.max_retries,
            session_id: task.session_id,
            idempotency_key: task.idempotency_key,
            current_run_id: task.current_run.map(RunId::get),
            pending_parents: task.pending_parents,
            wake_at: task.wake_at.map(Time::seconds),
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

/// A task and the board it is on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoardTaskView {
    /// The board.
    pub board: String,
    /// The task.
    #[serde(flatten)]
    pub task: TaskView,
}

impl BoardTaskView {
    /// Returns the view of a task of a board.
    pub fn new(board: &Slug, task: &Task) -> Self {
        Self { board: board.to_string(), task: task.into() }
    }
}

/// An attempt at a task, by a worker or by a person who claimed it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskRunView {
    /// Its number, which grows with every claim of the board.
    pub id: i64,
    /// The task.
    pub task_id: String,
    /// The profile that works.
    pub profile: Option<String>,
    /// Whether it works or looks at work.
    pub role: Role,
    /// Who took it.
    pub owner: String,
    /// The host of its worker.
    pub host: Option<String>,
    /// Its worker's process there.
    pub worker_pid: Option<u32>,
    /// When it began.
    pub started_at: i64,
    /// When it ended.
    pub ended_at: Option<i64>,
    /// Until when the task is held without another sign of life.
    pub claim_expires: i64,
    /// When the last one came.
    pub last_heartbeat_at: Option<i64>,
    /// How far the work is.
    pub note: Option<String>,
    /// How long it may take.
    pub max_runtime_seconds: Option<u64>,
    /// How it ended.
    pub outcome: Option<Outcome>,
    /// What came of it, in words.
    pub summary: Option<String>,
    /// What came of it, for programs.
    pub metadata: Option<Value>,
    /// What went wrong.
    pub error: Option<String>,
    /// Where it worked.
    pub workspace: Option<String>,
    /// Its conversation.
    pub session_id: Option<String>,
}

impl From<&Run> for TaskRunView {
    fn from(run: &Run) -> Self {
        let run = run.clone();
        Self {
            host: run.host_name().map(ToString::to_string),
            id: run.id.get(),
            task_id: run.task_id.to_string(),
            profile: run.profile.map(|name| name.to_string()),
            role: run.role,
            owner: run.owner,
            worker_pid: run.process.map(|process| process.pid),
            started_at: run.started_at.seconds(),
            ended_at: run.ended_at.map(Time::seconds),
            claim_expires: run.expires_at.seconds(),
            last_heartbeat_at: run.heartbeat_at.map(Time::seconds),
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

/// A file of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttachmentView {
    /// Its number.
    pub id: i64,
    /// The task.
    pub task_id: String,
    /// Its name, safe as a file name.
    pub filename: String,
    /// The host that has it.
    pub host: String,
    /// What is in it.
    pub content_type: Option<String>,
    /// Bytes.
    pub size: u64,
    /// Who added it.
    pub uploaded_by: String,
    /// When.
    pub created_at: i64,
}

impl From<&Attachment> for AttachmentView {
    fn from(attachment: &Attachment) -> Self {
        Self {
            id: attachment.id,
            task_id: attachment.task_id.to_string(),
            filename: attachment.filename.clone(),
            host: attachment.host.to_string(),
            content_type: attachment.content_type.clone(),
            size: attachment.size,
            uploaded_by: attachment.uploaded_by.clone(),
            created_at: attachment.created_at.seconds(),
        }
    }
}

/// A file of a task, and where it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttachedFileView {
    /// The file.
    #[serde(flatten)]
    pub attachment: AttachmentView,
    /// Where it is; null where it is not on this host.
    pub path: Option<String>,
}

impl AttachedFileView {
    /// Returns the view of a file of a board, as this host sees it.
    pub fn new(board: &Board, attachment: &Attachment) -> Self {
        let here = attachment.host == board.host().name;
        let path = || board.attachment_path(attachment).to_string_lossy().into_owned();
        Self { attachment: attachment.into(), path: here.then(path) }
    }
}

/// A task that another waits for, or that waits for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelativeView {
    /// The task.
    pub id: String,
    /// Its title.
    pub title: String,
    /// Where it stands.
    pub status: Status,
}

impl From<&Relative> for RelativeView {
    fn from(relative: &Relative) -> Self {
        let Relative { id, title, status } = relative.clone();
        Self { id: id.to_string(), title, status }
    }
}

/// A comment on a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommentView {
    /// Its number.
    pub id: i64,
    /// Who.
    pub author: String,
    /// What.
    pub body: String,
    /// When.
    pub created_at: i64,
}

impl From<&Comment> for CommentView {
    fn from(comment: &Comment) -> Self {
        let Comment { id, author, body, created_at } = comment.clone();
        Self { id, author, body, created_at: created_at.seconds() }
    }
}

/// Something that happened to a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EventView {
    /// Its number; they grow.
    pub id: i64,
    /// The task.
    pub task_id: String,
    /// The run.
    pub run_id: Option<i64>,
    /// What happened.
    pub kind: String,
    /// More about it; its members depend on the kind.
    pub payload: Value,
    /// When.
    pub created_at: i64,
}

impl From<&TaskEvent> for EventView {
    fn from(event: &TaskEvent) -> Self {
        let TaskEvent { id, task_id, run_id, kind, payload, created_at } = event.clone();
        Self {
            id,
            task_id: task_id.to_string(),
            run_id: run_id.map(RunId::get),
            kind,
            payload,
            created_at: created_at.seconds(),
        }
    }
}

/// How often a task failed for one cause since its failures were last reset.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskFailureView {
    /// The cause, by the name of the outcome.
    pub cause: Outcome,
    /// How often.
    pub count: u32,
    /// What was said last.
    pub error: String,
    /// When that was.
    pub at: i64,
}

impl From<&FailureCount> for TaskFailureView {
    fn from(failure: &FailureCount) -> Self {
        let FailureCount { cause, count, error, at } = failure.clone();
        Self { cause, count, error, at: at.seconds() }
    }
}

/// Everything about a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskDetailsView {
    /// The task.
    pub task: TaskView,
    /// What was last said about how it came out.
    pub latest_summary: Option<String>,
    /// Tasks it waits for.
    pub parents: Vec<RelativeView>,
    /// Tasks that wait for it.
    pub children: Vec<RelativeView>,
    /// What people and workers said about it.
    pub comments: Vec<CommentView>,
    /// What happened to it.
    pub events: Vec<EventView>,
    /// The attempts at it.
    pub runs: Vec<TaskRunView>,
    /// Its files.
    pub attachments: Vec<AttachedFileView>,
    /// How often it failed, by cause.
    pub failures: Vec<TaskFailureView>,
}

impl TaskDetailsView {
    /// Returns the view of all there is about a task of a board, as this host sees it.
    pub fn new(board: &Board, sheet: &TaskSheet) -> Self {
        Self {
            task: (&sheet.task).into(),
            latest_summary: sheet.latest_summary.clone(),
            parents: views(&sheet.parents),
            children: views(&sheet.children),
            comments: views(&sheet.comments),
            events: views(&sheet.events),
            runs: views(&sheet.runs),
            attachments: sheet
                .attachments
                .iter()
                .map(|one| AttachedFileView::new(board, one))
                .collect(),
            failures: views(&sheet.failures),
        }
    }
}

/// Returns the views of several things.
fn views<'a, T, V: From<&'a T>>(all: &'a [T]) -> Vec<V> {
    all.iter().map(V::from).collect()
}
