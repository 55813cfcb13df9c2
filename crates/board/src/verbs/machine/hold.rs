//! Ways into somebody's hands and out of them.

use serde_json::{Value, json};
use vestal_config::ProfileName;

use super::change::{QueuePosition, RunEnding, TaskChange, TaskFacts, clear_waits, refuse};
use crate::dispatch::FailurePolicy;
use crate::error::BoardRefusal;
use crate::event::Kind;
use crate::id::RunId;
use crate::run::{Outcome, Role, Run};
use crate::task::{BlockKind, Status, Task};
use crate::time::Time;

/// How much of an error is kept with a task.
const ERROR: usize = 500;

/// Somebody takes the task. The run that holds it is made by the caller, who
/// puts its number in.
///
/// What waits for a moment is not a dispatcher's to take; a person may.
pub(crate) fn claim(
    task: &Task,
    facts: TaskFacts<'_>,
    role: Role,
    profile: Option<&ProfileName>,
) -> Result<TaskChange, BoardRefusal> {
    match (task.status, role) {
        (Status::Ready, Role::Work) | (Status::Review, Role::Review) => {}
        (
            Status::Triage
            | Status::Todo
            | Status::Scheduled
            | Status::Ready
            | Status::Running
            | Status::Blocked
            | Status::Review
            | Status::Done
            | Status::Archived,
            _,
        ) => return Err(held(task, facts.run, "claim").unwrap_or_else(|| refuse("claim", task))),
    }
    let dispatched = matches!(facts.by, crate::Authority::Dispatcher(_));
    if dispatched && task.wake_at.is_some_and(|at| at > facts.now) {
        return Err(refuse("claim", task));
    }
    let mut change = TaskChange::of(task, facts.now);
    clear_waits(&mut change.task);
    change.task.status = Status::Running;
    change.task.running_as = profile.cloned();
    change.task.started_at = task.started_at.or(Some(facts.now));
    Ok(change)
}

/// Says who holds a task, where somebody does.
fn held(task: &Task, run: Option<&Run>, verb: &'static str) -> Option<BoardRefusal> {
    let run = run.filter(|run| Some(run.id) == task.current_run)?;
    let owner = run.owner.clone();
    Some(BoardRefusal::Held { verb, task: task.id.clone(), run: run.id, owner })
}

/// A person takes the task from its holder; it can be taken up again at once.
pub(crate) fn reclaim(
    task: &Task,
    facts: TaskFacts<'_>,
    reason: &str,
) -> Result<TaskChange, BoardRefusal> {
    match task.status {
        Status::Running => {}
        Status::Triage
        | Status::Todo
        | Status::Scheduled
        | Status::Ready
        | Status::Blocked
        | Status::Review
        | Status::Done
        | Status::Archived => return Err(refuse("reclaim", task)),
    }
    let mut ending = RunEnding::new(Outcome::Reclaimed);
    ending.error = Some(reason.to_owned());
    let mut payload = json!({ "manual": true, "reason": reason, "by": facts.by.name(), "run_id": task.current_run });
    if let Some(run) = facts.run {
        payload["prev_owner"] = json!(run.owner);
    }
    let mut change = TaskChange::of(task, facts.now)
        .release(ending)
        .requeue(facts.role(task), QueuePosition::Kept, facts.now)
        .with_event(Kind::Reclaimed, payload);
    change.forgives = true;
    Ok(change)
}

/// The task is given to a profile, or to nobody. What waits only because it
/// failed continues at once.
pub(crate) fn assign(
    task: &Task,
    facts: TaskFacts<'_>,
    to: Option<&ProfileName>,
    source: Option<&str>,
) -> Result<TaskChange, BoardRefusal> {
    match task.status {
        Status::Running => {
            return Err(held(task, facts.run, "assign").unwrap_or_else(|| refuse("assign", task)));
        }
        Status::Archived => return Err(refuse("assign", task)),
        Status::Triage
        | Status::Todo
        | Status::Scheduled
        | Status::Ready
        | Status::Blocked
        | Status::Review
        | Status::Done => {}
    }
    let mut payload = json!({ "assignee": to.map(ProfileName::as_str), "by": facts.by.name() });
    if let Some(source) = source {
        payload["source"] = json!(source);
    }
    let mut change = TaskChange::of(task, facts.now).with_event(Kind::Assigned, payload);
    change.task.assignee = to.cloned();
    if matches!(task.status, Status::Ready | Status::Review) {
        change.task.wake_at = None;
        change.task.guard = None;
    }
    change.forgives = true;
    Ok(change)
}

