//! The decision.

use std::collections::{BTreeMap, BTreeSet};

use vestal_config::ProfileName;

use super::draft::{PlanDraft, QueueHold};
use super::policy::DispatchPolicy;
use super::repair::Repair;
use super::result::{Bucket, Capped, CappedBy, DispatchResult, Guarded, Spawned};
use super::slots::{Queue, ReachedCap, StartCandidate};
use super::snapshot::BoardSnapshot;
use crate::id::TaskId;
use crate::run::{Outcome, Role};
use crate::task::Status;

/// What is to be done, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DispatchPlan {
    /// Runs to be mended.
    pub repairs: Vec<Repair>,
    /// Tasks whose moment has come.
    pub wakes: Vec<TaskId>,
    /// Tasks that the default assignee gets.
    pub assigns: Vec<TaskId>,
    /// Workers to be started.
    pub starts: Vec<WorkerStart>,
    /// Profiles that tasks wait for, or that the default assignee names, and
    /// that do not exist: worth saying once.
    pub unknown_profiles: Vec<String>,
    /// The same in the words of the result, as if all of it went well.
    pub result: DispatchResult,
}

/// A worker to be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerStart {
    /// The task.
    pub task: TaskId,
    /// The profile.
    pub profile: ProfileName,
    /// What for.
    pub role: Role,
}

/// Decides what to do. The same snapshot and policy give the same plan.
pub fn plan(snapshot: &BoardSnapshot, policy: &DispatchPolicy) -> DispatchPlan {
    finish(PlanDraft::new(snapshot, policy), snapshot, policy)
}

/// Decides what to do about several boards that share the slots of this host:
/// a slot goes to the board with the fewest workers. The load of the other boards is in
/// [`BoardSnapshot::outside`] of each snapshot.
pub fn plan_together(snapshots: &[&BoardSnapshot], policy: &DispatchPolicy) -> Vec<DispatchPlan> {
    let drafts = PlanDraft::together(snapshots, policy);
    drafts
        .into_iter()
        .zip(snapshots)
        .map(|(draft, snapshot)| finish(draft, snapshot, policy))
        .collect()
}

/// Puts a decision into words.
fn finish(draft: PlanDraft<'_>, snapshot: &BoardSnapshot, policy: &DispatchPolicy) -> DispatchPlan {
    let mut result = DispatchResult { promoted: count(draft.woken.len()), ..Default::default() };
    report_repaired(&draft, policy, &mut result);
    report_guarded(&draft, snapshot, policy, &mut result);
    for candidate in &draft.assigned {
        result.auto_assigned_default.add(candidate.id.clone(), policy.shown);
    }
    let mut starts = Vec::new();
    for chosen in &draft.chosen {
        // The name of a lane is that of a profile that exists, so it is one.
        let Ok(profile) = ProfileName::new(&chosen.lane.profile) else { continue };
        let spawned = Spawned {
            task_id: chosen.candidate.id.clone(),
            assignee: profile.as_str().to_owned(),
            workspace: String::new(),
        };
        result.spawned.add(spawned, policy.shown);
        let (task, role) = (chosen.candidate.id.clone(), chosen.candidate.role);
        starts.push(WorkerStart { task, profile, role });
    }
    for (why, left) in left(&draft) {
        left.report(why, policy, &mut result);
    }
    DispatchPlan {
        repairs: draft.mended.into_iter().map(|mended| mended.repair).collect(),
        wakes: draft.woken,
        assigns: draft.assigned.into_iter().map(|candidate| candidate.id).collect(),
        starts,
        unknown_profiles: draft.unknown_profiles.into_iter().collect(),
        result,
    }
}

fn report_repaired(draft: &PlanDraft<'_>, policy: &DispatchPolicy, result: &mut DispatchResult) {
    for mended in &draft.mended {
        let Some(outcome) = mended.outcome() else { continue };
        let task = &mended.watched.run.task_id;
        match outcome {
            Outcome::Reclaimed => result.reclaimed += 1,
            Outcome::Crashed => result.crashed.add(task.clone(), policy.shown),
            Outcome::NoReport => result.no_report.add(task.clone(), policy.shown),
            Outcome::TimedOut => result.timed_out.add(task.clone(), policy.shown),
            Outcome::Stale => result.stale.add(task.clone(), policy.shown),
            Outcome::RateLimited => result.rate_limited.add(task.clone(), policy.shown),
            Outcome::Completed
            | Outcome::Submitted
            | Outcome::ChangesRequested
            | Outcome::Blocked
            | Outcome::Scheduled
            | Outcome::SpawnFailed
            | Outcome::Terminated => {}
        }
        if mended.after.as_ref().is_some_and(|after| after.status == Status::Blocked) {
            result.auto_blocked.add(task.clone(), policy.shown);
        }
    }
}

