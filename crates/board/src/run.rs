//! An attempt at a task.

use std::time::Duration;

use serde::Serialize;
use vestal_config::ProfileName;

use crate::id::{HostId, HostName, RunId, TaskId};
use crate::task::words;
use crate::time::Time;

words! {
    /// The role of a run.
    Role: "role" {
        /// Do the task.
        Work = "work",
        /// Review the work.
        Review = "review",
    }
}

words! {
    /// How a run ended.
    Outcome: "outcome" {
        /// The task is done.
        Completed = "completed",
        /// The work is done and waits for review.
        Submitted = "submitted",
        /// The reviewer requested changes.
        ChangesRequested = "changes_requested",
        /// The task is blocked.
        Blocked = "blocked",
        /// The task was scheduled for later.
        Scheduled = "scheduled",
        /// The worker died.
        Crashed = "crashed",
        /// It took too long.
        TimedOut = "timed_out",
        /// The worker could not be started.
        SpawnFailed = "spawn_failed",
        /// The worker was silent for too long.
        Stale = "stale",
        /// Its lease expired, or the task was taken away.
        Reclaimed = "reclaimed",
        /// The model's provider limited requests.
        RateLimited = "rate_limited",
        /// The worker ended without a report.
        NoReport = "no_report",
        /// A signal terminated the worker.
        Terminated = "terminated",
    }
}

/// A process on one host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RunProcess {
    /// The host.
    #[serde(flatten)]
    pub host: HostId,
    /// Its pid.
    pub pid: u32,
    /// When it started, in clock ticks since the host's boot.
    pub start: u64,
}

/// An attempt at a task, by a worker or by a person who claimed it. Until it ends it is the lease of
/// the task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// Its number, and its fencing token.
    pub id: RunId,
    /// The task.
    pub task_id: TaskId,
    /// The profile that works; `None` for a person.
    pub profile: Option<ProfileName>,
    /// Its role.
    pub role: Role,
    /// Who holds the lease, for people to read.
    pub owner: String,
    /// The host that starts, or started, the worker; none for a person's claim.
    pub host: Option<HostId>,
    /// The worker, once it was started.
    pub process: Option<RunProcess>,
    /// When it started.
    pub started_at: Time,
    /// When the lease expires, unless it is renewed. For an ended run: until when its worker may take
    /// to exit.
    pub expires_at: Time,
    /// When the worker last renewed the lease.
    pub heartbeat_at: Option<Time>,
    /// When the worker was last active.
    pub activity_at: Option<Time>,
    /// The worker's last note on its progress.
    pub note: Option<String>,
    /// Whether an expired lease was extended because its worker is alive. That happens once between two
    /// renewals.
    pub graced: bool,
    /// The longest time it may take.
    pub max_runtime: Option<Duration>,
    /// How the run will end; set while its worker is being stopped.
    pub stopping: Option<Outcome>,
    /// When it ended.
    pub ended_at: Option<Time>,
    /// How it ended.
    pub outcome: Option<Outcome>,
    /// The summary of the work.
    pub summary: Option<String>,
    /// Structured facts for programs.
    pub metadata: Option<serde_json::Value>,
    /// The error, if it failed.
    pub error: Option<String>,
    /// Whether the worker is proven gone. True for a run without a worker.
    pub gone: bool,
    /// Its workspace, on the host or in the sandbox.
    pub workspace: Option<String>,
    /// The conversation of the worker.
    pub session_id: Option<String>,
}

impl Run {
    /// Returns the name of the host that has its worker.
    pub fn host_name(&self) -> Option<&HostName> {
        self.host.as_ref().map(|host| &host.name)
    }

    /// Reports whether it has not ended.
    pub const fn is_open(&self) -> bool {
        self.ended_at.is_none()
    }
}
