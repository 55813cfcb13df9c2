//! A task and what hangs on it.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use vestal_config::ProfileName;

use crate::host::HostName;
use crate::id::{RunId, TaskId};
use crate::run::Role;
use crate::status::{BlockKind, Status};
use crate::time::Time;

/// How much waiting a point of priority is worth: a task is overtaken by later
/// ones of higher priority, but only for so long.
pub const PRIORITY_IS_WORTH: Duration = Duration::from_mins(10);
/// The largest priority, and with a minus the smallest.
pub const MAX_PRIORITY: i64 = 1_000_000;

/// A task, as the store has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// Its name.
    pub id: TaskId,
    /// Its place among all tasks of the board by when they were made. The store
    /// sets it; it is 0 before that.
    pub seq: i64,
    /// What it is about, in a line.
    pub title: String,
    /// What is to be done.
    pub body: String,
    /// The profile that works on it.
    pub assignee: Option<ProfileName>,
    /// Where it stands.
    pub status: Status,
    /// Higher goes first.
    pub priority: i64,
    /// A namespace, with its own share of the slots.
    pub tenant: Option<String>,
    /// Who made it.
    pub created_by: String,
    /// The run that made it, where a worker did.
    pub created_by_run: Option<RunId>,
    /// How many workers stand between it and a person: 0 for what a person made.
    pub depth: u32,
    /// The conversation it was made in.
    pub session_id: Option<String>,
    /// When it was made.
    pub created_at: Time,
    /// When it was last changed.
    pub updated_at: Time,
    /// When it was first worked on.
    pub started_at: Option<Time>,
    /// When it was done.
    pub completed_at: Option<Time>,
    /// When it began to wait for a worker; retries keep their place.
    pub queued_at: Option<Time>,
    /// Where it is worked on.
    pub workspace: Workspace,
    /// The host that has the workspace's directory. Only it can run the task.
    pub workspace_host: Option<HostName>,
    /// Time that a run may take.
    pub max_runtime: Option<Duration>,
    /// Failures at which it is given up, of whatever cause; none: as the settings say.
    pub max_retries: Option<u32>,
    /// Skills the worker is to use.
    pub skills: Vec<String>,
    /// Model to ask in place of the profile's.
    pub model: Option<String>,
    /// What came of it.
    pub result: Option<String>,
    /// With the same key the same task is meant.
    pub idempotency_key: Option<String>,
    /// The run that holds it, while one does.
    pub current_run: Option<RunId>,
    /// The profile of that run.
    pub running_as: Option<ProfileName>,
    /// Why it is, or was last, blocked.
    pub block_kind: Option<BlockKind>,
    /// The same in words.
    pub block_reason: Option<String>,
    /// How often it was blocked for the same kind of reason in a row.
    pub block_recurrences: u32,
    /// Whether only a person may move it on.
    pub gate: bool,
    /// Why a person should look at it.
    pub attention: Option<String>,
    /// When it goes on by itself: a scheduled task, one blocked by a passing
    /// trouble, or a ready one that failed a moment ago.
    pub wake_at: Option<Time>,
    /// Why a ready task waits for that moment: `backoff` or `rate_limit_cooldown`.
    pub guard: Option<String>,
    /// Whether the work has to be looked at before it counts as done.
    pub needs_review: bool,
    /// The profile that looks at it; none: a person does.
    pub reviewer: Option<ProfileName>,
    /// How many of the tasks it waits for are neither done nor archived.
    pub pending_parents: u32,
}

/// Where a task is worked on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Workspace {
    /// A directory of its own inside the profile's sandbox, removed when it is done.
    #[default]
    Scratch,
    /// A directory of the host.
    Dir {
        /// Which.
        path: PathBuf,
    },
    /// A working tree of a git repository of the host.
    Worktree {
        /// The repository, or a directory for the tree.
        path: PathBuf,
        /// The branch; none: `wt/<task>`.
        branch: Option<String>,
    },
}

impl Workspace {
    /// Returns the public name of the kind.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Scratch => "scratch",
            Self::Dir { .. } => "dir",
            Self::Worktree { .. } => "worktree",
        }
    }

    /// Returns the directory of the host.
    pub fn path(&self) -> Option<&std::path::Path> {
        match self {
            Self::Scratch => None,
            Self::Dir { path } | Self::Worktree { path, .. } => Some(path),
        }
    }

    /// Returns the branch that was asked for.
    pub fn branch(&self) -> Option<&str> {
        match self {
            Self::Worktree { branch, .. } => branch.as_deref(),
            Self::Scratch | Self::Dir { .. } => None,
        }
    }
}

