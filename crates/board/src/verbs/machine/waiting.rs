//! Ways to where a task waits, and on from there.

use std::time::Duration;

use serde_json::json;

use super::change::{QueuePosition, RunEnding, TaskChange, TaskFacts, refuse};
use super::finish;
use crate::error::{BoardRefusal, Error};
use crate::event::Kind;
use crate::id::TaskId;
use crate::run::{Outcome, Role};
use crate::task::{BlockKind, Status, Task};
use crate::time::Time;
use crate::verbs::{Block, TaskCompletion};

/// Blocks of one kind in a row at which a person has to decide.
const LOOP: u32 = 2;
/// The same for passing troubles, which nobody has to do anything about.
const TRANSIENT_LOOP: u32 = 5;
/// How long a passing trouble is given to pass; it doubles each time.
const TRANSIENT_WAIT: Duration = Duration::from_mins(5);
/// A reason that begins so means that the work is done.
const REVIEW: &str = "review-required:";

/// The task waits: for a person, for other tasks, or for a trouble to pass.
pub(crate) fn block(task: &Task, facts: TaskFacts<'_>, block: &Block) -> Result<TaskChange, Error> {
    match task.status {
        Status::Todo | Status::Scheduled | Status::Ready | Status::Running | Status::Review => {}
        Status::Triage | Status::Blocked | Status::Done | Status::Archived => {
            return Err(refuse("block", task).into());
        }
    }
    let reason = block.reason.as_str();
    if let Some(rest) = strip_review(reason).filter(|_| facts.role(task) == Role::Work) {
        let summary = if rest.is_empty() { reason } else { rest };
        let done =
            TaskCompletion { summary: Some(summary.to_owned()), ..TaskCompletion::default() };
        return finish::submit(task, facts, &done);
    }
    match block.kind {
        Some(BlockKind::Dependency) => depend(task, facts, reason).map_err(Error::from),
        kind => Ok(block_for_person_or_time(task, facts, reason, kind)),
    }
}

fn strip_review(reason: &str) -> Option<&str> {
    let head = reason.get(..REVIEW.len())?;
    head.eq_ignore_ascii_case(REVIEW).then(|| reason[REVIEW.len()..].trim())
}

/// The task waits for those it is linked to. Without one that is not finished
/// it would be back at once, and again, without end.
fn depend(task: &Task, facts: TaskFacts<'_>, reason: &str) -> Result<TaskChange, BoardRefusal> {
    if task.pending_parents == 0 {
        return Err(BoardRefusal::NothingToWaitFor { task: task.id.clone() });
    }
    let mut change = TaskChange::of(task, facts.now)
        .release(ending(Outcome::Blocked, reason, facts.role(task)))
        .rest(Status::Todo)
        .with_event(
            Kind::DependencyWait,
            json!({ "reason": reason, "kind": BlockKind::Dependency, "by": facts.by.name() }),
        );
    change.task.block_kind = Some(BlockKind::Dependency);
    change.task.block_reason = Some(reason.to_owned());
    change.task.block_recurrences = 0;
    change.comment = Some(format!("BLOCKED: {reason}"));
    Ok(change)
}

fn block_for_person_or_time(
    task: &Task,
    facts: TaskFacts<'_>,
    reason: &str,
    kind: Option<BlockKind>,
) -> TaskChange {
    let recurrences = recurrences(task, kind);
    let limit = if kind == Some(BlockKind::Transient) { TRANSIENT_LOOP } else { LOOP };
    let looped = kind != Some(BlockKind::Gate) && recurrences >= limit;
    let status = if looped { Status::Triage } else { Status::Blocked };
    let mut change = TaskChange::of(task, facts.now)
        .release(ending(Outcome::Blocked, reason, facts.role(task)))
        .rest(status);
    change.comment = Some(format!("BLOCKED: {reason}"));
    let task = &mut change.task;
    task.block_kind = kind;
    task.block_reason = Some(reason.to_owned());
    task.block_recurrences = recurrences;
    let mut payload = json!({
        "reason": reason, "kind": kind, "recurrences": recurrences, "by": facts.by.name()
    });
    if looped {
        task.gate = true;
        task.attention = Some(format!("blocked {recurrences} times in a row: {reason}"));
        payload["limit"] = json!(limit);
        return change.with_event(Kind::BlockLoopDetected, payload);
    }
    if kind == Some(BlockKind::Transient) {
        let at = wake_at(facts.now, recurrences);
        task.wake_at = Some(at);
        payload["wake_at"] = json!(at);
    } else {
        task.gate = true;
        if asks(kind, facts) {
            task.attention = Some(reason.to_owned());
        }
    }
    change.with_event(Kind::Blocked, payload)
}

/// Reports whether somebody has to hear of a block: a person who blocks a task
/// without a word about what is missing knows.
fn asks(kind: Option<BlockKind>, facts: TaskFacts<'_>) -> bool {
    match kind {
        Some(BlockKind::NeedsInput | BlockKind::Capability | BlockKind::GaveUp) => true,
        None => facts.by_worker(),
        Some(BlockKind::Transient | BlockKind::Dependency | BlockKind::Gate) => false,
    }
}