fn report_guarded(
    draft: &PlanDraft<'_>,
    snapshot: &BoardSnapshot,
    policy: &DispatchPolicy,
    result: &mut DispatchResult,
) {
    let woken: BTreeSet<&TaskId> = draft.woken.iter().collect();
    let guarded = snapshot.guarded.iter().filter(|task| !woken.contains(&task.id));
    result.respawn_guarded.entries = guarded
        .filter_map(|task| {
            let reason = task.guard.clone().unwrap_or_default();
            Some(Guarded { task_id: task.id.clone(), reason, until: task.wake_at? })
        })
        .take(policy.shown.limit())
        .collect();
    let all: u64 = snapshot.lanes.iter().map(|lane| lane.guarded).sum();
    let known = count(result.respawn_guarded.entries.len());
    result.respawn_guarded.count = all.saturating_sub(draft.unguarded).max(known);
}

/// Why tasks are left in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum HoldReason {
    Aside(QueueHold),
    ProfileCapped,
    Capped,
    Busy,
}

/// Tasks that are left in the queue for one reason.
#[derive(Debug, Default)]
pub(super) struct WaitingGroup<'a> {
    /// How many there are.
    pub(super) count: u64,
    /// Those that are known.
    pub(super) known: Vec<WaitingTask<'a>>,
    /// The queues they are in, as far as more may be known of them.
    pub(super) queues: Vec<&'a Queue>,
}

/// A task that is left in the queue.
#[derive(Debug)]
pub(super) struct WaitingTask<'a> {
    pub(super) candidate: &'a StartCandidate,
    profile: &'a str,
    by: Option<CappedBy>,
    current: u64,
}

/// Returns all tasks that are left in the queues, by reason, each in the order
/// in which they wait.
pub(super) fn left<'a>(draft: &'a PlanDraft<'_>) -> BTreeMap<HoldReason, WaitingGroup<'a>> {
    let mut left: BTreeMap<HoldReason, WaitingGroup<'a>> = BTreeMap::new();
    for (aside, queue) in &draft.aside {
        left.entry(HoldReason::Aside(*aside)).or_default().add_rest(queue, None, 0);
    }
    for queue in &draft.queues {
        let limit = draft.load.limit(&queue.key);
        let (why, by, current) = match limit {
            Some((ReachedCap::Profile, current)) => (HoldReason::ProfileCapped, None, current),
            Some((ReachedCap::Other(by), current)) => (HoldReason::Capped, Some(by), current),
            None => (HoldReason::Busy, None, 0),
        };
        if !queue.busy.is_empty() {
            left.entry(HoldReason::Busy).or_default().add_busy(queue);
        }
        if queue.rest() > 0 {
            left.entry(why).or_default().add_rest(queue, by, current);
        }
    }
    for left in left.values_mut() {
        left.known.sort_by_key(|waiting| waiting.candidate.position());
    }
    left
}

impl<'a> WaitingGroup<'a> {
    fn add_rest(&mut self, queue: &'a Queue, by: Option<CappedBy>, current: u64) {
        self.count += queue.rest();
        self.queues.push(queue);
        self.add(queue, queue.heads.iter().skip(queue.seen), by, current);
    }

    fn add_busy(&mut self, queue: &'a Queue) {
        self.count += count(queue.busy.len());
        self.add(queue, queue.busy.iter(), None, 0);
    }

    fn add(
        &mut self,
        queue: &'a Queue,
        candidates: impl Iterator<Item = &'a StartCandidate>,
        by: Option<CappedBy>,
        current: u64,
    ) {
        let profile = queue.key.profile.as_str();
        self.known.extend(candidates.map(|candidate| WaitingTask {
            candidate,
            profile,
            by,
            current,
        }));
    }

    fn report(&self, why: HoldReason, policy: &DispatchPolicy, result: &mut DispatchResult) {
        let limit = policy.shown.limit();
        let known = || self.known.iter().take(limit);
        let names = || Bucket {
            count: self.count,
            entries: known().map(|waiting| waiting.candidate.id.clone()).collect(),
        };
        match why {
            HoldReason::Aside(QueueHold::Unassigned) => result.skipped_unassigned = names(),
            HoldReason::Aside(QueueHold::Nonspawnable) => result.skipped_nonspawnable = names(),
            HoldReason::Aside(QueueHold::OtherHost) => result.skipped_other_host = names(),
            HoldReason::Busy => result.skipped_workspace_busy = names(),
            HoldReason::ProfileCapped => {
                let entry = |waiting: &WaitingTask<'_>| {
                    (waiting.candidate.id.clone(), waiting.profile.to_owned(), waiting.current)
                };
                result.skipped_per_profile_capped =
                    Bucket { count: self.count, entries: known().map(entry).collect() };
            }
            HoldReason::Capped => {
                let entry = |waiting: &WaitingTask<'_>| {
                    Some(Capped {
                        task_id: waiting.candidate.id.clone(),
                        assignee: waiting.profile.to_owned(),
                        by: waiting.by?,
                        current: waiting.current,
                    })
                };
                result.skipped_capped =
                    Bucket { count: self.count, entries: known().filter_map(entry).collect() };
            }
        }
    }
}

fn count(entries: usize) -> u64 {
    u64::try_from(entries).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "plan_properties_tests.rs"]
mod properties;
