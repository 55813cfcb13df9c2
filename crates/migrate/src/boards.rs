//! Boards, their tasks with all that belongs to them, and files of tasks.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;
use vestal_board::boards::{Boards, NewBoard, Slug};
use vestal_board::verbs::{AdoptedRun, AdoptedTask, MAX_BODY, MAX_COMMENT, MAX_TITLE};
use vestal_board::{
    AttachmentSource, BlockKind, HostName, NewAttachment, Outcome, Role, RunId, Status, Task,
    TaskId, TaskWorkspace, Time,
};
use vestal_config::ProfileName;

use crate::database::{SourceDatabase, SourceRow, number, text};
use crate::ledger::{REMOVED, fingerprint};
use crate::migration::MigratedHome;
use crate::plan::{Action, ItemKind, MigrationStep, PlanItem};
use crate::source::SourceEntryKind;

/// Says what becomes of the boards, which all profiles share.
pub(crate) async fn plan(place: &MigratedHome<'_>, items: &mut Vec<PlanItem>) {
    let planned = |from: &str, action, reason: &str| {
        PlanItem::new(ItemKind::Board, place.name, from, action, reason)
    };
    let boards = match vestal_board::settings::boards(&place.settings()) {
        Ok(boards) => boards,
        Err(error) => {
            return items.push(planned("kanban", Action::Broken, &format!("here: {error}")));
        }
    };
    if place.source.has("kanban.db") {
        let dir = "kanban".to_owned();
        plan_board(place, &boards, &Slug::default_board(), "kanban.db", &dir, items).await;
    }
    let entries = match place.source.list("kanban/boards") {
        Ok(entries) => entries,
        Err(error) => {
            return items.push(planned("kanban/boards", Action::Broken, &error.to_string()));
        }
    };
    for (entry, kind) in entries {
        let dir = format!("kanban/boards/{entry}");
        let file = format!("{dir}/kanban.db");
        match (kind, Slug::new(&entry)) {
            (SourceEntryKind::Link, _) => {
                items.push(planned(
                    &dir,
                    Action::Broken,
                    "it is a link, and links are not followed",
                ));
            }
            (SourceEntryKind::Dir, _) if entry.starts_with('_') => {
                items.push(planned(&dir, Action::Leave, "boards that were removed there"));
            }
            (SourceEntryKind::Dir, Ok(slug)) if place.source.has(&file) && !slug.is_default() => {
                plan_board(place, &boards, &slug, &file, &dir, items).await;
            }
            (SourceEntryKind::Dir, Err(error)) => {
                items.push(planned(&dir, Action::Leave, &error.to_string()));
            }
            _ => {}
        }
    }
}