/// Returns the how-manieth block of its kind in a row this is.
fn recurrences(task: &Task, kind: Option<BlockKind>) -> u32 {
    match kind {
        Some(BlockKind::Gate) => 0,
        _ if task.block_kind == kind => task.block_recurrences.saturating_add(1),
        _ => 1,
    }
}

fn wake_at(now: Time, recurrences: u32) -> Time {
    let doubled = 1_u32.checked_shl(recurrences.saturating_sub(1)).unwrap_or(u32::MAX);
    now.after(TRANSIENT_WAIT.saturating_mul(doubled))
}

/// The task is put off until a moment, or until somebody takes it up.
pub(crate) fn schedule(
    task: &Task,
    facts: TaskFacts<'_>,
    reason: &str,
    at: Option<Time>,
) -> Result<TaskChange, BoardRefusal> {
    match task.status {
        Status::Todo
        | Status::Scheduled
        | Status::Ready
        | Status::Running
        | Status::Blocked
        | Status::Review => {}
        Status::Triage | Status::Done | Status::Archived => return Err(refuse("schedule", task)),
    }
    let mut change = TaskChange::of(task, facts.now)
        .release(ending(Outcome::Scheduled, reason, facts.role(task)))
        .rest(Status::Scheduled)
        .with_event(
            Kind::Scheduled,
            json!({ "reason": reason, "wake_at": at, "by": facts.by.name() }),
        );
    change.task.wake_at = at;
    if at.is_none() && facts.by_worker() {
        change.task.attention = Some(format!("deferred until a person takes it up: {reason}"));
    }
    change.comment = Some(format!("SCHEDULED: {reason}"));
    Ok(change)
}

fn ending(outcome: Outcome, reason: &str, role: Role) -> RunEnding {
    let mut ending = RunEnding::new(outcome);
    ending.summary = Some(reason.to_owned());
    ending.record = Some(role);
    ending
}

/// A person lets the task continue. How often it was blocked is remembered, unless
/// that is what the person had to decide about.
pub(crate) fn unblock(
    task: &Task,
    facts: TaskFacts<'_>,
    reason: Option<&str>,
) -> Result<TaskChange, BoardRefusal> {
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
    let mut change =
        TaskChange::of(task, facts.now).requeue(facts.role(task), QueuePosition::Last, facts.now);
    if task.status == Status::Triage {
        change.task.block_recurrences = 0;
    }
    change.forgives = true;
    change.comment = reason.map(unblocking_comment);
    let payload = json!({
        "status": change.task.status, "was": task.status, "reason": reason, "by": facts.by.name()
    });
    Ok(change.with_event(Kind::Unblocked, payload))
}

/// Returns the comment that says why a task continues.
pub(crate) fn unblocking_comment(reason: &str) -> String {
    format!("UNBLOCK: {reason}")
}

/// A person wants the task worked on now. Only with `force` does it not wait
/// for the tasks it is linked to.
pub(crate) fn promote(
    task: &Task,
    facts: TaskFacts<'_>,
    reason: &str,
    force: bool,
    parents: &[TaskId],
) -> Result<TaskChange, BoardRefusal> {
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
    let mut change = TaskChange::of(task, facts.now).requeue(role, QueuePosition::Last, facts.now);
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
    Ok(change.with_event(Kind::PromotedManual, payload))
}

/// The task is taken up again.
pub(crate) fn reopen(
    task: &Task,
    facts: TaskFacts<'_>,
    reason: &str,
) -> Result<TaskChange, BoardRefusal> {
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
    let mut change =
        TaskChange::of(task, facts.now).requeue(Role::Work, QueuePosition::Last, facts.now);
    change.task.completed_at = None;
    change.task.block_recurrences = 0;
    change.forgives = true;
    if !reason.is_empty() {
        change.comment = Some(format!("REOPENED: {reason}"));
    }
    let payload = json!({
        "reason": reason, "was": task.status, "status": change.task.status, "by": facts.by.name()
    });
    Ok(change.with_event(Kind::Reopened, payload))
}

/// The moment that the task waited for has come. What waits for a person has
/// no such moment: nothing happens.
pub(crate) fn wake(task: &Task, facts: TaskFacts<'_>) -> Option<TaskChange> {
    if task.gate || task.wake_at.is_none_or(|at| at > facts.now) {
        return None;
    }
    let mut change = TaskChange::of(task, facts.now);
    match task.status {
        Status::Scheduled | Status::Blocked => {
            let kind =
                if task.status == Status::Blocked { Kind::Unblocked } else { Kind::Promoted };
            let change = change.requeue(facts.role(task), QueuePosition::Last, facts.now);
            let due = json!({ "reason": "due", "status": change.task.status });
            Some(change.with_event(kind, due))
        }
        // A guard that time lifts was reported when it was set.
        Status::Ready | Status::Review => {
            change.task.wake_at = None;
            change.task.guard = None;
            Some(change)
        }
        Status::Triage | Status::Todo | Status::Running | Status::Done | Status::Archived => None,
    }
}

/// Says that a task waits for others.
fn unfinished(verb: &'static str, task: &Task, parents: &[TaskId]) -> BoardRefusal {
    BoardRefusal::UnfinishedParents { verb, task: task.id.clone(), parents: parents.to_vec() }
}
