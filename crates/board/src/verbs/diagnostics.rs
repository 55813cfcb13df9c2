//! What may be wrong with a board.

use std::collections::BTreeSet;
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use serde::Serialize;

use crate::id::TaskId;
use crate::run::{Outcome, Run};
use crate::store::{Lane, Read, TaskQuery};
use crate::task::{BlockKind, Status, Task, words};
use crate::time::Time;
use crate::{Board, Result};

/// Lanes that are looked at, and tasks of each.
const LANES: usize = 200;
const HEADS: u32 = 3;

/// How long a dispatcher may take to notice that a lease ran out.
const UNNOTICED: Duration = Duration::from_mins(2);

/// From when on something is worth a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thresholds {
    /// Failures of a task for one cause.
    pub failures: u32,
    /// Crashes of a task.
    pub crashes: u32,
    /// How long a task is blocked.
    pub blocked: Duration,
    /// How long a task waits for a worker.
    pub stranded: Duration,
    /// How often a task is blocked…
    pub block_cycles: u32,
    /// … within this time.
    pub block_cycle_window: Duration,
    /// The profiles there are; none: not known here.
    pub profiles: Option<BTreeSet<String>>,
    /// Findings of each rule, at most.
    pub limit: u32,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self {
            failures: 2,
            crashes: 2,
            blocked: Duration::from_hours(24),
            stranded: Duration::from_mins(30),
            block_cycles: 3,
            block_cycle_window: Duration::from_hours(24),
            profiles: None,
            limit: 100,
        }
    }
}

words! {
    /// How bad something is.
    Severity: "severity" {
        /// Worth a look.
        Warning = "warning",
        /// Somebody has to do something.
        Error = "error",
        /// Somebody has to do something now.
        Critical = "critical",
    }
}

words! {
    /// What may be wrong.
    Rule: "rule" {
        /// A task fails again and again.
        RepeatedFailures = "repeated_failures",
        /// A task's workers die again and again.
        RepeatedCrashes = "repeated_crashes",
        /// A task has been blocked for long.
        StuckInBlocked = "stuck_in_blocked",
        /// A task is blocked and unblocked again and again.
        BlockUnblockCycling = "block_unblock_cycling",
        /// A task could be worked on, and nobody does.
        StrandedInReady = "stranded_in_ready",
        /// A task waits for a person.
        NeedsAttention = "needs_attention",
        /// A task is held by a worker that does not renew its lease, and nobody takes it back.
        LeaseRanOut = "lease_ran_out",
    }
}

/// Something that may be wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TaskFinding {
    /// What.
    pub kind: Rule,
    /// How bad it is.
    pub severity: Severity,
    /// With which task.
    pub task_id: TaskId,
    /// What that is about.
    pub title: String,
    /// In words.
    pub message: String,
    /// Since when.
    pub since: Option<Time>,
    /// Commands that may help.
    pub suggestions: Vec<String>,
}

impl Board {
    /// Returns what may be wrong, the worst first. What it reads is bounded,
    /// however large the board.
    #[boxed]
    pub async fn diagnostics(&self, thresholds: &Thresholds) -> Result<Vec<TaskFinding>> {
        let mut tx = self.read().await?;
        let mut findings = Vec::new();
        failing(&mut *tx, thresholds, &mut findings).await?;
        blocked(&mut *tx, thresholds, &mut findings).await?;
        cycling(&mut *tx, thresholds, &mut findings).await?;
        stranded(&mut *tx, thresholds, &mut findings).await?;
        waiting(&mut *tx, thresholds, &mut findings).await?;
        abandoned(&mut *tx, thresholds, &mut findings).await?;
        findings.sort_by(|a, b| {
            (b.severity, a.kind, &a.task_id).cmp(&(a.severity, b.kind, &b.task_id))
        });
        Ok(findings)
    }
}

fn finding(task: &Task, kind: Rule, severity: Severity, message: String) -> TaskFinding {
    TaskFinding {
        kind,
        severity,
        task_id: task.id.clone(),
        title: task.title.clone(),
        message,
        since: None,
        suggestions: vec![format!("vestal kanban show {}", task.id)],
    }
}

