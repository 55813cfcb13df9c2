//! A decision in the making. [`super::plan()`] puts it into words, and
//! [`BoardSnapshot::take`] looks at it to see which tasks it has to read.

use std::collections::{BTreeMap, BTreeSet};

use super::policy::DispatchPolicy;
use super::repair::{self, Repair};
use super::slots::{self, BusyDirectories, Chosen, Load, Queue, StartCandidate};
use super::snapshot::{BoardSnapshot, WatchedRun};
use crate::id::{Authority, TaskId};
use crate::run::Outcome;
use crate::task::{LaneKey, LaneShare, Status, Task};
use crate::verbs::machine::{self, FailedRun, TaskFacts};
use crate::verbs::steps::exclusive_directory;

/// Why nothing of a queue may be started, whatever the caps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum QueueHold {
    Unassigned,
    Nonspawnable,
    OtherHost,
}

/// A run that is to be mended, and what becomes of its task.
#[derive(Debug)]
pub(super) struct RepairedRun<'a> {
    pub(super) watched: &'a WatchedRun,
    pub(super) repair: Repair,
    /// The task once the run has ended, where it ends.
    pub(super) after: Option<Task>,
}

impl RepairedRun<'_> {
    /// Returns how the run ends, where that is decided here and now.
    pub(super) const fn outcome(&self) -> Option<Outcome> {
        match &self.repair {
            Repair::Stop { .. } if self.watched.run.stopping.is_some() => None,
            Repair::Stop { outcome, .. } | Repair::End { outcome, .. }
                if self.watched.run.is_open() =>
            {
                Some(*outcome)
            }
            Repair::Extend { .. }
            | Repair::Stop { .. }
            | Repair::End { .. }
            | Repair::Gone { .. } => None,
        }
    }
}

/// A decision in the making.
#[derive(Debug)]
pub(super) struct PlanDraft<'a> {
    pub(super) mended: Vec<RepairedRun<'a>>,
    pub(super) woken: Vec<TaskId>,
    /// Those that had a guard, which is over.
    pub(super) unguarded: u64,
    pub(super) assigned: Vec<StartCandidate>,
    /// Tasks that may be started, and their outcome.
    pub(super) queues: Vec<Queue>,
    /// Tasks that may not.
    pub(super) aside: Vec<(QueueHold, Queue)>,
    pub(super) chosen: Vec<Chosen>,
    /// What goes on when all of it is done.
    pub(super) load: Load,
    /// Directories that nobody else may use then.
    pub(super) busy: BusyDirectories,
    pub(super) unknown_profiles: BTreeSet<String>,
}

impl<'a> PlanDraft<'a> {
    /// Decides about one board.
    pub(super) fn new(snapshot: &'a BoardSnapshot, policy: &DispatchPolicy) -> Self {
        let mut draft = Self::begin(snapshot, policy);
        slots::allot(std::slice::from_mut(&mut draft));
        draft
    }

    /// Decides about several boards, which share the slots of this host.
    pub(super) fn together(snapshots: &[&'a BoardSnapshot], policy: &DispatchPolicy) -> Vec<Self> {
        let mut drafts: Vec<Self> =
            snapshots.iter().map(|snapshot| Self::begin(snapshot, policy)).collect();
        slots::allot(&mut drafts);
        drafts
    }

    /// Decides about all but what is started.
    fn begin(snapshot: &'a BoardSnapshot, policy: &DispatchPolicy) -> Self {
        let by = Authority::Dispatcher(policy.host.name.clone());
        let mended = mend(snapshot, policy, &by);
        let mut queues = Queues::of(snapshot, held(snapshot, policy));

        let frees = |mended: &&RepairedRun<'_>| mended.repair.frees();
        for task in mended.iter().filter(frees).filter_map(|mended| mended.after.as_ref()) {
            queues.add(task);
        }
        let (mut woken, mut unguarded) = (Vec::new(), 0);
        for task in &snapshot.due {
            let reviewing = snapshot.reviewing.contains(&task.id);
            let facts = TaskFacts { now: snapshot.now, by: &by, run: None, reviewing };
            let Some(change) = machine::wake(task, facts) else { continue };
            woken.push(task.id.clone());
            unguarded += u64::from(matches!(task.status, Status::Ready | Status::Review));
            queues.add(&change.task);
        }

        let mut unknown_profiles = BTreeSet::new();
        let assigned = match &policy.default_assignee {
            Some(name) if snapshot.profiles.contains(name.as_str()) => {
                queues.assign(name.as_str(), policy)
            }
            Some(name) => {
                unknown_profiles.insert(name.as_str().to_owned());
                Vec::new()
            }
            None => Vec::new(),
        };

        let (mut startable, mut aside) = (Vec::new(), Vec::new());
        for queue in queues.lanes.into_values().filter(|queue| queue.total > 0) {
            let profile = &queue.key.profile;
            if !queue.key.host.is_empty() && queue.key.host != policy.host.name.as_str() {
                aside.push((QueueHold::OtherHost, queue));
            } else if profile.is_empty() {
                aside.push((QueueHold::Unassigned, queue));
            } else if snapshot.profiles.contains(profile) {
                startable.push(queue);
            } else {
                unknown_profiles.insert(profile.clone());
                aside.push((QueueHold::Nonspawnable, queue));
            }
        }

        Self {
            mended,
            woken,
            unguarded,
            assigned,
            queues: startable,
            aside,
            chosen: Vec::new(),
            load: Load::of(snapshot, policy),
            busy: busy(snapshot, policy),
            unknown_profiles,
        }
    }
}

fn mend<'a>(
    snapshot: &'a BoardSnapshot,
    policy: &DispatchPolicy,
    by: &Authority,
) -> Vec<RepairedRun<'a>> {
    let mend = |watched: &'a WatchedRun| {
        let repair = repair::of(watched, snapshot.now, policy)?;
        let after = after(watched, &repair, snapshot, policy, by);
        Some(RepairedRun { watched, repair, after })
    };
    snapshot.runs.iter().filter_map(mend).collect()
}

