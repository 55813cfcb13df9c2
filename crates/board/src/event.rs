//! What happened to a task.

use serde::Serialize;
use serde_json::Value;

use crate::id::{RunId, TaskId};
use crate::status::words;
use crate::time::Time;

words! {
    /// What kind of thing happened.
    Kind: "kind of event" {
        /// The task was made.
        Created = "created",
        /// It was given to a profile, or taken from one.
        Assigned = "assigned",
        /// It waits for another.
        Linked = "linked",
        /// It does not any more.
        Unlinked = "unlinked",
        /// Somebody said something.
        Commented = "commented",
        /// A file was added.
        Attached = "attached",
        /// A file was taken away.
        AttachmentRemoved = "attachment_removed",
        /// It can be worked on: what it waited for is there.
        Promoted = "promoted",
        /// It can be worked on, because somebody says so.
        PromotedManual = "promoted_manual",
        /// It has to wait again for a task that was taken up anew.
        Demoted = "demoted",
        /// Somebody holds it.
        Claimed = "claimed",
        /// A worker was started.
        Spawned = "spawned",
        /// A lease that ran out was extended, because its worker lives.
        ClaimExtended = "claim_extended",
        /// A worker could not be stopped, so the task stays with it.
        ReclaimDeferred = "reclaim_deferred",
        /// The task was taken from its holder.
        Reclaimed = "reclaimed",
        /// Nothing was heard of the worker.
        Stale = "stale",
        /// The worker took too long.
        TimedOut = "timed_out",
        /// The worker died.
        Crashed = "crashed",
        /// The worker ended without a word about the task.
        ProtocolViolation = "protocol_violation",
        /// The model's provider let it do no more for now.
        RateLimited = "rate_limited",
        /// The worker was told to end.
        Terminated = "terminated",
        /// The worker could not be started.
        SpawnFailed = "spawn_failed",
        /// It was tried too often.
        GaveUp = "gave_up",
        /// It waits before it is tried again.
        RespawnGuarded = "respawn_guarded",
        /// It is done.
        Completed = "completed",
        /// It names tasks that its worker did not make.
        CompletionBlockedHallucination = "completion_blocked_hallucination",
        /// The work is done and waits to be looked at.
        Submitted = "submitted",
        /// Whoever looked at the work wants it changed.
        ChangesRequested = "changes_requested",
        /// Something about it was changed.
        Edited = "edited",
        /// It waits for a person, or for a passing trouble to pass.
        Blocked = "blocked",
        /// It waits for tasks it is linked to.
        DependencyWait = "dependency_wait",
        /// It is blocked again and again, and a person has to decide.
        BlockLoopDetected = "block_loop_detected",
        /// It goes on.
        Unblocked = "unblocked",
        /// It was put off.
        Scheduled = "scheduled",
        /// It was put away for good.
        Archived = "archived",
        /// It was taken up anew.
        Reopened = "reopened",
        /// Its priority was changed.
        Reprioritized = "reprioritized",
    }
}

/// Something that is about to have happened.
#[derive(Debug, Clone, PartialEq)]
pub struct NewEvent {
    /// To which task.
    pub task: TaskId,
    /// In which run.
    pub run: Option<RunId>,
    /// What.
    pub kind: Kind,
    /// More about it: an object.
    pub payload: Value,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Event {
    /// Its number; they grow.
    pub id: i64,
    /// The task.
    pub task_id: TaskId,
    /// The run.
    pub run_id: Option<RunId>,
    /// What: the name of a [`Kind`], or of one that a later version knows.
    pub kind: String,
    /// More about it.
    pub payload: Value,
    /// When.
    pub created_at: Time,
}
