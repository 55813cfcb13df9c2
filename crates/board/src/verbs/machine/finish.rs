//! Ways to the end of a task.

use serde_json::{Value, json};

use super::change::{QueuePosition, RunEnding, TaskChange, TaskFacts, refuse};
use crate::error::{BoardRefusal, Error};
use crate::event::Kind;
use crate::run::{Outcome, Role};
use crate::task::{Status, Task};
use crate::verbs::TaskCompletion;

/// How much of a summary goes into an event.
const HEADLINE: usize = 400;

/// The task is done; or, where a worker says so of a task that has to be looked
/// at, the work is.
pub(crate) fn complete(
    task: &Task,
    facts: TaskFacts<'_>,
    done: &TaskCompletion,
) -> Result<TaskChange, Error> {
    match task.status {
        Status::Running | Status::Ready | Status::Blocked | Status::Review => {}
        Status::Triage | Status::Todo | Status::Scheduled | Status::Done | Status::Archived => {
            return Err(refuse("complete", task).into());
        }
    }
    let role = facts.role(task);
    if facts.by_worker() && task.needs_review && role == Role::Work {
        return submit(task, facts, done);
    }
    let mut change = TaskChange::of(task, facts.now)
        .rest(Status::Done)
        .release(handoff(Outcome::Completed, done, role))
        .with_event(Kind::Completed, completion_payload(done, role));
    change.task.completed_at = Some(facts.now);
    change.task.started_at = task.started_at.or(Some(facts.now));
    if done.result.is_some() {
        change.task.result.clone_from(&done.result);
    }
    change.forgives = true;
    Ok(change)
}

/// The work is done and has to be looked at.
pub(crate) fn submit(
    task: &Task,
    facts: TaskFacts<'_>,
    done: &TaskCompletion,
) -> Result<TaskChange, Error> {
    match task.status {
        Status::Running | Status::Ready | Status::Blocked => {}
        Status::Triage
        | Status::Todo
        | Status::Scheduled
        | Status::Review
        | Status::Done
        | Status::Archived => return Err(refuse("submit", task).into()),
    }
    if task.status == Status::Running && facts.role(task) == Role::Review {
        return Err(Error::Invalid {
            what: "a run that looks at the work".to_owned(),
            reason: "completes the task or requests changes; it cannot submit it".to_owned(),
        });
    }
    let mut payload = completion_payload(done, Role::Work);
    payload["reviewer"] = json!(task.reviewer.as_ref().map(vestal_config::ProfileName::as_str));
    let mut change = TaskChange::of(task, facts.now)
        .release(handoff(Outcome::Submitted, done, Role::Work))
        .requeue(Role::Review, QueuePosition::Last, facts.now)
        .with_event(Kind::Submitted, payload);
    change.task.started_at = task.started_at.or(Some(facts.now));
    if done.result.is_some() {
        change.task.result.clone_from(&done.result);
    }
    change.forgives = true;
    Ok(change)
}

/// Returns the comment that requested changes leave.
pub(crate) fn changes_comment(reason: &str) -> String {
    format!("CHANGES: {reason}")
}

/// The reviewer wants the work changed.
pub(crate) fn request_changes(
    task: &Task,
    facts: TaskFacts<'_>,
    reason: &str,
) -> Result<TaskChange, BoardRefusal> {
    match task.status {
        Status::Review => {}
        Status::Running if facts.role(task) == Role::Review => {}
        Status::Triage
        | Status::Todo
        | Status::Scheduled
        | Status::Ready
        | Status::Running
        | Status::Blocked
        | Status::Done
        | Status::Archived => return Err(refuse("request changes to", task)),
    }
    let mut ending = RunEnding::new(Outcome::ChangesRequested);
    ending.summary = Some(reason.to_owned());
    ending.record = Some(Role::Review);
    let mut change = TaskChange::of(task, facts.now)
        .release(ending)
        .requeue(Role::Work, QueuePosition::Last, facts.now)
        .with_event(Kind::ChangesRequested, json!({ "reason": reason, "by": facts.by.name() }));
    change.comment = Some(changes_comment(reason));
    change.forgives = true;
    Ok(change)
}

/// The task is put away. What was being done about it ends.
pub(crate) fn archive(task: &Task, facts: TaskFacts<'_>) -> Result<TaskChange, BoardRefusal> {
    match task.status {
        Status::Triage
        | Status::Todo
        | Status::Scheduled
        | Status::Ready
        | Status::Running
        | Status::Blocked
        | Status::Review
        | Status::Done => {}
        Status::Archived => return Err(refuse("archive", task)),
    }
    let mut ending = RunEnding::new(Outcome::Reclaimed);
    ending.error = Some("the task was archived".to_owned());
    let mut change = TaskChange::of(task, facts.now)
        .rest(Status::Archived)
        .release(ending)
        .with_event(Kind::Archived, json!({ "by": facts.by.name(), "was": task.status }));
    change.forgives = true;
    Ok(change)
}

fn handoff(outcome: Outcome, done: &TaskCompletion, role: Role) -> RunEnding {
    RunEnding {
        outcome,
        summary: done.summary.clone().or_else(|| done.result.clone()),
        metadata: done.metadata.clone(),
        error: None,
        record: Some(role),
    }
}

fn completion_payload(done: &TaskCompletion, role: Role) -> Value {
    let mut payload = json!({
        "result_len": done.result.as_deref().map_or(0, |result| result.chars().count()),
        "summary": done.summary.as_deref().or(done.result.as_deref()).map(headline),
    });
    if role == Role::Review {
        payload["role"] = json!(role);
    }
    if !done.created_cards.is_empty() {
        payload["verified_cards"] = json!(done.created_cards);
    }
    if !done.artifacts.is_empty() {
        payload["artifacts"] = json!(done.artifacts);
    }
    payload
}

/// Returns the first line of a text, shortened.
pub(crate) fn headline(text: &str) -> String {
    text.trim().lines().next().unwrap_or_default().chars().take(HEADLINE).collect()
}
