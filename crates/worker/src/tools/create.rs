//! `kanban_create`: another task.

use std::path::PathBuf;

use async_trait::async_trait;
use serde_json::{Map, Value, json};
use vestal_agent::ToolContext;
use vestal_agent::tools::{Arguments, BadArgument};
use vestal_board::{Board, Initial, NewTask, TaskId, Workspace};
use vestal_config::ProfileName;

use super::verb::{Effect, Parameters, Verb, fields};
use super::{Trouble, words};
use crate::desk::Desk;

pub(super) struct Create;

#[async_trait]
impl Verb for Create {
    const NAME: &'static str = "kanban_create";
    const ABOUT: &'static str = "\
Makes another task: a follow-up, or a part that somebody else should do. Whoever works on it knows only what is in it, so `body` has to say all of it: \
what is to be done, where things are, how to tell that it is done. `parents` are tasks that have to be done first. \
With an `idempotency_key` that was used before, the task made then is returned.";
    const EFFECT: Effect = Effect::Adds;

    fn parameters(desk: &Desk) -> Parameters {
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
        if let (Some(_), Some(properties)) = (desk.role(), properties.as_object_mut()) {
            // A worker's tasks are worked on where its own is, or in a place of their own.
            let kinds = json!({"type": "string", "enum": ["inherit", "scratch"], "description": "Where it is worked on: where this task is (default), or in a place of its own."});
            properties.insert("workspace_kind".to_owned(), kinds);
            properties.remove("workspace_path");
        } else if let Some(properties) = properties.as_object_mut() {
            properties.insert("tenant".to_owned(), json!({"type": "string"}));
        }
        Parameters { properties, required: &["title", "assignee"] }
    }

    async fn act(
        desk: &Desk,
        context: &ToolContext,
        arguments: &Arguments,
    ) -> Result<Map<String, Value>, Trouble> {
        let board = desk.board(arguments).await?;
        let new = new_task(desk, context, &board, arguments).await?;
        let created = board.create(&desk.authority(), new).await?;
        Ok(fields(json!({
            "task_id": created.task.id,
            "status": created.task.status,
            "existed": created.existed,
        })))
    }
}

async fn new_task(
    desk: &Desk,
    context: &ToolContext,
    board: &Board,
    arguments: &Arguments,
) -> Result<NewTask, Trouble> {
    let (workspace, inherit_workspace) = workspace(desk, arguments)?;
    Ok(NewTask {
        title: words::required(context, arguments, "title")?,
        body: words::optional(context, arguments, "body")?.unwrap_or_default(),
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
fn workspace(desk: &Desk, arguments: &Arguments) -> Result<(Workspace, bool), BadArgument> {
    let kind = text(arguments, "workspace_kind")?.map(|kind| kind.to_ascii_lowercase());
    let path = text(arguments, "workspace_path")?.map(PathBuf::from);
    let is_worker = desk.role().is_some();
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

async fn parents(board: &Board, arguments: &Arguments) -> Result<Vec<TaskId>, Trouble> {
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
