//! Slots: how many runs the caps allow, and which tasks get them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::draft::PlanDraft;
use super::policy::{Caps, DispatchPolicy};
use super::repair;
use super::result::CappedBy;
use super::snapshot::{BoardSnapshot, WatchedRun};
use crate::id::TaskId;
use crate::run::Role;
use crate::task::{LaneKey, Status, Task};
use crate::verbs::steps::exclusive_directory;

/// The cap that holds a task back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReachedCap {
    Profile,
    Other(CappedBy),
}

/// What is going on, and what a plan adds to it. Each run is counted once, for
/// every cap alike, so that no cap is held against what another already is.
#[derive(Debug, Clone)]
pub(super) struct Load {
    caps: Caps,
    global: u64,
    host: u64,
    board: u64,
    profiles: BTreeMap<String, u64>,
    tenants: BTreeMap<String, u64>,
    /// Workers by profile, and by profile and tenant: whose turn it is. What
    /// people claimed counts for the caps, but takes nobody's turn.
    turns: BTreeMap<String, u64>,
    tenant_turns: BTreeMap<(String, String), u64>,
}

impl Load {
    /// Counts what goes on when the repairs are done.
    pub(super) fn of(snapshot: &BoardSnapshot, policy: &DispatchPolicy) -> Self {
        let mut load = Self {
            caps: policy.caps,
            global: snapshot.outside.running,
            host: snapshot.outside.running_here,
            board: 0,
            profiles: BTreeMap::new(),
            tenants: BTreeMap::new(),
            turns: BTreeMap::new(),
            tenant_turns: BTreeMap::new(),
        };
        for watched in &snapshot.runs {
            if repair::takes_slot(watched, snapshot.now, policy) {
                load.count(watched, policy);
            }
        }
        load
    }

    fn count(&mut self, watched: &WatchedRun, policy: &DispatchPolicy) {
        let (run, task) = (&watched.run, watched.task.as_ref());
        // A person who claims a task by hand does the work of the profile that it waits for.
        let waits_for = task.and_then(|task| task.profile_for(run.role));
        let profile = run.profile.as_ref().or(waits_for).map_or("", |name| name.as_str());
        let tenant = task.and_then(|task| task.tenant.as_deref()).unwrap_or_default();
        self.global += 1;
        self.board += 1;
        self.host += u64::from(run.host.as_ref() == Some(&policy.host));
        *self.profiles.entry(profile.to_owned()).or_default() += 1;
        *self.tenants.entry(tenant.to_owned()).or_default() += 1;
        if run.host.is_some() {
            self.take_turn(profile, tenant);
        }
    }

    /// Counts a worker that is to be started.
    pub(super) fn start(&mut self, lane: &LaneKey) {
        self.global += 1;
        self.board += 1;
        self.host += 1;
        *self.profiles.entry(lane.profile.clone()).or_default() += 1;
        *self.tenants.entry(lane.tenant.clone()).or_default() += 1;
        self.take_turn(&lane.profile, &lane.tenant);
    }

    /// Counts a worker that is to be started on another board.
    pub(super) fn start_elsewhere(&mut self) {
        self.global += 1;
        self.host += 1;
    }

    /// Returns how many workers the board has.
    pub(super) fn workers(&self) -> u64 {
        self.turns.values().sum()
    }

    fn take_turn(&mut self, profile: &str, tenant: &str) {
        *self.turns.entry(profile.to_owned()).or_default() += 1;
        *self.tenant_turns.entry((profile.to_owned(), tenant.to_owned())).or_default() += 1;
    }

    /// Returns how many workers a profile has.
    pub(super) fn turns_of(&self, profile: &str) -> u64 {
        self.turns.get(profile).copied().unwrap_or_default()
    }

    /// Returns how many workers a profile has for a tenant.
    pub(super) fn tenant_turns_of(&self, lane: &LaneKey) -> u64 {
        let key = (lane.profile.clone(), lane.tenant.clone());
        self.tenant_turns.get(&key).copied().unwrap_or_default()
    }

