//! What a dispatcher does, one step at a time, inside its own transaction. Each
//! looks at the board again: what was planned may not be so any more.

use std::time::Duration;

use async_recursion::async_recursion as boxed;
use serde_json::json;
use vestal_config::ProfileName;

use super::machine::{self, FailedRun};
use super::transition::{TaskState, find, record};
use super::{Claim, Moved, RunEnd};
use crate::Result;
use crate::boards::refuse_archived;
use crate::dispatch::FailurePolicy;
use crate::error::{BoardRefusal, Error};
use crate::event::Kind;
use crate::id::{Authority, RunId, TaskId};
use crate::run::{Outcome, Run};
use crate::store::Write;
use crate::task::{Status, Task, TaskWorkspace};

/// Where the event says that the default assignee came from.
const DEFAULT_ASSIGNEE: &str = "kanban.default_assignee";
/// What a run says whose worker could not be stopped.
const UNSTOPPABLE: &str = "its worker could not be stopped";

/// Takes a task, and returns the run that holds it.
#[boxed]
pub async fn claim_in(
    tx: &mut dyn Write,
    by: &Authority,
    id: &TaskId,
    claim: &Claim,
) -> Result<Run> {
    refuse_archived(tx).await?;
    let state = TaskState::find(tx, id).await?;
    let dispatched = matches!(by, Authority::Dispatcher(_));
    let profile =
        claim.profile.clone().or_else(|| next_profile(&state.task).filter(|_| dispatched));
    let change = machine::claim(&state.task, state.facts(by), claim.role, profile.as_ref())?;
    refuse_elsewhere(&state.task, claim)?;
    refuse_busy(tx, &state.task, claim).await?;
    let now = tx.now();
    let mut run = Run {
        id: RunId::new(0),
        task_id: id.clone(),
        profile,
        role: claim.role,
        owner: owner(by),
        host: claim.host.clone(),
        process: None,
        started_at: now,
        expires_at: now.after(claim.lease),
        heartbeat_at: None,
        activity_at: None,
        note: None,
        graced: false,
        max_runtime: state.task.max_runtime,
        stopping: None,
        ended_at: None,
        outcome: None,
        summary: None,
        metadata: None,
        error: None,
        gone: claim.host.is_none(),
        workspace: None,
        session_id: None,
    };
    run.id = tx.insert_run(&run).await?;
    let mut change = change;
    change.task.current_run = Some(run.id);
    change.events.push((
        Kind::Claimed,
        json!({
            "lock": run.owner,
            "expires": run.expires_at,
            "run_id": run.id,
            "source_status": state.task.status,
            "profile": run.profile.as_ref().map(ProfileName::as_str),
            "host": claim.host.as_ref().map(|host| &host.name),
        }),
    ));
    state.apply(tx, by, change).await?;
    Ok(run)
}

/// Returns who holds a run, in words.
fn owner(by: &Authority) -> String {
    match by {
        Authority::Dispatcher(host) => format!("dispatcher on {host}"),
        Authority::Person(_) | Authority::Worker(_) => by.name().to_owned(),
    }
}

fn next_profile(task: &Task) -> Option<ProfileName> {
    if task.status == Status::Review { task.reviewer.clone() } else { task.assignee.clone() }
}

/// Only the host that has a task's directory can work in it.
fn refuse_elsewhere(task: &Task, claim: &Claim) -> Result<()> {
    match (&task.workspace_host, &claim.host) {
        (Some(has), Some(host)) if *has != host.name => {
            Err(BoardRefusal::OtherHost { verb: "claim", task: task.id.clone(), host: has.clone() }
                .into())
        }
        _ => Ok(()),
    }
}

/// Returns the directory that a task must have for itself while it is worked
/// on. A working tree of a repository is made for each task.
pub fn exclusive_directory(task: &Task) -> Option<&std::path::Path> {
    match &task.workspace {
        TaskWorkspace::Dir { path } => Some(path),
        TaskWorkspace::Scratch | TaskWorkspace::Worktree { .. } => None,
    }
}

