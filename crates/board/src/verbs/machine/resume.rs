//! Ways on from where a task waits.

use serde_json::json;

use super::{Change, Facts, Place, refuse, unfinished};
use crate::error::Refusal;
use crate::event::Kind;
use crate::id::TaskId;
use crate::run::Role;
use crate::status::Status;
use crate::task::Task;

/// A person lets the task go on. How often it was blocked is remembered, unless
/// that is what the person had to decide about.
pub(crate) fn unblock(
    task: &Task,
    facts: Facts<'_>,
    reason: Option<&str>,
) -> Result<Change, Refusal> {
    match task.status {
        Status::Blocked | Status::Scheduled => {}
        Status::Triage if task.gate => {}
        Status::Ready | Status::Review if task.wake_at.is_some() => {}
        Status::Triage
        | Status::Todo
        | Status::Ready
        | Status::Running
        | Status::Review
        | Status::Done
        | Status::Archived => return Err(refuse("unblock", task)),
    }
    let mut change = Change::of(task, facts.now).requeue(facts.role(task), Place::Last, facts.now);
    if task.status == Status::Triage {
        change.task.block_recurrences = 0;
    }
    change.forgives = true;
    change.comment = reason.map(unblocking_comment);
    let payload = json!({
        "status": change.task.status, "was": task.status, "reason": reason, "by": facts.by.name()
    });
    Ok(change.tell(Kind::Unblocked, payload))
}

/// Returns the comment that says why a task goes on.
pub(crate) fn unblocking_comment(reason: &str) -> String {
    format!("UNBLOCK: {reason}")
}

/// A person wants the task worked on now. Only with `force` does it not wait
/// for the tasks it is linked to.
pub(crate) fn promote(
    task: &Task,
    facts: Facts<'_>,
    reason: &str,
    force: bool,
    parents: &[TaskId],
) -> Result<Change, Refusal> {
    match task.status {
        Status::Triage | Status::Todo | Status::Blocked | Status::Scheduled => {}
        Status::Ready | Status::Review if task.wake_at.is_some() => {}
        Status::Ready | Status::Running | Status::Review | Status::Done | Status::Archived => {
            return Err(refuse("promote", task));
        }
    }
    let waits = task.pending_parents > 0 && !force;
    // A rough idea that waits for others is at least a task from now on.
    if waits && !matches!(task.status, Status::Triage | Status::Review) {
        return Err(unfinished("promote", task, parents));
    }
    let role = facts.role(task);
    let mut change = Change::of(task, facts.now).requeue(role, Place::Last, facts.now);
    if force && change.task.status == Status::Todo {
        change.task.status = Status::Ready;
        change.task.queued_at = Some(facts.now);
    }
    if task.status == Status::Triage {
        change.task.block_recurrences = 0;
    }
    change.forgives = true;
    let payload = json!({
        "actor": facts.by.name(), "reason": reason, "forced": force,
        "was": task.status, "status": change.task.status,
    });
    Ok(change.tell(Kind::PromotedManual, payload))
}

/// The task is taken up anew.
pub(crate) fn reopen(task: &Task, facts: Facts<'_>, reason: &str) -> Result<Change, Refusal> {
    match task.status {
        Status::Done | Status::Archived => {}
        Status::Triage
        | Status::Todo
        | Status::Scheduled
        | Status::Ready
        | Status::Running
        | Status::Blocked
        | Status::Review => return Err(refuse("reopen", task)),
    }
    let mut change = Change::of(task, facts.now).requeue(Role::Work, Place::Last, facts.now);
    change.task.completed_at = None;
    change.task.block_recurrences = 0;
    change.forgives = true;
    if !reason.is_empty() {
        change.comment = Some(format!("REOPENED: {reason}"));
    }
    let payload = json!({
        "reason": reason, "was": task.status, "status": change.task.status, "by": facts.by.name()
    });
    Ok(change.tell(Kind::Reopened, payload))
}

/// The moment that the task waited for has come. What waits for a person has
/// no such moment: nothing happens.
pub(crate) fn wake(task: &Task, facts: Facts<'_>) -> Option<Change> {
    if task.gate || task.wake_at.is_none_or(|at| at > facts.now) {
        return None;
    }
    let mut change = Change::of(task, facts.now);
    match task.status {
        Status::Scheduled | Status::Blocked => {
            let kind =
                if task.status == Status::Blocked { Kind::Unblocked } else { Kind::Promoted };
            let change = change.requeue(facts.role(task), Place::Last, facts.now);
            let due = json!({ "reason": "due", "status": change.task.status });
            Some(change.tell(kind, due))
        }
        // A guard that time lifts was told of when it was set.
        Status::Ready | Status::Review => {
            change.task.wake_at = None;
            change.task.guard = None;
            Some(change)
        }
        Status::Triage | Status::Todo | Status::Running | Status::Done | Status::Archived => None,
    }
}