    /// Each cap that concerns a lane and what it counts, in the order in which
    /// they are named as the reason. Tasks of no tenant are nobody's share.
    fn each(&self, lane: &LaneKey) -> [(ReachedCap, Option<u32>, u64); 5] {
        let of = |counts: &BTreeMap<String, u64>, name: &str| counts.get(name).copied();
        let profile = of(&self.profiles, &lane.profile).unwrap_or_default();
        let tenant = of(&self.tenants, &lane.tenant).unwrap_or_default();
        let tenant_cap = self.caps.tenant.filter(|_| !lane.tenant.is_empty());
        [
            (ReachedCap::Profile, self.caps.profile, profile),
            (ReachedCap::Other(CappedBy::Tenant), tenant_cap, tenant),
            (ReachedCap::Other(CappedBy::Board), self.caps.board, self.board),
            (ReachedCap::Other(CappedBy::Global), self.caps.global, self.global),
            (ReachedCap::Other(CappedBy::Host), self.caps.host, self.host),
        ]
    }

    /// Returns the first cap that lets nothing of a lane be started, and how
    /// many it counts.
    pub(super) fn limit(&self, lane: &LaneKey) -> Option<(ReachedCap, u64)> {
        self.each(lane)
            .into_iter()
            .find(|(_, cap, count)| cap.is_some_and(|cap| *count >= u64::from(cap)))
            .map(|(limit, _, count)| (limit, count))
    }

    /// Returns how many of a lane could be started; none: as many as there are.
    pub(super) fn free(&self, lane: &LaneKey) -> Option<u64> {
        let free = self.each(lane).into_iter();
        free.filter_map(|(_, cap, count)| cap.map(|cap| u64::from(cap).saturating_sub(count))).min()
    }
}

/// A task that may be started, as far as that needs to be known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StartCandidate {
    pub(super) rank: i64,
    pub(super) seq: i64,
    pub(super) id: TaskId,
    pub(super) role: Role,
    /// The directory that it must have for itself.
    pub(super) directory: Option<PathBuf>,
    /// Whether an earlier worker of it on this host may not be gone.
    pub(super) held: bool,
}

impl StartCandidate {
    pub(super) fn new(task: &Task, held: &BTreeSet<TaskId>) -> Self {
        Self {
            rank: task.rank(),
            seq: task.seq,
            id: task.id.clone(),
            role: if task.status == Status::Review { Role::Review } else { Role::Work },
            directory: exclusive_directory(task).map(Path::to_owned),
            held: held.contains(&task.id),
        }
    }

    /// Returns its position among all tasks: by rank, then by creation.
    pub(super) const fn position(&self) -> QueueRank {
        (self.rank, self.seq)
    }
}

/// A queue whose tasks may be started, and their outcome.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) key: LaneKey,
    /// Its first tasks, in order.
    pub(super) heads: Vec<StartCandidate>,
    /// How many tasks it has, those beyond the first included.
    pub(super) total: u64,
    /// How many of the first were started or passed over for one that was.
    pub(super) seen: usize,
    /// The first from there on that could be started as far as directories go.
    free: usize,
    /// Those that were passed over: whose directory another task is at work in, or whose
    /// earlier worker is not gone.
    pub(super) busy: Vec<StartCandidate>,
}

impl Queue {
    pub(super) fn new(key: LaneKey) -> Self {
        Self { key, heads: Vec::new(), total: 0, seen: 0, free: 0, busy: Vec::new() }
    }

    /// Adds tasks that nobody counted yet.
    pub(super) fn add(&mut self, candidates: Vec<StartCandidate>) {
        self.total += u64::try_from(candidates.len()).unwrap_or(u64::MAX);
        self.heads.extend(candidates);
        self.heads.sort_by_key(StartCandidate::position);
    }

    /// Returns how many tasks were not looked at.
    pub(super) fn rest(&self) -> u64 {
        self.total.saturating_sub(u64::try_from(self.seen).unwrap_or(u64::MAX))
    }

    /// Returns the next task that could be started as far as directories go.
    fn next(&mut self, busy: &BusyDirectories) -> Option<&StartCandidate> {
        // What is busy stays so for this plan, so none is looked at twice.
        let is_free = |head: &StartCandidate| {
            !head.held && head.directory.as_deref().is_none_or(|path| busy.is_free(path))
        };
        while self.heads.get(self.free).is_some_and(|head| !is_free(head)) {
            self.free += 1;
        }
        self.heads.get(self.free)
    }

