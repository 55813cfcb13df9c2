//! Events: what happened to tasks.

use serde::Serialize;
use serde_json::Value;

use crate::id::{RunId, TaskId};
use crate::task::words;
use crate::time::Time;

words! {
    /// The kind of an event.
    Kind: "kind of event" {
        /// The task was created.
        Created = "created",
        /// Its assignee changed.
        Assigned = "assigned",
        /// A parent was linked.
        Linked = "linked",
        /// A parent was unlinked.
        Unlinked = "unlinked",
        /// A comment was added.
        Commented = "commented",
        /// A file was added.
        Attached = "attached",
        /// A file was removed.
        AttachmentRemoved = "attachment_removed",
        /// It became ready: its parents are done.
        Promoted = "promoted",
        /// A person made it ready.
        PromotedManual = "promoted_manual",
        /// It waits again, because a parent was reopened.
        Demoted = "demoted",
        /// It was claimed.
        Claimed = "claimed",
        /// A worker was started.
        Spawned = "spawned",
        /// An expired lease was extended, because its worker is alive.
        ClaimExtended = "claim_extended",
        /// A worker could not be stopped, so the task stays with it.
        ReclaimDeferred = "reclaim_deferred",
        /// The task was taken from its holder.
        Reclaimed = "reclaimed",
        /// The worker was silent for too long.
        Stale = "stale",
        /// The worker took too long.
        TimedOut = "timed_out",
        /// The worker died.
        Crashed = "crashed",
        /// The worker ended without a report.
        ProtocolViolation = "protocol_violation",
        /// The model's provider limited requests.
        RateLimited = "rate_limited",
        /// A signal terminated the worker.
        Terminated = "terminated",
        /// The worker could not be started.
        SpawnFailed = "spawn_failed",
        /// It failed too often and was given up.
        GaveUp = "gave_up",
        /// A retry is delayed.
        RespawnGuarded = "respawn_guarded",
        /// It is done.
        Completed = "completed",
        /// Its report names tasks that its worker did not create.
        CompletionBlockedHallucination = "completion_blocked_hallucination",
        /// The work was submitted for review.
        Submitted = "submitted",
        /// The reviewer requested changes.
        ChangesRequested = "changes_requested",
        /// It was edited.
        Edited = "edited",
        /// It was blocked.
        Blocked = "blocked",
        /// It waits for its parents.
        DependencyWait = "dependency_wait",
        /// It was blocked repeatedly; a person has to decide.
        BlockLoopDetected = "block_loop_detected",
        /// It was unblocked.
        Unblocked = "unblocked",
        /// It was scheduled for later.
        Scheduled = "scheduled",
        /// It was archived.
        Archived = "archived",
        /// It was reopened.
        Reopened = "reopened",
        /// Its priority was changed.
        Reprioritized = "reprioritized",
    }
}

/// An event to be stored.
#[derive(Debug, Clone, PartialEq)]
pub struct NewTaskEvent {
    /// The task.
    pub task: TaskId,
    /// The run.
    pub run: Option<RunId>,
    /// Its kind.
    pub kind: Kind,
    /// Details, as an object.
    pub payload: Value,
}

/// A stored event.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TaskEvent {
    /// Its number; later events have larger ones.
    pub id: i64,
    /// The task.
    pub task_id: TaskId,
    /// The run.
    pub run_id: Option<RunId>,
    /// The name of a [`Kind`], perhaps one of a later version.
    pub kind: String,
    /// Details.
    pub payload: Value,
    /// When.
    pub created_at: Time,
}
