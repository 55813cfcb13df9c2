//! What the end, or the return, of a task means for those that wait for it.

use serde_json::json;

use super::{Change, Place};
use crate::event::Kind;
use crate::id::TaskId;
use crate::run::Role;
use crate::status::Status;
use crate::task::Task;
use crate::time::Time;

/// A task that `child` waits for is finished, or is not waited for any more.
/// Returns what becomes of the child; it is in `ready` if that was the last.
///
/// A waiting task moves by itself; whatever waits for a person or for a moment
/// only knows that there is less to wait for.
pub(crate) fn parent_finished(child: &Task, now: Time) -> Change {
    let mut change = Change::of(child, now);
    change.task.pending_parents = child.pending_parents.saturating_sub(1);
    match child.status {
        Status::Todo if change.task.pending_parents == 0 => {
            change.requeue(Role::Work, Place::Last, now)
        }
        Status::Todo
        | Status::Triage
        | Status::Scheduled
        | Status::Ready
        | Status::Running
        | Status::Blocked
        | Status::Review
        | Status::Done
        | Status::Archived => change,
    }
}

/// A task that `child` waits for is not finished: it was taken up anew, or is
/// waited for from now on. A child that could be worked on has to wait again;
/// what is being worked on, or was, is left at that.
pub(crate) fn parent_unfinished(child: &Task, parent: &TaskId, now: Time) -> Change {
    let mut change = Change::of(child, now);
    change.task.pending_parents = child.pending_parents.saturating_add(1);
    match child.status {
        Status::Ready => change
            .requeue(Role::Work, Place::Last, now)
            .tell(Kind::Demoted, json!({ "parent": parent, "reason": "unfinished_parent" })),
        Status::Triage
        | Status::Todo
        | Status::Scheduled
        | Status::Running
        | Status::Blocked
        | Status::Review
        | Status::Done
        | Status::Archived => change,
    }
}
