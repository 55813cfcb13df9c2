//! Tools that add to the board: `kanban_create`, `kanban_link`, `kanban_comment`, `kanban_heartbeat`.

use std::path::PathBuf;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use vestal_agent::ToolContext;
use vestal_agent::tools::arguments::{
    BadArgument, NonEmptyString, SecondsArgument, blank_as_absent,
};
use vestal_board::{Board, Initial, NewTask, TaskId, TaskWorkspace};
use vestal_config::ProfileName;

use super::tool::{self, BoardVerb, Effect, fields, not_blank};
use super::{BoardArgument, TaskArgument, ToolError};
use crate::context::AgentBoard;

#[derive(Deserialize, JsonSchema)]
pub(super) struct CreateTask {
    #[serde(default)]
    board: BoardArgument,
    /// A title of one line.
    title: NonEmptyString,
    /// The profile that works on it.
    assignee: NonEmptyString,
    /// What to do.
    body: Option<String>,
    /// Tasks that must be done first, by id.
    #[serde(default)]
    parents: Vec<String>,
    /// Higher goes first; default 0.
    priority: Option<i64>,
    /// It is a rough idea that needs triage first.
    #[serde(default)]
    triage: bool,
    /// blocked: it waits until a person unblocks it.
    #[serde(default, deserialize_with = "blank_as_absent")]
    initial_status: Option<InitialStatus>,
    idempotency_key: Option<String>,
    /// How long an attempt may take.
    #[schemars(with = "Option<f64>")]
    max_runtime_seconds: Option<SecondsArgument>,
    #[serde(default)]
    skills: Vec<String>,
    /// The work must be reviewed before it counts as done.
    #[serde(default)]
    needs_review: bool,
    /// The profile that reviews it; default: a person.
    reviewer: Option<String>,
    tenant: Option<String>,
    #[serde(default, deserialize_with = "blank_as_absent")]
    workspace_kind: Option<WorkspaceKind>,
    /// A directory of the host, for dir and worktree.
    workspace_path: Option<String>,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum InitialStatus {
    Running,
    Blocked,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum WorkspaceKind {
    Inherit,
    Scratch,
    Dir,
    Worktree,
}

#[async_trait]
impl BoardVerb for CreateTask {
    const NAME: &'static str = "kanban_create";
    const DESCRIPTION: &'static str = "\
Creates another task: a follow-up, or a part for another worker. Its worker knows only what is in it, so `body` must say everything: \
what to do, where things are, how to tell that it is done. `parents` are tasks that must be done first. \
With an `idempotency_key` that was used before, the existing task is returned.";
    const EFFECT: Effect = Effect::Adds;

    fn adapt_schema(kanban: &AgentBoard, properties: &mut Map<String, Value>) {
        let kinds = if kanban.role().is_some() {
            // A worker's tasks are worked on where its own is, or in a place of their own.
            properties.remove("tenant");
            properties.remove("workspace_path");
            json!({
                "type": "string",
                "enum": ["inherit", "scratch"],
                "description": "inherit: in the workspace of this task (default); scratch: in a new one.",
            })
        } else {
            json!({"type": "string", "enum": ["scratch", "dir", "worktree"]})
        };
        properties.insert("workspace_kind".to_owned(), kinds);
    }

    async fn call(
        self,
        kanban: &AgentBoard,
        context: &ToolContext,
    ) -> Result<Map<String, Value>, ToolError> {
        let board = kanban.board(&self.board).await?;
        let new = self.new_task(kanban, context, &board).await?;
        let created = board.create(&kanban.authority(), new).await?;
        Ok(fields(json!({
            "task_id": created.task.id,
            "status": created.task.status,
            "existed": created.existed,
        })))
    }
}

impl CreateTask {
    async fn new_task(
        self,
        kanban: &AgentBoard,
        context: &ToolContext,
        board: &Board,
    ) -> Result<NewTask, ToolError> {
        let (workspace, inherit_workspace) = self.workspace(kanban)?;
        let initial = match (self.initial_status, self.triage) {
            (Some(InitialStatus::Blocked), _) => Initial::Blocked,
            (None | Some(InitialStatus::Running), true) => Initial::Triage,
            (None | Some(InitialStatus::Running), false) => Initial::Queue,
        };
        let text = |text: Option<String>| not_blank(text.as_deref()).map(str::to_owned);
        let body = self.body.as_deref().filter(|text| !text.trim().is_empty());
        Ok(NewTask {
            title: tool::redacted(context, &self.title),
            body: body.map(|text| tool::redacted(context, text)).unwrap_or_default(),
            assignee: Some(profile(&self.assignee, "assignee")?),
            parents: parents(board, &self.parents).await?,
            workspace,
            inherit_workspace,
            tenant: text(self.tenant),
            priority: self.priority.unwrap_or(0),
            initial,
            idempotency_key: text(self.idempotency_key),
            max_runtime: self.max_runtime_seconds.map(|SecondsArgument(time)| time),
            skills: self.skills,
            needs_review: self.needs_review,
            reviewer: not_blank(self.reviewer.as_deref())
                .map(|name| profile(name, "reviewer"))
                .transpose()?,
            session_id: Some(context.conversation.to_string()),
            ..NewTask::default()
        })
    }

    /// Returns where the task is worked on, and whether that is where the worker's
    /// own is.
    fn workspace(&self, kanban: &AgentBoard) -> Result<(TaskWorkspace, bool), BadArgument> {
        let path = || {
            let path = not_blank(self.workspace_path.as_deref()).map(PathBuf::from);
            path.ok_or_else(|| {
                BadArgument::new("`workspace_path` is required with this `workspace_kind`")
            })
        };
        Ok(match self.workspace_kind {
            None | Some(WorkspaceKind::Inherit) => {
                (TaskWorkspace::Scratch, kanban.role().is_some())
            }
            Some(WorkspaceKind::Scratch) => (TaskWorkspace::Scratch, false),
            Some(WorkspaceKind::Dir) => (TaskWorkspace::Dir { path: path()? }, false),
            Some(WorkspaceKind::Worktree) => {
                (TaskWorkspace::Worktree { path: path()?, branch: None }, false)
            }
        })
    }
}

async fn parents(board: &Board, names: &[String]) -> Result<Vec<TaskId>, ToolError> {
    let mut parents = Vec::new();
    for name in names {
        parents.push(board.find(name.trim()).await?);
    }
    Ok(parents)
}

fn profile(name: &str, what: &str) -> Result<ProfileName, BadArgument> {
    ProfileName::new(name.trim()).map_err(|error| BadArgument::new(format!("`{what}`: {error}")))
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct LinkTasks {
    #[serde(default)]
    board: BoardArgument,
    /// The task that must be done first.
    parent_id: NonEmptyString,
    /// The task that waits for it; a worker's own if left out.
    child_id: Option<String>,
}

#[async_trait]
impl BoardVerb for LinkTasks {
    const NAME: &'static str = "kanban_link";
    const DESCRIPTION: &'static str = "\
Makes the task `child_id` wait until the task `parent_id` is done. A worker may link its own task and those it created.";
    const EFFECT: Effect = Effect::Adds;

    async fn call(
        self,
        kanban: &AgentBoard,
        _context: &ToolContext,
    ) -> Result<Map<String, Value>, ToolError> {
        let board = kanban.board(&self.board).await?;
        let parent = board.find(self.parent_id.trim()).await?;
        let child = match (not_blank(self.child_id.as_deref()), kanban.fence()) {
            (Some(name), _) => board.find(name).await?,
            (None, Ok(fence)) => fence.task.clone(),
            (None, Err(_)) => return Err(BadArgument::missing("child_id").into()),
        };
        let task = board.link(&kanban.authority(), &parent, &child).await?;
        Ok(fields(json!({ "parent_id": parent, "child_id": child, "status": task.status })))
    }
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct AddComment {
    #[serde(default)]
    board: BoardArgument,
    #[serde(default)]
    task_id: TaskArgument,
    /// The comment.
    body: NonEmptyString,
}

#[async_trait]
impl BoardVerb for AddComment {
    const NAME: &'static str = "kanban_comment";
    const DESCRIPTION: &'static str = "\
Adds a comment to a task, your own or another, for those who work on it later. It is signed with your profile; do not wait for an answer.";
    const EFFECT: Effect = Effect::Adds;

    async fn call(
        self,
        kanban: &AgentBoard,
        context: &ToolContext,
    ) -> Result<Map<String, Value>, ToolError> {
        let board = kanban.board(&self.board).await?;
        let task = kanban.task(&board, &self.task_id).await?;
        let body = tool::redacted(context, &self.body);
        let number = board.comment(&kanban.authority(), &task, &body).await?;
        Ok(fields(json!({ "task_id": task, "comment_id": number })))
    }
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct SendHeartbeat {
    #[serde(default)]
    board: BoardArgument,
    /// The progress, in one line.
    note: Option<String>,
}

#[async_trait]
impl BoardVerb for SendHeartbeat {
    const NAME: &'static str = "kanban_heartbeat";
    const DESCRIPTION: &'static str = "\
Reports progress to people who watch the board. Your hold on the task is renewed automatically; \
use this during long work, with a `note` of one line.";
    const EFFECT: Effect = Effect::Adds;

    async fn call(
        self,
        kanban: &AgentBoard,
        context: &ToolContext,
    ) -> Result<Map<String, Value>, ToolError> {
        let board = kanban.board(&self.board).await?;
        let note = self.note.filter(|note| !note.trim().is_empty());
        let note = note.map(|note| tool::redacted(context, &note));
        let until = kanban.beat(&board, note).await?;
        Ok(fields(json!({ "task_id": kanban.fence()?.task, "expires_at": until })))
    }
}