/// A directory is worked in by one task at a time, with all that is below it,
/// and a task by one worker of a host: the one before has to be gone.
async fn refuse_busy(tx: &mut dyn Write, task: &Task, claim: &Claim) -> Result<()> {
    let Some(host) = &claim.host else { return Ok(()) };
    let directory = exclusive_directory(task);
    for run in tx.live_runs().await? {
        if run.task_id == task.id {
            if run.host.as_ref() == Some(host) && !run.gone {
                let (run, owner) = (run.id, run.owner);
                let task = task.id.clone();
                return Err(BoardRefusal::Held { verb: "claim", task, run, owner }.into());
            }
            continue;
        }
        let Some(directory) = directory.filter(|_| run.host_name() == Some(&host.name)) else {
            continue;
        };
        let other = tx.task(&run.task_id).await?;
        let used = other.as_ref().and_then(exclusive_directory);
        if used.is_some_and(|used| used.starts_with(directory) || directory.starts_with(used)) {
            return Err(BoardRefusal::WorkspaceBusy {
                verb: "claim",
                task: task.id.clone(),
                by: run.task_id,
                path: directory.display().to_string(),
            }
            .into());
        }
    }
    Ok(())
}

async fn run(tx: &mut dyn Write, id: RunId) -> Result<Run> {
    let run = tx.run(id).await?;
    run.ok_or_else(|| Error::Invalid {
        what: format!("run {id}"),
        reason: "does not exist".to_owned(),
    })
}

/// Ends a run. Its task is tried again after a while, or given up. A run that
/// has ended stays as it is.
#[boxed]
pub async fn end_run_in(
    tx: &mut dyn Write,
    id: RunId,
    end: &RunEnd,
    policy: &FailurePolicy,
) -> Result<Moved> {
    refuse_success(end.outcome)?;
    let run = run(tx, id).await?;
    let end = as_intended(&run, end);
    let counted = policy.limit(&run, end.outcome).is_some();
    end_in(tx, run, &end, policy, counted).await
}

/// Returns how a run ends whose worker reports that it was asked to end: if it is
/// being stopped, then for the reason that it is stopped for. The worker and
/// the process that stops it both record that, and either may be the first.
fn as_intended(run: &Run, end: &RunEnd) -> RunEnd {
    match run.stopping.filter(|_| end.outcome == Outcome::Terminated) {
        Some(outcome) => {
            let error = run.error.clone().unwrap_or_else(|| end.error.clone());
            RunEnd { outcome, error, exit_code: end.exit_code }
        }
        None => end.clone(),
    }
}

/// Takes back the claim of a run whose worker was not started. It is as if it had
/// not been made.
#[boxed]
pub async fn give_back_in(tx: &mut dyn Write, id: RunId, reason: &str) -> Result<Moved> {
    let run = run(tx, id).await?;
    let (outcome, error) = (Outcome::Reclaimed, reason.to_owned());
    let end = RunEnd { outcome, error, exit_code: None };
    end_in(tx, run, &end, &FailurePolicy::default(), false).await
}

async fn end_in(
    tx: &mut dyn Write,
    run: Run,
    end: &RunEnd,
    policy: &FailurePolicy,
    counted: bool,
) -> Result<Moved> {
    let task = find(tx, &run.task_id).await?;
    if !run.is_open() || task.current_run != Some(run.id) {
        return Ok(Moved { task, ended: None, promoted: Vec::new() });
    }
    let failures = if counted {
        Some(tx.count_failure(&task.id, end.outcome, &end.error).await?)
    } else {
        None
    };
    let by = Authority::Dispatcher(
        run.host_name().cloned().unwrap_or_else(crate::HostName::of_this_machine),
    );
    let state = TaskState::of(tx, task).await?;
    let failed = FailedRun {
        run: &run,
        outcome: end.outcome,
        error: &end.error,
        exit_code: end.exit_code,
        failures,
    };
    let change = machine::end_run(&state.task, state.facts(&by), &failed, policy);
    state.apply(tx, &by, change).await
}

fn refuse_success(outcome: Outcome) -> Result<()> {
    match outcome {
        Outcome::Crashed
        | Outcome::TimedOut
        | Outcome::SpawnFailed
        | Outcome::Stale
        | Outcome::Reclaimed
        | Outcome::RateLimited
        | Outcome::NoReport
        | Outcome::Terminated => Ok(()),
        Outcome::Completed
        | Outcome::Submitted
        | Outcome::ChangesRequested
        | Outcome::Blocked
        | Outcome::Scheduled => Err(Error::Invalid {
            what: format!("the outcome {outcome}"),
            reason: "has a verb of its own".to_owned(),
        }),
    }
}

