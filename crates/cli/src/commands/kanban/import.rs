//! Making many tasks at once of lines of JSON.

use std::path::Path;

use serde::Deserialize;
use vestal_board::Board;
use vestal_board::verbs::{Initial, NewTask};

use super::create;
use super::desk::Desk;
use super::values::{self, Place, STDIN, parse_assignee, parse_moment, parse_place};
use crate::console::text;
use crate::error::Failure;
use crate::exit::Exit;
use crate::values::parse_duration;
use crate::views::TaskView;

/// Bytes that are read at most; more tasks than that are better made in parts.
const MOST: u64 = 256 << 20;

/// A task, as a line has it.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Line {
    title: String,
    body: String,
    assignee: Option<String>,
    parents: Vec<String>,
    workspace: Option<String>,
    branch: Option<String>,
    tenant: Option<String>,
    priority: i64,
    triage: bool,
    blocked: bool,
    idempotency_key: Option<String>,
    max_runtime: Option<String>,
    skills: Vec<String>,
    max_retries: Option<u32>,
    model: Option<String>,
    review: bool,
    reviewer: Option<String>,
    at: Option<String>,
}

/// Makes the tasks of a file, all of them or none.
pub(super) async fn run(
    desk: &Desk<'_>,
    file: &Path,
    created_by: Option<&str>,
    json: bool,
) -> Result<Exit, Failure> {
    let (content, named) = if file.as_os_str() == STDIN {
        (values::stdin_up_to(MOST, "standard input").await?, "standard input".to_owned())
    } else {
        (values::file_up_to(file, MOST).await?, file.display().to_string())
    };
    let workdir = desk.default_workdir().await?;
    let board = desk.board().await?;
    let mut new = Vec::new();
    for (number, line) in content.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        let task = read(&board, line, workdir.as_deref()).await;
        let place = format!("{named}, line {}", number + 1);
        new.push(task.map_err(|failure| failure.about(&place).advise("no task was made"))?);
    }
    if new.is_empty() {
        return Err(Failure::usage(format!("there is no task in {named}")));
    }
    let created = board.create_many(&desk.in_name_of(created_by), new).await?;
    if json {
        let views: Vec<TaskView> = created.iter().map(|one| TaskView::from(&one.task)).collect();
        desk.print(&views)?;
    } else {
        let existed = created.iter().filter(|one| one.existed).count();
        let made = text::count((created.len() - existed) as u64, "task");
        let more = if existed > 0 { format!("; {existed} existed already") } else { String::new() };
        desk.console().print(&format!("Created {made}{more}"))?;
    }
    let tasks: Vec<_> = created.into_iter().map(|one| one.task).collect();
    create::hint(desk, &tasks)
}

async fn read(board: &Board, line: &str, workdir: Option<&Path>) -> Result<NewTask, Failure> {
    let wrong = |what: &str, reason: String| Failure::usage(format!("{what}: {reason}"));
    let line: Line =
        serde_json::from_str(line).map_err(|error| Failure::usage(error.to_string()))?;
    let mut parents = Vec::with_capacity(line.parents.len());
    for parent in &line.parents {
        parents.push(board.find(parent).await?);
    }
    let place = match &line.workspace {
        Some(text) => parse_place(text).map_err(|reason| wrong("workspace", reason))?,
        None => Place::Scratch,
    };
    let max_runtime = line.max_runtime.as_deref().map(parse_duration).transpose();
    let at = line.at.as_deref().map(parse_moment).transpose();
    let reviewer = line.reviewer.as_deref().map(parse_assignee).transpose()?.flatten();
    let at = at.map_err(|reason| wrong("at", reason))?;
    let initial = match (line.triage, line.blocked, at) {
        (false, false, None) => Initial::Queue,
        (false, false, Some(at)) => Initial::At(at),
        (true, false, None) => Initial::Triage,
        (false, true, None) => Initial::Blocked,
        _ => return Err(Failure::usage("a task begins in one way: triage, blocked or at")),
    };
    Ok(NewTask {
        title: line.title,
        body: line.body,
        assignee: line.assignee.as_deref().map(parse_assignee).transpose()?.flatten(),
        parents,
        workspace: place.resolve(workdir, line.branch)?,
        tenant: line.tenant,
        priority: line.priority,
        initial,
        idempotency_key: line.idempotency_key,
        max_runtime: max_runtime.map_err(|reason| wrong("max_runtime", reason))?,
        skills: line.skills,
        max_retries: line.max_retries,
        model: line.model,
        needs_review: line.review || reviewer.is_some(),
        reviewer,
        ..NewTask::default()
    })
}
