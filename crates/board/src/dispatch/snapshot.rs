//! A snapshot of a board, taken for a plan.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::draft::PlanDraft;
use super::plan::left;
use super::policy::DispatchPolicy;
use crate::Result;
use crate::id::TaskId;
use crate::run::Run;
use crate::store::{Lane, Read};
use crate::task::{FailureCount, LaneKey, Status, Task};
use crate::time::Time;
use crate::verbs::transition::was_reviewing;

/// The board at one moment, as far as a plan needs it: live runs, due tasks and the heads of the queues.
/// Its size depends on slots and lanes, not on the number of tasks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoardSnapshot {
    /// The moment, by the store's clock.
    pub now: Time,
    /// How much is in each lane.
    pub lanes: Vec<Lane>,
    /// The first tasks of each lane, in the order of the queue.
    pub heads: BTreeMap<LaneKey, Vec<Task>>,
    /// Tasks that are due.
    pub due: Vec<Task>,
    /// Tasks whose retry is delayed.
    pub guarded: Vec<Task>,
    /// Runs that have not ended, or whose worker may not be gone.
    pub runs: Vec<WatchedRun>,
    /// The due tasks that were in review when they stopped.
    pub reviewing: BTreeSet<TaskId>,
    /// Directories of this host that tasks of other boards use.
    pub busy_elsewhere: BTreeSet<PathBuf>,
    /// The load of other boards.
    pub outside: OutsideLoad,
    /// The existing profiles.
    pub profiles: BTreeSet<String>,
}

/// A run, and whether its worker is alive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchedRun {
    /// The run.
    pub run: Run,
    /// The task, if it still exists.
    pub task: Option<Task>,
    /// How often the task failed so far, if that matters.
    pub failures: Vec<FailureCount>,
    /// Whether its worker is alive.
    pub life: Liveness,
}

/// Whether a worker is alive, as far as this host can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Liveness {
    /// It has not been started, or its start is not recorded.
    Unknown,
    /// It is alive on this host.
    Alive,
    /// It was on this host and is gone.
    Gone {
        /// Its exit code, if this process is its parent; 128 plus the signal if one killed it.
        code: Option<i32>,
    },
    /// It is on another host.
    Foreign,
    /// There is none: a person claimed the task.
    Person,
}

/// The load of other boards.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OutsideLoad {
    /// Running tasks of other boards.
    pub running: u64,
    /// Those of them on this host.
    pub running_here: u64,
}

/// Tasks that are woken by one plan; the rest by the next, which follows at once.
const WAKES: u32 = 1_000;
/// How far into a lane a plan looks for a task whose directory is free. Those
/// behind are looked at when some of the first are done.
const DEPTH: u64 = 2_000;
/// How often a lane is read further. Each time at least doubles what is known
/// of it, so this many are never needed.
const ROUNDS: usize = 64;

/// What a plan needs beyond the board.
pub struct DispatchView<'a> {
    /// The existing profiles.
    pub profiles: BTreeSet<String>,
    /// The load of other boards.
    pub outside: OutsideLoad,
    /// Directories of this host that tasks of other boards use.
    pub busy_elsewhere: BTreeSet<PathBuf>,
    /// Returns whether a run's worker is alive.
    pub life: &'a (dyn Fn(&Run) -> Liveness + Send + Sync),
}

impl std::fmt::Debug for DispatchView<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DispatchView").field("outside", &self.outside).finish_non_exhaustive()
    }
}

impl BoardSnapshot {
    /// Reads what a plan needs: all that continues, and of each queue as much as
    /// could be started and is to be shown.
    pub async fn take(
        read: &mut dyn Read,
        policy: &DispatchPolicy,
        view: DispatchView<'_>,
    ) -> Result<Self> {
        let mut snapshot = Self {
            now: read.now(),
            lanes: read.lanes().await?,
            heads: BTreeMap::new(),
            due: read.due(WAKES).await?,
            guarded: Vec::new(),
            runs: Vec::new(),
            reviewing: BTreeSet::new(),
            busy_elsewhere: view.busy_elsewhere,
            outside: view.outside,
            profiles: view.profiles,
        };
        snapshot.watch(read, policy, view.life).await?;
        snapshot.look_at_due(read).await?;
        snapshot.read_guarded(read, policy).await?;
        for _ in 0..ROUNDS {
            let wanted = snapshot.wanted(policy);
            if wanted.is_empty() {
                break;
            }
            for (lane, limit) in wanted {
                let tasks = read.queue(&lane, limit).await?;
                snapshot.heads.insert(lane, tasks);
            }
        }
        Ok(snapshot)
    }

