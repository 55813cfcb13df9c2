//! What a plan is made of.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use crate::id::TaskId;
use crate::run::Run;
use crate::store::Lane;
use crate::task::{Failure, LaneKey, Task};
use crate::time::Time;

/// The board at one moment, as far as a plan needs it: what is going on, what
/// has come due, and the heads of the queues. How much that is follows from the
/// slots and the lanes, not from the tasks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The moment, by the store's clock.
    pub now: Time,
    /// How much is in each lane.
    pub lanes: Vec<Lane>,
    /// The first tasks of each lane, in the order of the queue.
    pub heads: BTreeMap<LaneKey, Vec<Task>>,
    /// Tasks whose moment has come.
    pub due: Vec<Task>,
    /// Tasks that wait for their moment before they are tried again.
    pub guarded: Vec<Task>,
    /// Runs that have not ended, or whose worker may not be gone.
    pub runs: Vec<Watched>,
    /// Those of the due that were being looked at when they stopped.
    pub reviewing: BTreeSet<TaskId>,
    /// Directories of this host that tasks of other boards are at work in.
    pub busy_elsewhere: BTreeSet<PathBuf>,
    /// What goes on outside this board.
    pub outside: Elsewhere,
    /// The profiles there are.
    pub profiles: BTreeSet<String>,
}

/// A run and what can be seen of its worker from here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watched {
    /// The run.
    pub run: Run,
    /// The task, where it is still there.
    pub task: Option<Task>,
    /// How often that task failed so far, where that matters.
    pub failures: Vec<Failure>,
    /// What can be seen.
    pub life: Life,
}

/// What can be seen of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// It has not been started, or whoever started it did not come to say so.
    Unknown,
    /// It is on this host, and lives.
    Alive,
    /// It is on this host, or was before its last boot, and is gone.
    Gone {
        /// Its exit code, where this process is its parent; 128 and the signal
        /// of one that a signal ended.
        code: Option<i32>,
    },
    /// It is on another host.
    Foreign,
    /// There is none: a person claimed the task.
    Person,
}

/// What is worked on outside this board.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Elsewhere {
    /// Tasks of other boards that are being worked on.
    pub running: u64,
    /// Those of them that are worked on by this host.
    pub running_here: u64,
}
