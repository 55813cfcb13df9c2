//! Tools that add to the board: `kanban_create`, `kanban_link`, `kanban_comment`, `kanban_heartbeat`.

use std::path::PathBuf;

use async_trait::async_trait;
use serde_json::{Map, Value, json};
use vestal_agent::ToolContext;
use vestal_agent::tools::{Arguments, BadArgument};
use vestal_board::{Board, Initial, NewTask, TaskId, Workspace};
use vestal_config::ProfileName;

use super::ToolError;
use super::tool::{self, Effect, Parameters, Verb, fields};
use crate::context::BoardContext;

pub(super) struct Create;

#[async_trait]
impl Verb for Create {
    const NAME: &'static str = "kanban_create";
    const DESCRIPTION: &'static str = "\
Makes another task: a follow-up, or a part that somebody else should do. Whoever works on it knows only what is in it, so `body` has to say all of it: \
what is to be done, where things are, how to tell that it is done. `parents` are tasks that have to be done first. \
With an `idempotency_key` that was used before, the task made then is returned.";
    const EFFECT: Effect = Effect::Adds;

    fn parameters(kanban: &BoardContext) -> Parameters {
        let mut properties = json!({
            "title": {"type": "string", "description": "What it is about, in a line."},
            "assignee": {"type": "string", "description": "The profile that works on it."},
            "body": {"type": "string", "description": "What is to be done."},
            "parents": {"type": "array", "items": {"type": "string"}, "description": "Tasks that have to be done first, by id."},
            "priority": {"type": "integer", "description": "Higher goes first; default 0."},
            "triage": {"type": "boolean", "description": "It is a rough idea that somebody has to look at first."},
            "initial_status": {"type": "string", "enum": ["running", "blocked"], "description": "blocked: it waits until a person lets it go on."},
            "idempotency_key": {"type": "string"},
            "max_runtime_seconds": {"type": "number", "description": "Time that an attempt may take."},
            "skills": {"type": "array", "items": {"type": "string"}},
            "needs_review": {"type": "boolean", "description": "The work has to be looked at before it counts as done."},
            "reviewer": {"type": "string", "description": "The profile that looks at it; none: a person does."},
            "workspace_kind": {"type": "string", "enum": ["scratch", "dir", "worktree"]},
            "workspace_path": {"type": "string", "description": "A directory of the host, for dir and worktree."}
        });
        if let (Some(_), Some(properties)) = (kanban.role(), properties.as_object_mut()) {
            // A worker's tasks are worked on where its own is, or in a place of their own.
            let kinds = json!({"type": "string", "enum": ["inherit", "scratch"], "description": "Where it is worked on: where this task is (default), or in a place of its own."});
            properties.insert("workspace_kind".to_owned(), kinds);
            properties.remove("workspace_path");
        } else if let Some(properties) = properties.as_object_mut() {
            properties.insert("tenant".to_owned(), json!({"type": "string"}));
        }
        Parameters { properties, required: &["title", "assignee"] }
    }

    async fn call(
        kanban: &BoardContext,
        context: &ToolContext,
        arguments: &Arguments,
    ) -> Result<Map<String, Value>, ToolError> {
        let board = kanban.board(arguments).await?;
        let new = new_task(kanban, context, &board, arguments).await?;
        let created = board.create(&kanban.authority(), new).await?;
        Ok(fields(json!({
            "task_id": created.task.id,
            "status": created.task.status,
            "existed": created.existed,
        })))
    }
}

async fn new_task(
    kanban: &BoardContext,
    context: &ToolContext,
    board: &Board,
    arguments: &Arguments,
) -> Result<NewTask, ToolError> {
    let (workspace, inherit_workspace) = workspace(kanban, arguments)?;
    Ok(NewTask {
        title: tool::redacted(context, arguments, "title")?,
        body: tool::optional_redacted(context, arguments, "body")?.unwrap_or_default(),
        assignee: Some(profile(&arguments.words("assignee")?, "assignee")?),
        parents: parents(board, arguments).await?,
        workspace,
        inherit_workspace,
        tenant: text(arguments, "tenant")?,
        priority: arguments.integer("priority")?.unwrap_or(0),
        initial: initial(arguments)?,
        idempotency_key: text(arguments, "idempotency_key")?,
        max_runtime: arguments.seconds("max_runtime_seconds")?,
        skills: arguments.texts("skills")?,
        needs_review: arguments.flag("needs_review")?,
        reviewer: text(arguments, "reviewer")?
            .map(|name| profile(&name, "reviewer"))
            .transpose()?,
        session_id: Some(context.conversation.to_string()),
        ..NewTask::default()
    })
}

/// Returns where the task is worked on, and whether that is where the worker's
/// own is.
fn workspace(
    kanban: &BoardContext,
    arguments: &Arguments,
) -> Result<(Workspace, bool), BadArgument> {
    let kind = text(arguments, "workspace_kind")?.map(|kind| kind.to_ascii_lowercase());
    let path = text(arguments, "workspace_path")?.map(PathBuf::from);
    let is_worker = kanban.role().is_some();
    let of = |path: Option<PathBuf>| {
        path.ok_or_else(|| {
            BadArgument::new("`workspace_path` is required with this `workspace_kind`")
        })
    };
    match kind.as_deref() {
        None | Some("inherit") => Ok((Workspace::Scratch, is_worker)),
        Some("scratch") => Ok((Workspace::Scratch, false)),
        Some("dir") => Ok((Workspace::Dir { path: of(path)? }, false)),
        Some("worktree") => Ok((Workspace::Worktree { path: of(path)?, branch: None }, false)),
        Some(other) => Err(BadArgument::new(format!(
            "`workspace_kind` must be scratch, dir or worktree, got {other:?}"
        ))),
    }
}