/// The longer something lasts, the worse it is.
fn severity_by_duration(lasted: Duration, threshold: Duration) -> Severity {
    if lasted >= threshold.saturating_mul(6) {
        Severity::Critical
    } else if lasted >= threshold.saturating_mul(2) {
        Severity::Error
    } else {
        Severity::Warning
    }
}

type Tx<'a> = dyn Read + 'a;

async fn failing(
    tx: &mut Tx<'_>,
    thresholds: &Thresholds,
    findings: &mut Vec<TaskFinding>,
) -> Result<()> {
    let least = thresholds.failures.min(thresholds.crashes).max(1);
    for (id, failure) in tx.failing(least, thresholds.limit).await? {
        let (rule, threshold) = if failure.cause == Outcome::Crashed {
            (Rule::RepeatedCrashes, thresholds.crashes)
        } else {
            (Rule::RepeatedFailures, thresholds.failures)
        };
        let Some(task) = tx.task(&id).await?.filter(|_| failure.count >= threshold) else {
            continue;
        };
        let given_up = task.block_kind == Some(BlockKind::GaveUp) && task.gate;
        let severity = if given_up { Severity::Critical } else { Severity::Error };
        let message =
            format!("{} × {}, last: {}", failure.count, failure.cause, short(&failure.error));
        let mut found = finding(&task, rule, severity, message);
        found.since = Some(failure.at);
        found.suggestions.push(format!("vestal kanban log {id}"));
        found.suggestions.push(if given_up {
            format!("vestal kanban unblock {id}")
        } else {
            format!("vestal kanban assign {id} PROFILE")
        });
        findings.push(found);
    }
    Ok(())
}

async fn blocked(
    tx: &mut Tx<'_>,
    thresholds: &Thresholds,
    findings: &mut Vec<TaskFinding>,
) -> Result<()> {
    let now = tx.now();
    let lasted = i64::try_from(thresholds.blocked.as_millis()).unwrap_or(i64::MAX);
    let moment = Time::from_millis(now.millis().saturating_sub(lasted));
    for task in tx.blocked_before(moment, thresholds.limit).await? {
        let since = task.updated_at;
        let severity = severity_by_duration(since.until(now), thresholds.blocked);
        let reason = task.block_reason.as_deref().unwrap_or("no reason was given");
        let message = format!("blocked for {}: {}", hours(since.until(now)), short(reason));
        let mut found = finding(&task, Rule::StuckInBlocked, severity, message);
        found.since = Some(since);
        found.suggestions.push(format!("vestal kanban unblock {}", task.id));
        found.suggestions.push(format!("vestal kanban archive {}", task.id));
        findings.push(found);
    }
    Ok(())
}

async fn cycling(
    tx: &mut Tx<'_>,
    thresholds: &Thresholds,
    findings: &mut Vec<TaskFinding>,
) -> Result<()> {
    let window = i64::try_from(thresholds.block_cycle_window.as_millis()).unwrap_or(i64::MAX);
    let since = Time::from_millis(tx.now().millis().saturating_sub(window));
    for (id, times) in
        tx.blocked_repeatedly(since, thresholds.block_cycles, thresholds.limit).await?
    {
        let Some(task) = tx.task(&id).await? else { continue };
        if task.status.satisfies_children() {
            continue;
        }
        let window = hours(thresholds.block_cycle_window);
        let message = format!("blocked {times} times within {window}");
        let mut found = finding(&task, Rule::BlockUnblockCycling, Severity::Error, message);
        found.since = Some(since);
        found.suggestions.push(format!("vestal kanban edit {id} --body …"));
        found.suggestions.push(format!("vestal kanban comment {id} …"));
        findings.push(found);
    }
    Ok(())
}