async fn plan_board(
    place: &MigratedHome<'_>,
    boards: &Boards,
    slug: &Slug,
    file: &str,
    dir: &str,
    items: &mut Vec<PlanItem>,
) {
    let board = |action, reason: String| {
        PlanItem::new(ItemKind::Board, place.name, file, action, reason).to(slug.as_str())
    };
    let mut database = match SourceDatabase::open(&place.source, file).await {
        Ok(None) => return,
        Ok(Some(database)) => database,
        Err(error) => return items.push(board(Action::Broken, error.to_string())),
    };
    let (tasks, files, problem) = match read_tasks(&mut database).await {
        Ok(read) => read,
        Err(reason) => return items.push(board(Action::Broken, reason)),
    };
    if let Some(problem) = problem {
        let reason = format!("is damaged ({problem}); what can be read of it comes");
        items.push(PlanItem::new(ItemKind::Other, place.name, file, Action::Broken, reason));
    }
    let exists = boards.exists(slug).unwrap_or(false);
    let item = board(Action::Take, String::new());
    let (action, reason) = match (exists, place.ledger.has(&item.record_key())) {
        (true, _) => (Action::Present, ""),
        (false, true) => (Action::Leave, REMOVED),
        (false, false) => (Action::Take, ""),
    };
    let new = new_board(place, dir);
    let item = PlanItem { action, reason: reason.to_owned(), ..item };
    items.push(if item.is_pending() {
        item.step(MigrationStep::Board { slug: slug.clone(), new })
    } else {
        item
    });
    if action == Action::Leave {
        return;
    }
    let here = if exists { boards.open_to_read(slug).await } else { Ok(None) };
    let here = match here {
        Ok(here) => here,
        Err(error) => return items.push(board(Action::Broken, format!("here: {error}"))),
    };
    let mut ids = BTreeMap::new();
    for (from, task) in tasks {
        let id = task.task.id.clone();
        ids.insert(from.clone(), id.clone());
        let from = format!("{slug}/{from}");
        let item = PlanItem::new(ItemKind::Task, place.name, &from, Action::Take, &task.task.title)
            .to(id.as_str());
        if let Err(error) = task.check() {
            items.push(PlanItem { action: Action::Broken, reason: error.to_string(), ..item });
            continue;
        }
        let is_here = match &here {
            Some(here) => match here.read().await {
                Ok(mut read) => read.task(&id).await.map(|found| found.is_some()),
                Err(error) => Err(error),
            },
            None => Ok(false),
        };
        let (action, reason) = match (is_here, place.ledger.has(&item.record_key())) {
            (Err(error), _) => (Action::Broken, format!("here: {error}")),
            (Ok(true), _) => (Action::Present, String::new()),
            (Ok(false), true) => (Action::Leave, REMOVED.to_owned()),
            (Ok(false), false) => (Action::Take, note(&task)),
        };
        let reason = if reason.is_empty() { item.reason.clone() } else { reason };
        let item = PlanItem { action, reason, ..item };
        let step = MigrationStep::Task { slug: slug.clone(), task: Box::new(task) };
        items.push(if item.is_pending() { item.step(step) } else { item });
    }
    for file in files {
        plan_file(place, slug, dir, &ids, here.as_ref(), file, items).await;
    }
    if let Some(here) = here {
        here.close().await.ok();
    }
}

/// Returns what is different about a task here.
fn note(task: &AdoptedTask) -> String {
    match task.task.status {
        Status::Running => {
            format!("{}: blocked here, because it was being worked on", task.task.title)
        }
        _ => String::new(),
    }
}

fn new_board(place: &MigratedHome<'_>, dir: &str) -> NewBoard {
    // The default board has what is known about it elsewhere.
    let file = if dir == "kanban" {
        "kanban/boards/default/board.json".to_owned()
    } else {
        format!("{dir}/board.json")
    };
    let text = place.source.text(&file).ok().flatten().map(|(text, _)| text);
    let about: serde_json::Value =
        text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    let word = |name: &str| {
        let own = about.get(name)?.as_str()?.trim();
        let clean: String = own.chars().filter(|c| !c.is_control()).collect();
        (!clean.is_empty()).then_some(clean)
    };
    let short = |name: &str| word(name).filter(|own| own.chars().count() <= 60);
    NewBoard {
        name: short("name"),
        description: word("description").map(|own| own.chars().take(1000).collect()),
        icon: short("icon"),
        color: short("color"),
        default_workdir: word("default_workdir")
            .map(PathBuf::from)
            .filter(|dir| dir.is_absolute() && dir.is_dir()),
    }
}

/// A file of a task there.
struct FileRow {
    task: String,
    name: String,
    stored: String,
    content_type: Option<String>,
}