    async fn watch(
        &mut self,
        read: &mut dyn Read,
        policy: &DispatchPolicy,
        life: &(dyn Fn(&Run) -> Liveness + Send + Sync),
    ) -> Result<()> {
        for run in read.live_runs().await? {
            let task = read.task(&run.task_id).await?;
            let life = life(&run);
            let mut watched = WatchedRun { run, task, failures: Vec::new(), life };
            if super::repair::of(&watched, self.now, policy).is_some() {
                watched.failures = read.failures(&watched.run.task_id).await?;
            }
            self.runs.push(watched);
        }
        Ok(())
    }

    /// Finds out which of the due tasks go on to be looked at.
    async fn look_at_due(&mut self, read: &mut dyn Read) -> Result<()> {
        let stopped = |task: &&Task| {
            task.reviewer.is_some() && matches!(task.status, Status::Blocked | Status::Scheduled)
        };
        for task in self.due.iter().filter(stopped) {
            if read.runs(&task.id, 1).await?.last().is_some_and(was_reviewing) {
                self.reviewing.insert(task.id.clone());
            }
        }
        Ok(())
    }

    async fn read_guarded(&mut self, read: &mut dyn Read, policy: &DispatchPolicy) -> Result<()> {
        if self.lanes.iter().all(|lane| lane.guarded == 0) {
            return Ok(());
        }
        let due = self.due.iter().filter(|task| guard_is_over(task)).count();
        let limit = policy.shown.limit().saturating_add(due);
        self.guarded = read.guarded(u32::try_from(limit).unwrap_or(u32::MAX)).await?;
        Ok(())
    }

    /// Returns the lanes of which more has to be known, and how much: those that
    /// have a slot and no task for it, and those of which too little is known
    /// to show the first of each bucket.
    fn wanted(&self, policy: &DispatchPolicy) -> BTreeMap<LaneKey, u32> {
        let draft = PlanDraft::new(self, policy);
        let mut wanted = BTreeMap::new();
        let mut want = |key: &LaneKey, more: u64| {
            let (known, all) = (self.known(key), self.all(key));
            let limit = known.saturating_add(more.max(known)).min(all);
            if limit > known {
                let limit = u32::try_from(limit).unwrap_or(u32::MAX);
                wanted
                    .entry(key.clone())
                    .and_modify(|had: &mut u32| *had = (*had).max(limit))
                    .or_insert(limit);
            }
        };
        // Most often one look is enough for what is to be started and shown.
        let lanes = u64::try_from(draft.queues.len()).unwrap_or(1).max(1);
        let share = shown(policy).div_ceil(lanes);
        for queue in &draft.queues {
            let starved = queue.is_stuck() && draft.load.limit(&queue.key).is_none();
            if starved && self.known(&queue.key) < DEPTH.max(shown(policy)) {
                let free = draft.load.free(&queue.key).unwrap_or(u64::MAX);
                want(&queue.key, free.saturating_add(share));
            }
        }
        for left in left(&draft).into_values() {
            let limit = shown(policy);
            let known = u64::try_from(left.known.len()).unwrap_or(u64::MAX);
            let open =
                left.queues.iter().filter(|queue| self.known(&queue.key) < self.all(&queue.key));
            let open: Vec<_> = open.collect();
            // The last place that is shown, where as many are known.
            let last = policy.shown.limit().checked_sub(1).and_then(|at| left.known.get(at));
            let missing = limit.min(left.count).saturating_sub(known);
            let each = missing.div_ceil(u64::try_from(open.len()).unwrap_or(1).max(1)).max(1);
            for queue in open {
                let end = queue.heads.last().map(super::slots::StartCandidate::position);
                let may_be_shown =
                    end.is_none() || last.is_none_or(|last| end < Some(last.candidate.position()));
                if limit > 0 && may_be_shown && queue.rest() > 0 {
                    want(&queue.key, each);
                }
            }
        }
        wanted
    }

    /// Returns how many tasks of a lane's queue are known.
    fn known(&self, key: &LaneKey) -> u64 {
        let known = self.heads.get(key).map_or(0, Vec::len);
        u64::try_from(known).unwrap_or(u64::MAX)
    }

    /// Returns how many tasks a lane's queue has.
    fn all(&self, key: &LaneKey) -> u64 {
        self.lanes.iter().find(|lane| lane.key == *key).map_or(0, |lane| lane.queued)
    }
}

fn shown(policy: &DispatchPolicy) -> u64 {
    u64::try_from(policy.shown.limit()).unwrap_or(u64::MAX)
}

fn guard_is_over(task: &Task) -> bool {
    matches!(task.status, Status::Ready | Status::Review)
}