/// Lets a task go on whose moment has come. Returns nothing where it has not,
/// or where it waits for a person.
#[boxed]
pub async fn wake_in(tx: &mut dyn Write, by: &Authority, id: &TaskId) -> Result<Option<Moved>> {
    let Some(task) = tx.task(id).await? else { return Ok(None) };
    let state = TaskState::of(tx, task).await?;
    match machine::wake(&state.task, state.facts(by)) {
        Some(change) => state.apply(tx, by, change).await.map(Some),
        None => Ok(None),
    }
}

/// Assigns a ready, unassigned task to the default assignee. Returns nothing if it is
/// no longer one.
#[boxed]
pub async fn assign_default_in(
    tx: &mut dyn Write,
    by: &Authority,
    id: &TaskId,
    to: &ProfileName,
) -> Result<Option<Task>> {
    let Some(task) = tx.task(id).await? else { return Ok(None) };
    if task.status != Status::Ready || task.assignee.is_some() {
        return Ok(None);
    }
    let state = TaskState::of(tx, task).await?;
    let facts = state.facts(by);
    let change = machine::assign(&state.task, facts, Some(to), Some(DEFAULT_ASSIGNEE))?;
    state.apply(tx, by, change).await.map(|moved| Some(moved.task))
}

/// Extends a lease that ran out, because its worker lives. That is done once
/// between two renewals; reports whether it was.
#[boxed]
pub async fn extend_in(tx: &mut dyn Write, id: RunId, lease: Duration) -> Result<bool> {
    let mut run = run(tx, id).await?;
    let now = tx.now();
    if !run.is_open() || run.graced || run.expires_at > now {
        return Ok(false);
    }
    let was = run.expires_at;
    run.graced = true;
    run.expires_at = now.after(lease);
    tx.update_run(&run).await?;
    let payload = json!({
        "reason": "worker_alive",
        "worker_pid": run.process.as_ref().map(|process| process.pid),
        "claim_lock": run.owner,
        "claim_expires_was": was,
        "claim_expires_now": run.expires_at,
        "last_heartbeat_at": run.heartbeat_at,
    });
    record(tx, &run.task_id, Some(run.id), Kind::ClaimExtended, payload).await?;
    Ok(true)
}

/// Writes down that a run's worker is being stopped, and how the run ends then.
/// Reports whether the run had not ended.
#[boxed]
pub async fn stop_in(
    tx: &mut dyn Write,
    id: RunId,
    outcome: Outcome,
    reason: &str,
) -> Result<bool> {
    refuse_success(outcome)?;
    let mut run = run(tx, id).await?;
    if !run.is_open() {
        return Ok(false);
    }
    if run.stopping != Some(outcome) {
        run.stopping = Some(outcome);
        run.error = Some(reason.to_owned());
        tx.update_run(&run).await?;
    }
    Ok(true)
}

/// Leaves a task with a worker that could not be stopped: another one beside it
/// would do the same work twice. It is reported once.
#[boxed]
pub async fn defer_in(tx: &mut dyn Write, id: RunId, hold: Duration) -> Result<bool> {
    let mut run = run(tx, id).await?;
    if !run.is_open() {
        return Ok(false);
    }
    let is_reported = run.error.as_deref() == Some(UNSTOPPABLE);
    run.expires_at = tx.now().after(hold);
    run.error = Some(UNSTOPPABLE.to_owned());
    tx.update_run(&run).await?;
    if !is_reported {
        let payload = json!({
            "reason": UNSTOPPABLE,
            "claim_lock": run.owner,
            "claim_expires_now": run.expires_at,
            "prev_pid": run.process.as_ref().map(|process| process.pid),
        });
        record(tx, &run.task_id, Some(run.id), Kind::ReclaimDeferred, payload).await?;
    }
    Ok(!is_reported)
}

/// Writes down that nothing is left of a run's worker. A run that is forgotten
/// has nothing left, either.
#[boxed]
pub async fn gone_in(tx: &mut dyn Write, id: RunId) -> Result<()> {
    if let Some(mut run) = tx.run(id).await?.filter(|run| !run.gone) {
        run.gone = true;
        tx.update_run(&run).await?;
    }
    Ok(())
}