async fn plan_file(
    place: &MigratedHome<'_>,
    slug: &Slug,
    dir: &str,
    ids: &BTreeMap<String, TaskId>,
    here: Option<&vestal_board::Board>,
    file: FileRow,
    items: &mut Vec<PlanItem>,
) {
    let Some(id) = ids.get(&file.task) else { return };
    let from = format!("{slug}/{}/{}", file.task, file.name);
    let item = PlanItem::new(ItemKind::Attachment, place.name, from, Action::Take, "")
        .to(format!("{id}/{}", file.name));
    // The home may have been moved since; a path that leads elsewhere is not followed.
    let leaf = Path::new(&file.stored).file_name().map(|leaf| leaf.to_string_lossy().into_owned());
    let leaf = leaf.unwrap_or_default();
    let name = format!("{dir}/attachments/{}/{leaf}", file.task);
    match place.source.open(&name) {
        Ok(Some(_)) => {}
        Ok(None) => {
            let reason = "the file is not there".to_owned();
            return items.push(PlanItem { action: Action::Broken, reason, ..item });
        }
        Err(error) => {
            return items.push(PlanItem {
                action: Action::Broken,
                reason: error.to_string(),
                ..item
            });
        }
    }
    let attached = match here {
        Some(here) => match here.read().await {
            Ok(mut read) => read.attachments(id).await.unwrap_or_default(),
            Err(_) => Vec::new(),
        },
        None => Vec::new(),
    };
    let is_here = attached.iter().any(|own| own.filename == file.name);
    let (action, reason) = match (is_here, place.ledger.has(&item.record_key())) {
        (true, _) => (Action::Present, ""),
        (false, true) => (Action::Leave, REMOVED),
        (false, false) => (Action::Take, ""),
    };
    let item = PlanItem { action, reason: reason.to_owned(), ..item };
    let new = NewAttachment {
        name: file.name,
        content_type: file.content_type.filter(|own| own.contains('/')),
        source: AttachmentSource::File(place.source.dir.join(&name)),
    };
    let step = MigrationStep::Attachment { slug: slug.clone(), task: id.clone(), new };
    items.push(if item.is_pending() { item.step(step) } else { item });
}

/// Returns the name of a task here: its own with four more letters, so that it is found by its own.
fn id_of(task: &str) -> TaskId {
    let made = format!("{task}0000");
    if let Ok(id) = made.parse() {
        return id;
    }
    // Letters that names of tasks have are all that a fingerprint has.
    let made = format!("t_{}", &fingerprint(task)[..12]);
    made.parse().unwrap_or_else(|_| unreachable!("{made} is the name of a task"))
}

type TaskRows = (Vec<(String, AdoptedTask)>, Vec<FileRow>, Option<String>);

