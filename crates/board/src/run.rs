//! An attempt at a task.

use std::time::Duration;

use serde::Serialize;
use vestal_config::ProfileName;

use crate::host::{Host, HostName};
use crate::id::{RunId, TaskId};
use crate::status::words;
use crate::time::Time;

words! {
    /// What a run is for.
    Role: "role" {
        /// To do the task.
        Work = "work",
        /// To look at what was done.
        Review = "review",
    }
}

words! {
    /// How a run ended.
    Outcome: "outcome" {
        /// The task is done.
        Completed = "completed",
        /// The work is done and waits to be looked at.
        Submitted = "submitted",
        /// Whoever looked at the work wants it changed.
        ChangesRequested = "changes_requested",
        /// The task is blocked.
        Blocked = "blocked",
        /// The task was put off.
        Scheduled = "scheduled",
        /// The worker died.
        Crashed = "crashed",
        /// It took too long.
        TimedOut = "timed_out",
        /// The worker could not be started.
        SpawnFailed = "spawn_failed",
        /// Nothing was heard of the worker for too long.
        Stale = "stale",
        /// Its lease ran out, or somebody took the task away.
        Reclaimed = "reclaimed",
        /// The model's provider let it do no more for now.
        RateLimited = "rate_limited",
        /// The worker ended without a word about the task.
        NoReport = "no_report",
        /// The worker was told to end.
        Terminated = "terminated",
    }
}

/// A process on one host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Process {
    /// The host.
    #[serde(flatten)]
    pub host: Host,
    /// Its number there.
    pub pid: u32,
    /// When it started, in clock ticks since the host's boot.
    pub start: u64,
}

/// An attempt at a task, by a worker or by a person who claimed it. While it
/// has not ended it is the task's lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// Its number, and its fencing token.
    pub id: RunId,
    /// The task.
    pub task_id: TaskId,
    /// The profile that works, where one does.
    pub profile: Option<ProfileName>,
    /// What it is for.
    pub role: Role,
    /// Who holds the lease, in words.
    pub owner: String,
    /// The host that starts, or started, the worker; none for a person's claim.
    pub host: Option<Host>,
    /// The worker, once it was started.
    pub process: Option<Process>,
    /// When it began.
    pub started_at: Time,
    /// When others may take the task, unless the lease is renewed before; of a
    /// run that ended, until when its worker may take to leave.
    pub expires_at: Time,
    /// When the worker last renewed the lease.
    pub heartbeat_at: Option<Time>,
    /// When the worker last got anything done.
    pub activity_at: Option<Time>,
    /// What the worker said last about its progress.
    pub note: Option<String>,
    /// Whether a lease that ran out was extended because its worker lives; that
    /// is done once between two renewals.
    pub graced: bool,
    /// Time it may take.
    pub max_runtime: Option<Duration>,
    /// What is to become of the run once its worker is gone; the worker is
    /// being stopped.
    pub stopping: Option<Outcome>,
    /// When it ended.
    pub ended_at: Option<Time>,
    /// How.
    pub outcome: Option<Outcome>,
    /// What whoever worked says about it.
    pub summary: Option<String>,
    /// The same for machines.
    pub metadata: Option<serde_json::Value>,
    /// What went wrong.
    pub error: Option<String>,
    /// Whether nothing of the worker is left, by proof. A run without a worker
    /// has nothing to leave.
    pub gone: bool,
    /// Where it works, on its host or in its sandbox.
    pub workspace: Option<String>,
    /// The conversation of the worker.
    pub session_id: Option<String>,
}

impl Run {
    /// Returns the name of the host that has its worker.
    pub fn host_name(&self) -> Option<&HostName> {
        self.host.as_ref().map(|host| &host.name)
    }

    /// Reports whether it is still going on.
    pub const fn is_open(&self) -> bool {
        self.ended_at.is_none()
    }
}