/// A run that ended without its worker's word, or with its word that it failed.
pub(crate) struct FailedRun<'a> {
    pub(crate) run: &'a Run,
    /// How it ended.
    pub(crate) outcome: Outcome,
    /// The message.
    pub(crate) error: &'a str,
    pub(crate) exit_code: Option<i32>,
    /// How often the task failed for this cause, this time included; none where
    /// it is not a failure.
    pub(crate) failures: Option<u32>,
}

/// The run that holds the task ended without bringing it on: it is tried again
/// after a while, or given up.
pub(crate) fn end_run(
    task: &Task,
    facts: TaskFacts<'_>,
    failed: &FailedRun<'_>,
    policy: &FailurePolicy,
) -> TaskChange {
    let mut ending = RunEnding::new(failed.outcome);
    ending.error = Some(failed.error.to_owned()).filter(|error| !error.is_empty());
    let change = TaskChange::of(task, facts.now)
        .release(ending)
        .requeue(failed.run.role, QueuePosition::Kept, facts.now)
        .with_event(kind(failed.outcome), failure_payload(failed));
    let Some((failures, (limit, source))) =
        failed.failures.zip(limit(task, failed.outcome, policy))
    else {
        return change;
    };
    if failures >= limit {
        return give_up(change, failed, failures, limit, source);
    }
    if change.task.status == Status::Todo {
        return change;
    }
    guard(change, failed.outcome, failures, policy, facts.now)
}

/// Returns the failures at which the task is given up, and who says so. A task's
/// own number is about attempts that failed; being asked to wait is not an attempt.
fn limit(task: &Task, cause: Outcome, policy: &FailurePolicy) -> Option<(u32, &'static str)> {
    let budget = policy.budgets.of(cause)?;
    match task.max_retries {
        Some(own) if cause != Outcome::RateLimited => Some((own, "task")),
        _ => Some((budget, "policy")),
    }
}

fn give_up(
    change: TaskChange,
    failed: &FailedRun<'_>,
    failures: u32,
    limit: u32,
    source: &str,
) -> TaskChange {
    let mut change = change.rest(Status::Blocked);
    let error: String = failed.error.chars().take(ERROR).collect();
    let reason = format!("given up after {failures} × {}: {error}", failed.outcome);
    change.task.block_kind = Some(BlockKind::GaveUp);
    change.task.block_reason = Some(reason.clone());
    change.task.block_recurrences = 0;
    change.task.gate = true;
    change.task.attention = Some(reason);
    change.with_event(
        Kind::GaveUp,
        json!({
            "failures": failures,
            "effective_limit": limit,
            "limit_source": source,
            "error": error,
            "trigger_outcome": failed.outcome,
        }),
    )
}

fn guard(
    mut change: TaskChange,
    cause: Outcome,
    failures: u32,
    policy: &FailurePolicy,
    now: Time,
) -> TaskChange {
    let (reason, wait) = if cause == Outcome::RateLimited {
        ("rate_limit_cooldown", policy.rate_limit_cooldown)
    } else {
        ("backoff", policy.backoff.after(failures))
    };
    let until = now.after(wait);
    change.task.wake_at = Some(until);
    change.task.guard = Some(reason.to_owned());
    change.with_event(Kind::RespawnGuarded, json!({ "reason": reason, "until": until }))
}

/// Returns the event that reports an end.
fn kind(outcome: Outcome) -> Kind {
    match outcome {
        Outcome::Crashed => Kind::Crashed,
        Outcome::TimedOut => Kind::TimedOut,
        Outcome::SpawnFailed => Kind::SpawnFailed,
        Outcome::Stale => Kind::Stale,
        Outcome::RateLimited => Kind::RateLimited,
        Outcome::NoReport => Kind::ProtocolViolation,
        Outcome::Terminated => Kind::Terminated,
        Outcome::Reclaimed
        | Outcome::Completed
        | Outcome::Submitted
        | Outcome::ChangesRequested
        | Outcome::Blocked
        | Outcome::Scheduled => Kind::Reclaimed,
    }
}

fn failure_payload(failed: &FailedRun<'_>) -> Value {
    let error: String = failed.error.chars().take(ERROR).collect();
    let mut payload = json!({ "error": error, "owner": failed.run.owner });
    let run: RunId = failed.run.id;
    payload["run_id"] = json!(run);
    if let Some(process) = &failed.run.process {
        payload["pid"] = json!(process.pid);
        payload["host"] = json!(process.host.name);
    }
    if let Some(code) = failed.exit_code {
        payload["exit_code"] = json!(code);
    }
    if let Some(failures) = failed.failures {
        payload["failures"] = json!(failures);
    }
    payload
}