async fn read_tasks(database: &mut SourceDatabase) -> Result<TaskRows, String> {
    let in_words = |error: crate::database::DatabaseProblem| error.to_string();
    let columns = database.columns("tasks").await.map_err(in_words)?;
    let texts = [
        "id",
        "title",
        "body",
        "assignee",
        "status",
        "created_by",
        "workspace_kind",
        "workspace_path",
        "branch_name",
        "tenant",
        "result",
        "idempotency_key",
        "last_failure_error",
        "skills",
        "model_override",
        "session_id",
        "block_kind",
    ];
    let numbers = [
        "priority",
        "created_at",
        "started_at",
        "completed_at",
        "max_runtime_seconds",
        "max_retries",
    ];
    let select: Vec<String> = texts
        .iter()
        .map(|name| text(&columns, name))
        .chain(numbers.iter().map(|name| number(&columns, name)))
        .collect();
    let query = format!("SELECT {} FROM tasks", select.join(", "));
    let (mut tasks, mut problem) = database.rows(query, &[], task_of).await;
    let at: BTreeMap<String, usize> =
        tasks.iter().enumerate().map(|(at, (id, _))| (id.clone(), at)).collect();
    let link = |row: &SourceRow<'_>| Some((row.text("parent_id")?, row.text("child_id")?));
    let query = "SELECT CAST(parent_id AS BLOB) AS parent_id, CAST(child_id AS BLOB) AS child_id FROM task_links";
    let (links, damage) = database.rows(query.to_owned(), &[], link).await;
    problem = problem.or(damage);
    for (parent, child) in links {
        if let (Some(_), Some(child)) = (at.get(&parent), at.get(&child)) {
            tasks[*child].1.parents.push(id_of(&parent));
        }
    }
    let query = "SELECT CAST(task_id AS BLOB) AS task_id, CAST(author AS BLOB) AS author, \
                 CAST(body AS BLOB) AS body, CAST(created_at AS REAL) AS created_at \
                 FROM task_comments ORDER BY id";
    let comment = |row: &SourceRow<'_>| {
        let body = cut(&row.filled("body")?, MAX_COMMENT);
        let author = row.filled("author").unwrap_or_else(|| "somebody".to_owned());
        let at = seconds(row.number("created_at"));
        Some((row.text("task_id")?, (cut(&author, 200), body, at.unwrap_or_else(Time::now))))
    };
    let (comments, damage) = database.rows(query.to_owned(), &[], comment).await;
    problem = problem.or(damage);
    for (task, comment) in comments {
        if let Some(at) = at.get(&task) {
            tasks[*at].1.comments.push(comment);
        }
    }
    let (runs, damage) = read_runs(database).await;
    problem = problem.or(damage);
    for (task, run) in runs {
        let Some(at) = at.get(&task) else { continue };
        let own = &mut tasks[*at].1;
        if own.task.status == Status::Blocked && run.outcome == Some(Outcome::Blocked) {
            own.task.block_reason.clone_from(&run.summary);
        }
        own.runs.push(run);
    }
    let query = "SELECT CAST(task_id AS BLOB) AS task_id, CAST(filename AS BLOB) AS filename, \
                 CAST(stored_path AS BLOB) AS stored_path, CAST(content_type AS BLOB) AS content_type \
                 FROM task_attachments ORDER BY id";
    let file = |row: &SourceRow<'_>| {
        Some(FileRow {
            task: row.text("task_id")?,
            name: row.filled("filename")?,
            stored: row.text("stored_path")?,
            content_type: row.filled("content_type"),
        })
    };
    // Older versions have no files of tasks.
    let (files, _) = database.rows(query.to_owned(), &[], file).await;
    Ok((tasks, files, problem.map(|problem| problem.to_string())))
}

async fn read_runs(
    database: &mut SourceDatabase,
) -> (Vec<(String, AdoptedRun)>, Option<crate::database::DatabaseProblem>) {
    let columns = match database.columns("task_runs").await {
        Ok(columns) => columns,
        Err(error) => return (Vec::new(), Some(error)),
    };
    let select: Vec<String> = ["task_id", "profile", "outcome", "summary", "error"]
        .iter()
        .map(|name| text(&columns, name))
        .chain(["started_at", "ended_at"].iter().map(|name| number(&columns, name)))
        .collect();
    let query = format!("SELECT {} FROM task_runs ORDER BY id", select.join(", "));
    let read = |row: &SourceRow<'_>| {
        let task = row.text("task_id")?;
        let started_at = seconds(row.number("started_at")).unwrap_or_else(Time::now);
        let ended_at = seconds(row.number("ended_at"));
        let outcome = match row.filled("outcome").as_deref() {
            Some("gave_up") => Outcome::Crashed,
            Some(word) => word.parse().unwrap_or(Outcome::Reclaimed),
            None => Outcome::Reclaimed,
        };
        let run = AdoptedRun {
            id: RunId::new(0),
            task_id: id_of(&task),
            profile: row.filled("profile").and_then(|name| ProfileName::new(&name).ok()),
            role: Role::Work,
            owner: "hermes-agent".to_owned(),
            host: None,
            process: None,
            started_at,
            expires_at: ended_at.unwrap_or(started_at),
            heartbeat_at: None,
            activity_at: None,
            note: None,
            graced: false,
            max_runtime: None,
            stopping: None,
            ended_at: Some(ended_at.unwrap_or_else(Time::now)),
            outcome: Some(outcome),
            summary: row.filled("summary").map(|text| cut(&text, MAX_BODY)),
            metadata: None,
            error: row.filled("error").map(|text| cut(&text, 8 << 10)),
            gone: true,
            workspace: None,
            session_id: None,
        };
        Some((task, run))
    };
    database.rows(query, &[], read).await
}