    /// Takes that task out of the queue, and passes over those before it.
    fn start(&mut self) -> Option<StartCandidate> {
        let candidate = self.heads.get(self.free)?.clone();
        self.busy.extend_from_slice(self.heads.get(self.seen..self.free)?);
        self.free += 1;
        self.seen = self.free;
        Some(candidate)
    }

    /// Reports whether none of the first can be started.
    pub(super) fn is_stuck(&self) -> bool {
        self.free == self.heads.len()
    }
}

/// Directories that tasks are at work in. A directory is used by one task at a
/// time, with all that is below it.
#[derive(Debug, Default)]
pub(super) struct BusyDirectories(Vec<PathBuf>);

impl BusyDirectories {
    pub(super) fn take(&mut self, path: &Path) {
        self.0.push(path.to_owned());
    }

    fn is_free(&self, path: &Path) -> bool {
        !self.0.iter().any(|used| used.starts_with(path) || path.starts_with(used))
    }
}

/// A task that is to be started.
#[derive(Debug)]
pub(super) struct Chosen {
    pub(super) lane: LaneKey,
    pub(super) candidate: StartCandidate,
}

/// Gives out the slots: until a cap stands against each queue, or nothing of it
/// is left that could be started.
pub(super) fn allot(boards: &mut [PlanDraft<'_>]) {
    while let Some((at, index)) = next(boards) {
        let Some(board) = boards.get_mut(at) else { break };
        let Some(queue) = board.queues.get_mut(index) else { break };
        let Some(candidate) = queue.start() else { break };
        let lane = queue.key.clone();
        board.load.start(&lane);
        let directory = candidate.directory.clone();
        board.chosen.push(Chosen { lane, candidate });
        for (other, board) in boards.iter_mut().enumerate() {
            if other != at {
                board.load.start_elsewhere();
            }
            if let Some(path) = &directory {
                board.busy.take(path);
            }
        }
    }
}

/// Returns the board that gets the next slot, and which of its queues.
fn next(boards: &mut [PlanDraft<'_>]) -> Option<(usize, usize)> {
    let turn = |(at, board): (usize, &mut PlanDraft<'_>)| {
        let (index, position) = whose_turn(&mut board.queues, &board.load, &board.busy)?;
        Some(((board.load.workers(), position), at, index))
    };
    let turns = boards.iter_mut().enumerate().filter_map(turn);
    turns
        .min_by_key(|(turn, ..): &(ShareAndPosition, _, _)| *turn)
        .map(|(_, at, index)| (at, index))
}

/// Returns the queue of a board that gets the next slot, and the position of its task.
fn whose_turn(
    queues: &mut [Queue],
    load: &Load,
    busy: &BusyDirectories,
) -> Option<(usize, QueueRank)> {
    // Of each profile: its best position, and its queue whose turn it is.
    let mut profiles: BTreeMap<&str, (ShareAndPosition, ShareAndPosition, usize)> = BTreeMap::new();
    for (index, queue) in queues.iter_mut().enumerate() {
        if load.limit(&queue.key).is_some() {
            continue;
        }
        let Some(position) = queue.next(busy).map(StartCandidate::position) else { continue };
        let as_profile = (load.turns_of(&queue.key.profile), position);
        let as_tenant = (load.tenant_turns_of(&queue.key), position);
        let entry = profiles.entry(&queue.key.profile).or_insert((as_profile, as_tenant, index));
        entry.0 = entry.0.min(as_profile);
        if as_tenant < entry.1 {
            (entry.1, entry.2) = (as_tenant, index);
        }
    }
    let first = profiles.into_values().min_by_key(|(as_profile, ..)| *as_profile);
    first.map(|(_, (_, position), index)| (index, position))
}

/// The position of a task among all: rank, then creation.
type QueueRank = (i64, i64);
/// How many workers a profile, tenant or board has, and the position of its next task.
type ShareAndPosition = (u64, QueueRank);
