//! The result of a dispatch, or of a dry run.

use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};

use super::policy::Shown;
use crate::id::TaskId;
use crate::task::words;

/// The result of a dispatch, or of a dry run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DispatchResult {
    /// Expired leases that were reclaimed.
    pub reclaimed: u64,
    /// Tasks that became due.
    pub promoted: u64,
    /// Workers that were started.
    pub spawned: Bucket<Spawned>,
    /// Unassigned tasks.
    pub skipped_unassigned: Bucket<TaskId>,
    /// Tasks that were given to the default assignee.
    pub auto_assigned_default: Bucket<TaskId>,
    /// Tasks of profiles that do not exist; they are claimed by hand.
    pub skipped_nonspawnable: Bucket<TaskId>,
    /// Tasks whose profile is at its cap: (task, profile, running).
    pub skipped_per_profile_capped: Bucket<(TaskId, String, u64)>,
    /// Tasks that another cap holds back.
    pub skipped_capped: Bucket<Capped>,
    /// Tasks whose directory another task is using, or whose earlier worker is not gone yet.
    pub skipped_workspace_busy: Bucket<TaskId>,
    /// Tasks whose directory is on another host.
    pub skipped_other_host: Bucket<TaskId>,
    /// Tasks whose worker died.
    pub crashed: Bucket<TaskId>,
    /// Tasks whose worker ended without a report.
    pub no_report: Bucket<TaskId>,
    /// Tasks that were given up.
    pub auto_blocked: Bucket<TaskId>,
    /// Tasks that took too long.
    pub timed_out: Bucket<TaskId>,
    /// Tasks whose worker was silent for too long.
    pub stale: Bucket<TaskId>,
    /// Tasks whose retry is delayed.
    pub respawn_guarded: Bucket<Guarded>,
    /// Tasks whose provider limited requests.
    pub rate_limited: Bucket<TaskId>,
    /// Whether another dispatcher held the lock, so that this one did nothing.
    pub skipped_locked: bool,
}

impl Serialize for DispatchResult {
    /// Each bucket is an array of its first entries under its name; how many
    /// there are of each is in `counts`.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        let mut counts = serde_json::Map::new();
        map.serialize_entry("reclaimed", &self.reclaimed)?;
        map.serialize_entry("promoted", &self.promoted)?;
        macro_rules! buckets {
            ($($name:ident),+ $(,)?) => {$(
                map.serialize_entry(stringify!($name), &self.$name.entries)?;
                counts.insert(stringify!($name).to_owned(), self.$name.count.into());
            )+};
        }
        buckets!(crashed, no_report, timed_out, stale, rate_limited, auto_blocked);
        buckets!(spawned, auto_assigned_default, skipped_unassigned, skipped_nonspawnable);
        let entry = |(task_id, assignee, current): &(TaskId, String, u64)| serde_json::json!({ "task_id": task_id, "assignee": assignee, "current": current });
        let capped: Vec<_> = self.skipped_per_profile_capped.entries.iter().map(entry).collect();
        map.serialize_entry("skipped_per_profile_capped", &capped)?;
        let count = self.skipped_per_profile_capped.count;
        counts.insert("skipped_per_profile_capped".to_owned(), count.into());
        buckets!(skipped_capped, skipped_workspace_busy, skipped_other_host, respawn_guarded);
        map.serialize_entry("skipped_locked", &self.skipped_locked)?;
        map.serialize_entry("counts", &counts)?;
        map.end()
    }
}

/// Entries of one kind: how many there are, and the first of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bucket<T> {
    /// How many there are in all.
    pub count: u64,
    /// The first of them.
    pub entries: Vec<T>,
}

impl<T> Default for Bucket<T> {
    fn default() -> Self {
        Self { count: 0, entries: Vec::new() }
    }
}

impl<T> Bucket<T> {
    /// Adds an entry, and counts it.
    pub fn push(&mut self, entry: T) {
        self.count += 1;
        self.entries.push(entry);
    }

    /// Counts an entry, and adds it while no more than is shown are there.
    pub fn add(&mut self, entry: T, shown: Shown) {
        self.count += 1;
        if self.entries.len() < shown.limit() {
            self.entries.push(entry);
        }
    }

    /// Reports whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// A worker that was started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Spawned {
    /// The task.
    pub task_id: TaskId,
    /// The profile that works on it.
    pub assignee: String,
    /// Where; nothing in a dry run.
    pub workspace: String,
}

/// A task that waits before it is tried again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Guarded {
    /// The task.
    pub task_id: TaskId,
    /// Why.
    pub reason: String,
    /// Until when.
    pub until: crate::time::Time,
}

words! {
    /// A cap on what is worked on at the same time.
    CappedBy: "cap" {
        /// `kanban.max_in_progress`.
        Global = "global",
        /// `kanban.max_in_progress_per_host`.
        Host = "host",
        /// `kanban.max_spawn`.
        Board = "board",
        /// `kanban.max_in_progress_per_tenant`.
        Tenant = "tenant",
    }
}

/// A task that a cap holds back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Capped {
    /// The task.
    pub task_id: TaskId,
    /// The profile it waits for.
    pub assignee: String,
    /// Which cap.
    pub by: CappedBy,
    /// How many that cap counts now.
    pub current: u64,
}