/// The queue a task stands in: whoever would run it next, its tenant, and the
/// only host that can run it. An empty profile stands for tasks that nobody is
/// assigned to, an empty host for tasks that any host can run.
///
/// The host is part of it so that what another host has to do is counted, and
/// passed over, without a look at the tasks.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaneKey {
    /// The profile, or nothing.
    pub profile: String,
    /// The tenant, or nothing.
    pub tenant: String,
    /// The host that has the tasks' directories, or nothing.
    pub host: String,
}

/// What a task counts as in its lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LaneShare {
    /// It could be started at once.
    Queued,
    /// It could be, but for a guard that time lifts.
    Guarded,
    /// It is being worked on.
    Running,
}

impl Task {
    /// Returns the profile that would run it next: of a ready task its
    /// assignee, of one to be looked at its reviewer, if a profile does that.
    fn next_profile(&self) -> Option<&str> {
        match self.status {
            Status::Ready => Some(self.assignee.as_ref().map_or("", ProfileName::as_str)),
            Status::Review => self.reviewer.as_ref().map(ProfileName::as_str),
            _ => None,
        }
    }

    /// Returns the profile that is to do this with it, if a profile is.
    pub const fn profile_for(&self, role: Role) -> Option<&ProfileName> {
        match role {
            Role::Work => self.assignee.as_ref(),
            Role::Review => self.reviewer.as_ref(),
        }
    }

    /// Returns whose queue it stands in: nobody's, where it cannot be started now.
    pub fn queue_as(&self) -> Option<&str> {
        self.next_profile().filter(|_| self.wake_at.is_none())
    }

    /// Returns its place in the queue; smaller goes first. It is worth the same
    /// for ever, so that the queue can be an index, and yet age counts: a point
    /// of priority is worth [`PRIORITY_IS_WORTH`] of waiting and no more.
    pub fn rank(&self) -> i64 {
        let worth = i64::try_from(PRIORITY_IS_WORTH.as_millis()).unwrap_or(i64::MAX);
        let since = self.queued_at.unwrap_or(self.created_at).millis();
        let priority = self.priority.clamp(-MAX_PRIORITY, MAX_PRIORITY);
        since.saturating_sub(priority.saturating_mul(worth))
    }

    /// Returns what it counts as, and where.
    pub fn lane_share(&self) -> Option<(LaneKey, LaneShare)> {
        let tenant = self.tenant.clone().unwrap_or_default();
        let host = self.workspace_host.as_ref().map_or("", HostName::as_str).to_owned();
        let key = |profile: &str| LaneKey {
            profile: profile.to_owned(),
            tenant: tenant.clone(),
            host: host.clone(),
        };
        if self.status == Status::Running {
            let profile = self.running_as.as_ref().map_or("", ProfileName::as_str);
            return Some((key(profile), LaneShare::Running));
        }
        let share = if self.wake_at.is_none() { LaneShare::Queued } else { LaneShare::Guarded };
        self.next_profile().map(|profile| (key(profile), share))
    }
}

/// What somebody said about a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Comment {
    /// Its number.
    pub id: i64,
    /// Who.
    pub author: String,
    /// What.
    pub body: String,
    /// When.
    pub created_at: Time,
}

/// A file that belongs to a task. Its bytes are in the board's directory of
/// attachments on the host that took it in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Attachment {
    /// Its number.
    pub id: i64,
    /// The task.
    pub task_id: TaskId,
    /// Its name, safe as a file name.
    pub filename: String,
    /// The file below the board's directory of attachments.
    #[serde(skip)]
    pub stored_as: String,
    /// The host that has it.
    pub host: HostName,
    /// What is in it.
    pub content_type: Option<String>,
    /// Bytes.
    pub size: u64,
    /// Who added it.
    pub uploaded_by: String,
    /// When.
    pub created_at: Time,
}

/// How often a task failed for one cause since somebody last set it on its way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// The cause, by the name of the outcome.
    pub cause: crate::run::Outcome,
    /// How often.
    pub count: u32,
    /// What was said last.
    pub error: String,
    /// When that was.
    pub at: Time,
}

#[cfg(test)]
#[path = "task_tests.rs"]
mod tests;