/// Returns what becomes of the task of a run that ends.
fn after(
    watched: &WatchedRun,
    repair: &Repair,
    snapshot: &BoardSnapshot,
    policy: &DispatchPolicy,
    by: &Authority,
) -> Option<Task> {
    let run = &watched.run;
    let (Repair::Stop { outcome, reason, .. } | Repair::End { outcome, reason, .. }) = repair
    else {
        return None;
    };
    let task = watched.task.as_ref().filter(|task| task.current_run == Some(run.id))?;
    let before = watched.failures.iter().find(|failure| failure.cause == *outcome);
    let failures =
        policy.failures.limit(run, *outcome).map(|_| before.map_or(0, |was| was.count) + 1);
    let facts = TaskFacts { now: snapshot.now, by, run: Some(run), reviewing: false };
    let failed = FailedRun { run, outcome: *outcome, error: reason, exit_code: None, failures };
    Some(machine::end_run(task, facts, &failed, &policy.failures).task)
}

/// Returns the runs that continue, or something of whose worker may, when the
/// repairs are done.
fn going<'a>(
    snapshot: &'a BoardSnapshot,
    policy: &'a DispatchPolicy,
) -> impl Iterator<Item = &'a WatchedRun> {
    snapshot.runs.iter().filter(|watched| repair::takes_slot(watched, snapshot.now, policy))
}

/// Returns the tasks that a worker of this host may still be at: another one
/// beside it would do the same work twice.
fn held(snapshot: &BoardSnapshot, policy: &DispatchPolicy) -> BTreeSet<TaskId> {
    going(snapshot, policy)
        .filter(|watched| watched.run.host.as_ref() == Some(&policy.host))
        .map(|watched| watched.run.task_id.clone())
        .collect()
}

/// Returns the directories that nobody else may use now.
fn busy(snapshot: &BoardSnapshot, policy: &DispatchPolicy) -> BusyDirectories {
    let mut busy = BusyDirectories::default();
    for path in &snapshot.busy_elsewhere {
        busy.take(path);
    }
    for watched in going(snapshot, policy) {
        let here = watched.run.host_name() == Some(&policy.host.name);
        let task = watched.task.as_ref().filter(|_| here);
        if let Some(path) = task.and_then(exclusive_directory) {
            busy.take(path);
        }
    }
    busy
}

/// The queues, by lane.
struct Queues {
    lanes: BTreeMap<LaneKey, Queue>,
    /// Tasks that an earlier worker of this host may still be at.
    held: BTreeSet<TaskId>,
}

impl Queues {
    fn of(snapshot: &BoardSnapshot, held: BTreeSet<TaskId>) -> Self {
        let mut lanes = BTreeMap::new();
        for lane in snapshot.lanes.iter().filter(|lane| lane.queued > 0) {
            let mut queue = Queue::new(lane.key.clone());
            let heads = snapshot.heads.get(&lane.key).into_iter().flatten();
            queue.heads = heads.map(|task| StartCandidate::new(task, &held)).collect();
            queue.total = lane.queued;
            lanes.insert(lane.key.clone(), queue);
        }
        Self { lanes, held }
    }

    /// Adds a task that comes into the queue by the plan itself.
    fn add(&mut self, task: &Task) {
        if let Some((key, LaneShare::Queued)) = task.lane_share() {
            let candidate = StartCandidate::new(task, &self.held);
            self.queue(key).add(vec![candidate]);
        }
    }

    fn queue(&mut self, key: LaneKey) -> &mut Queue {
        self.lanes.entry(key.clone()).or_insert_with(|| Queue::new(key))
    }

    /// Assigns the first unassigned tasks to a profile.
    fn assign(&mut self, profile: &str, policy: &DispatchPolicy) -> Vec<StartCandidate> {
        let here = |key: &LaneKey| {
            key.profile.is_empty() && (key.host.is_empty() || key.host == policy.host.name.as_str())
        };
        let keys: Vec<LaneKey> = self.lanes.keys().filter(|key| here(key)).cloned().collect();
        let mut first: Vec<(StartCandidate, LaneKey)> = Vec::new();
        for key in &keys {
            let queue = self.queue(key.clone());
            first.extend(queue.heads.drain(..).map(|candidate| (candidate, key.clone())));
        }
        first.sort_by_key(|(candidate, _)| candidate.position());
        // Those that come later stay with nobody, each where it was.
        let later = first.split_off(first.len().min(policy.shown.limit()));
        for (candidate, key) in later {
            self.queue(key).heads.push(candidate);
        }
        let mut moved: BTreeMap<LaneKey, Vec<StartCandidate>> = BTreeMap::new();
        for (candidate, key) in &first {
            let queue = self.queue(key.clone());
            queue.total = queue.total.saturating_sub(1);
            let key = LaneKey { profile: profile.to_owned(), ..key.clone() };
            moved.entry(key).or_default().push(candidate.clone());
        }
        for (key, candidates) in moved {
            self.queue(key).add(candidates);
        }
        first.into_iter().map(|(candidate, _)| candidate).collect()
    }
}