async fn stranded(
    tx: &mut Tx<'_>,
    thresholds: &Thresholds,
    findings: &mut Vec<TaskFinding>,
) -> Result<()> {
    let now = tx.now();
    let lanes = tx.lanes().await?;
    for lane in lanes.iter().filter(|lane| lane.queued > 0).take(LANES) {
        for task in tx.queue(&lane.key, HEADS).await? {
            let since = task.queued_at.unwrap_or(task.created_at);
            let waited = since.until(now);
            // Waiting does not help a task whose profile does not exist.
            if waited < thresholds.stranded && !is_of_missing_profile(lane, thresholds) {
                continue;
            }
            let Some((why, help)) = stranded_reason(lane, thresholds, &task.id) else { continue };
            let severity = severity_by_duration(waited, thresholds.stranded);
            let message = format!("waits for a worker for {}: {why}", hours(waited));
            let mut found = finding(&task, Rule::StrandedInReady, severity, message);
            found.since = Some(since);
            found.suggestions.push(help);
            findings.push(found);
        }
    }
    Ok(())
}

/// Reports whether the tasks of a lane are assigned to a profile that is known not to exist.
fn is_of_missing_profile(lane: &Lane, thresholds: &Thresholds) -> bool {
    let profile = lane.key.profile.as_str();
    let is_missing = |profiles: &BTreeSet<String>| !profiles.contains(profile);
    !profile.is_empty() && thresholds.profiles.as_ref().is_some_and(is_missing)
}

/// Returns why nobody takes tasks of a lane and what helps, unless it is only
/// that others are before them.
fn stranded_reason(lane: &Lane, thresholds: &Thresholds, id: &TaskId) -> Option<(String, String)> {
    let profile = lane.key.profile.as_str();
    let assign = format!("vestal kanban assign {id} PROFILE");
    if profile.is_empty() {
        return Some(("it has no assignee".to_owned(), assign));
    }
    if is_of_missing_profile(lane, thresholds) {
        return Some((format!("there is no profile {profile}"), assign));
    }
    let running = lane.running > 0;
    (!running).then(|| {
        ("is a dispatcher running?".to_owned(), "vestal kanban dispatch --dry-run".to_owned())
    })
}

async fn waiting(
    tx: &mut Tx<'_>,
    thresholds: &Thresholds,
    findings: &mut Vec<TaskFinding>,
) -> Result<()> {
    let query =
        TaskQuery { needs_attention: true, limit: Some(thresholds.limit), ..TaskQuery::default() };
    for task in tx.list(&query).await? {
        let Some(why) = &task.attention else { continue };
        let decide = task.status == Status::Triage || task.block_kind == Some(BlockKind::GaveUp);
        let severity = if decide { Severity::Error } else { Severity::Warning };
        let mut found = finding(&task, Rule::NeedsAttention, severity, short(why));
        found.since = Some(task.updated_at);
        found.suggestions.push(match task.status {
            Status::Review => format!("vestal kanban complete {}", task.id),
            _ => format!("vestal kanban unblock {}", task.id),
        });
        findings.push(found);
    }
    Ok(())
}

/// Tasks whose worker is gone and whose board nobody looks after.
async fn abandoned(
    tx: &mut Tx<'_>,
    thresholds: &Thresholds,
    findings: &mut Vec<TaskFinding>,
) -> Result<()> {
    let now = tx.now();
    let open = tx.live_runs().await?.into_iter().filter(Run::is_open);
    let limit = usize::try_from(thresholds.limit).unwrap_or(usize::MAX);
    for run in open.filter(|run| run.expires_at.after(UNNOTICED) <= now).take(limit) {
        let Some(task) = tx.task(&run.task_id).await? else { continue };
        let ago = hours(run.expires_at.until(now));
        let message =
            format!("the lease of {} ran out {ago} ago: is a dispatcher running?", run.owner);
        let mut found = finding(&task, Rule::LeaseRanOut, Severity::Error, message);
        found.since = Some(run.expires_at);
        found.suggestions.push("vestal kanban dispatch".to_owned());
        findings.push(found);
    }
    Ok(())
}

fn short(text: &str) -> String {
    super::machine::headline(text)
}

fn hours(duration: Duration) -> String {
    super::context::span(duration)
}
