//! Tasks and runs as the model reads them.

use serde_json::{Value, json};
use vestal_board::{Run, Sheet, Task};
use vestal_config::ProfileName;

/// Returns a task, without what only the board needs.
pub(super) fn task(task: &Task) -> Value {
    json!({
        "id": task.id,
        "title": task.title,
        "body": task.body,
        "assignee": name(task.assignee.as_ref()),
        "status": task.status,
        "priority": task.priority,
        "tenant": task.tenant,
        "workspace_kind": task.workspace.kind(),
        "workspace_path": task.workspace.path(),
        "branch_name": task.workspace.branch(),
        "created_by": task.created_by,
        "created_at": task.created_at,
        "started_at": task.started_at,
        "completed_at": task.completed_at,
        "wake_at": task.wake_at,
        "result": task.result,
        "skills": task.skills,
        "needs_review": task.needs_review,
        "reviewer": name(task.reviewer.as_ref()),
        "block_kind": task.block_kind,
        "block_reason": task.block_reason,
        "attention": task.attention,
    })
}

/// Returns a task as it stands in a list.
pub(super) fn line(task: &Task) -> Value {
    json!({
        "id": task.id,
        "title": task.title,
        "assignee": name(task.assignee.as_ref()),
        "status": task.status,
        "priority": task.priority,
        "tenant": task.tenant,
        "attention": task.attention,
    })
}

/// Returns all about a task.
pub(super) fn sheet(sheet: &Sheet) -> Value {
    json!({
        "task": task(&sheet.task),
        "latest_summary": sheet.latest_summary,
        "parents": sheet.parents,
        "children": sheet.children,
        "comments": sheet.comments,
        "events": sheet.events,
        "runs": sheet.runs.iter().map(run).collect::<Vec<_>>(),
        "attachments": sheet.attachments,
    })
}

fn run(run: &Run) -> Value {
    json!({
        "id": run.id,
        "profile": name(run.profile.as_ref()),
        "role": run.role,
        "started_at": run.started_at,
        "ended_at": run.ended_at,
        "outcome": run.outcome,
        "summary": run.summary,
        "metadata": run.metadata,
        "error": run.error,
        "note": run.note,
    })
}

fn name(profile: Option<&ProfileName>) -> Option<&str> {
    profile.map(ProfileName::as_str)
}
