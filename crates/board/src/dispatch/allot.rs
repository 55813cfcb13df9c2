//! Who gets the slots.
//!
//! A slot goes to the board with the fewest workers, so that nobody's backlog
//! stands in anybody's way; of several, to the one whose next task has the best
//! rank, in which waiting counts. Within a board it is the same with profiles,
//! within a profile with tenants, and within a lane the order of the queue decides.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::draft::Draft;
use super::load::Load;
use crate::id::TaskId;
use crate::run::Role;
use crate::status::Status;
use crate::task::{LaneKey, Task};
use crate::verbs::steps::exclusive_directory;

/// A task that may be started, as far as that needs to be known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) rank: i64,
    pub(super) seq: i64,
    pub(super) id: TaskId,
    pub(super) role: Role,
    /// The directory that it must have for itself.
    pub(super) directory: Option<PathBuf>,
    /// Whether an earlier worker of it on this host may not be gone.
    pub(super) held: bool,
}

impl Candidate {
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

    /// Returns its place among all: by rank, then by when it was made.
    pub(super) const fn place(&self) -> Place {
        (self.rank, self.seq)
    }
}

/// A queue whose tasks may be started, and what became of them.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) key: LaneKey,
    /// Its first tasks, in order.
    pub(super) heads: Vec<Candidate>,
    /// How many tasks it has, those beyond the first included.
    pub(super) total: u64,
    /// How many of the first were started or passed over for one that was.
    pub(super) seen: usize,
    /// The first from there on that could be started as far as directories go.
    free: usize,
    /// Those that were passed over: whose directory another task is at work in, or whose
    /// earlier worker is not gone.
    pub(super) busy: Vec<Candidate>,
}

impl Queue {
    pub(super) fn new(key: LaneKey) -> Self {
        Self { key, heads: Vec::new(), total: 0, seen: 0, free: 0, busy: Vec::new() }
    }

    /// Adds tasks that nobody counted yet.
    pub(super) fn add(&mut self, candidates: Vec<Candidate>) {
        self.total += u64::try_from(candidates.len()).unwrap_or(u64::MAX);
        self.heads.extend(candidates);
        self.heads.sort_by_key(Candidate::place);
    }

    /// Returns how many tasks were not looked at.
    pub(super) fn rest(&self) -> u64 {
        self.total.saturating_sub(u64::try_from(self.seen).unwrap_or(u64::MAX))
    }

    /// Returns the next task that could be started as far as directories go.
    fn next(&mut self, busy: &Busy) -> Option<&Candidate> {
        // What is busy stays so for this plan, so none is looked at twice.
        let is_free = |head: &Candidate| {
            !head.held && head.directory.as_deref().is_none_or(|path| busy.is_free(path))
        };
        while self.heads.get(self.free).is_some_and(|head| !is_free(head)) {
            self.free += 1;
        }
        self.heads.get(self.free)
    }

    /// Takes that task out of the queue, and passes over those before it.
    fn start(&mut self) -> Option<Candidate> {
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
pub(super) struct Busy(Vec<PathBuf>);

impl Busy {
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
    pub(super) candidate: Candidate,
}

/// Gives out the slots: until a cap stands against each queue, or nothing of it
/// is left that could be started.
pub(super) fn allot(boards: &mut [Draft<'_>]) {
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
fn next(boards: &mut [Draft<'_>]) -> Option<(usize, usize)> {
    let turn = |(at, board): (usize, &mut Draft<'_>)| {
        let (index, place) = whose_turn(&mut board.queues, &board.load, &board.busy)?;
        Some(((board.load.workers(), place), at, index))
    };
    let turns = boards.iter_mut().enumerate().filter_map(turn);
    turns.min_by_key(|(turn, ..): &(Turn, _, _)| *turn).map(|(_, at, index)| (at, index))
}

/// Returns the queue of a board that gets the next slot, and the place of its task.
fn whose_turn(queues: &mut [Queue], load: &Load, busy: &Busy) -> Option<(usize, Place)> {
    // Of each profile: its best place, and its queue whose turn it is.
    let mut profiles: BTreeMap<&str, (Turn, Turn, usize)> = BTreeMap::new();
    for (index, queue) in queues.iter_mut().enumerate() {
        if load.limit(&queue.key).is_some() {
            continue;
        }
        let Some(place) = queue.next(busy).map(Candidate::place) else { continue };
        let as_profile = (load.turns_of(&queue.key.profile), place);
        let as_tenant = (load.tenant_turns_of(&queue.key), place);
        let entry = profiles.entry(&queue.key.profile).or_insert((as_profile, as_tenant, index));
        entry.0 = entry.0.min(as_profile);
        if as_tenant < entry.1 {
            (entry.1, entry.2) = (as_tenant, index);
        }
    }
    let first = profiles.into_values().min_by_key(|(as_profile, ..)| *as_profile);
    first.map(|(_, (_, place), index)| (index, place))
}

/// A task's place among all: its rank, and when it was made.
type Place = (i64, i64);
/// How many workers somebody has, and the place of their next task.
type Turn = (u64, Place);