async fn parents(board: &Board, arguments: &Arguments) -> Result<Vec<TaskId>, ToolError> {
    let mut parents = Vec::new();
    for name in arguments.texts("parents")? {
        parents.push(board.find(name.trim()).await?);
    }
    Ok(parents)
}

fn initial(arguments: &Arguments) -> Result<Initial, BadArgument> {
    let word = text(arguments, "initial_status")?.map(|word| word.to_ascii_lowercase());
    match (word.as_deref(), arguments.flag("triage")?) {
        (Some("blocked"), _) => Ok(Initial::Blocked),
        (None | Some("running"), true) => Ok(Initial::Triage),
        (None | Some("running"), false) => Ok(Initial::Queue),
        (Some(other), _) => Err(BadArgument::new(format!(
            "`initial_status` must be running or blocked, got {other:?}"
        ))),
    }
}

fn profile(name: &str, what: &str) -> Result<ProfileName, BadArgument> {
    ProfileName::new(name.trim()).map_err(|error| BadArgument::new(format!("`{what}`: {error}")))
}

fn text(arguments: &Arguments, name: &str) -> Result<Option<String>, BadArgument> {
    let text = arguments.optional_text(name)?.map(|text| text.trim().to_owned());
    Ok(text.filter(|text| !text.is_empty()))
}

pub(super) struct Link;

#[async_trait]
impl Verb for Link {
    const NAME: &'static str = "kanban_link";
    const DESCRIPTION: &'static str = "\
Lets the task `child_id` wait until the task `parent_id` is done. A worker may link its own task and those it made.";
    const EFFECT: Effect = Effect::Adds;

    fn parameters(_kanban: &BoardContext) -> Parameters {
        Parameters {
            properties: json!({
                "parent_id": {"type": "string", "description": "The task that has to be done first."},
                "child_id": {"type": "string", "description": "The task that waits for it; a worker's own if left out."}
            }),
            required: &["parent_id"],
        }
    }

    async fn call(
        kanban: &BoardContext,
        _context: &ToolContext,
        arguments: &Arguments,
    ) -> Result<Map<String, Value>, ToolError> {
        let board = kanban.board(arguments).await?;
        let parent = board.find(arguments.words("parent_id")?.trim()).await?;
        let child = match (arguments.optional_text("child_id")?, kanban.fence()) {
            (Some(name), _) => board.find(name.trim()).await?,
            (None, Ok(fence)) => fence.task.clone(),
            (None, Err(_)) => board.find(arguments.words("child_id")?.trim()).await?,
        };
        let task = board.link(&kanban.authority(), &parent, &child).await?;
        Ok(fields(json!({ "parent_id": parent, "child_id": child, "status": task.status })))
    }
}

pub(super) struct Comment;

#[async_trait]
impl Verb for Comment {
    const NAME: &'static str = "kanban_comment";
    const DESCRIPTION: &'static str = "\
Says something about a task, your own or another, for whoever works on it later. It stays there under your profile's name; nobody answers it now.";
    const EFFECT: Effect = Effect::Adds;

    fn parameters(_kanban: &BoardContext) -> Parameters {
        Parameters {
            properties: json!({
                "task_id": {"type": "string", "description": "The task; a worker's own if left out."},
                "body": {"type": "string", "description": "What there is to say."}
            }),
            required: &["body"],
        }
    }

    async fn call(
        kanban: &BoardContext,
        context: &ToolContext,
        arguments: &Arguments,
    ) -> Result<Map<String, Value>, ToolError> {
        let board = kanban.board(arguments).await?;
        let task = kanban.task(&board, arguments).await?;
        let body = tool::redacted(context, arguments, "body")?;
        let number = board.comment(&kanban.authority(), &task, &body).await?;
        Ok(fields(json!({ "task_id": task, "comment_id": number })))
    }
}

pub(super) struct Beat;

#[async_trait]
impl Verb for Beat {
    const NAME: &'static str = "kanban_heartbeat";
    const DESCRIPTION: &'static str = "\
Says how far the work has come, for people who watch the board. The hold on the task is renewed by itself; \
use this during long work, with a `note` of one line.";
    const EFFECT: Effect = Effect::Adds;

    fn parameters(_kanban: &BoardContext) -> Parameters {
        Parameters {
            properties: json!({"note": {"type": "string", "description": "How far the work has come, in a line."}}),
            required: &[],
        }
    }

    async fn call(
        kanban: &BoardContext,
        context: &ToolContext,
        arguments: &Arguments,
    ) -> Result<Map<String, Value>, ToolError> {
        let board = kanban.board(arguments).await?;
        let note = tool::optional_redacted(context, arguments, "note")?;
        let until = kanban.beat(&board, note).await?;
        Ok(fields(json!({ "task_id": kanban.fence()?.task, "expires_at": until })))
    }
}