fn task_of(row: &SourceRow<'_>) -> Option<(String, AdoptedTask)> {
    let from = row.filled("id")?;
    let status = row.filled("status").and_then(|word| word.parse().ok()).unwrap_or(Status::Triage);
    let title: String = row.filled("title").unwrap_or_else(|| "(no title)".to_owned());
    let title: String = title.split_whitespace().collect::<Vec<_>>().join(" ");
    let title: String = title.chars().filter(|c| !c.is_control()).take(MAX_TITLE).collect();
    let created_at = seconds(row.number("created_at")).unwrap_or_else(Time::now);
    let path = row.filled("workspace_path").map(PathBuf::from).filter(|path| path.is_absolute());
    let workspace = match (row.filled("workspace_kind").as_deref(), path) {
        (Some("dir"), Some(path)) => TaskWorkspace::Dir { path },
        (Some("worktree"), Some(path)) => {
            TaskWorkspace::Worktree { path, branch: row.filled("branch_name") }
        }
        _ => TaskWorkspace::Scratch,
    };
    let on_host = workspace.path().is_some();
    let count =
        |name: &str| row.int(name).and_then(|own| u64::try_from(own).ok()).filter(|own| *own > 0);
    let skills =
        row.filled("skills").and_then(|text| serde_json::from_str::<Vec<String>>(&text).ok());
    let block_kind = row.filled("block_kind").and_then(|word| word.parse::<BlockKind>().ok());
    let task = Task {
        id: id_of(&from),
        seq: 0,
        title,
        body: row.text("body").map(|text| cut(&text, MAX_BODY)).unwrap_or_default(),
        assignee: row.filled("assignee").and_then(|name| ProfileName::new(&name).ok()),
        status,
        priority: row.int("priority").unwrap_or(0).clamp(-1_000_000, 1_000_000),
        tenant: row.filled("tenant"),
        created_by: row
            .filled("created_by")
            .map_or_else(|| "user".to_owned(), |own| cut(&own, 200)),
        created_by_run: None,
        depth: 0,
        session_id: row.filled("session_id"),
        created_at,
        updated_at: created_at,
        started_at: seconds(row.number("started_at")),
        completed_at: seconds(row.number("completed_at")),
        queued_at: None,
        workspace,
        workspace_host: on_host.then(HostName::of_this_machine),
        max_runtime: count("max_runtime_seconds").map(Duration::from_secs),
        max_retries: count("max_retries").and_then(|own| u32::try_from(own).ok()),
        skills: skills.unwrap_or_default(),
        model: row.filled("model_override"),
        result: row.filled("result").map(|text| cut(&text, MAX_BODY)),
        idempotency_key: row.filled("idempotency_key"),
        current_run: None,
        running_as: None,
        block_kind: block_kind.filter(|_| status == Status::Blocked),
        block_reason: row
            .filled("last_failure_error")
            .filter(|_| status == Status::Blocked)
            .map(|text| cut(&text, 8 << 10)),
        block_recurrences: 0,
        gate: false,
        attention: None,
        wake_at: None,
        guard: None,
        needs_review: status == Status::Review,
        reviewer: None,
        pending_parents: 0,
    };
    let origin = json!({ "system": "hermes-agent", "task": from, "status": status });
    let own =
        AdoptedTask { task, parents: Vec::new(), comments: Vec::new(), runs: Vec::new(), origin };
    Some((from, own))
}

#[expect(clippy::cast_possible_truncation, reason = "it saturates")]
fn seconds(number: Option<f64>) -> Option<Time> {
    number.filter(|own| *own > 0.0).map(|own| Time::from_millis((own * 1000.0) as i64))
}

/// Returns the beginning of a text, with a word about it where something is missing.
fn cut(text: &str, most: usize) -> String {
    const MARK: &str = "\n[the rest was not taken over]";
    if text.len() <= most {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(most - MARK.len());
    format!("{}{MARK}", &text[..end])
}
