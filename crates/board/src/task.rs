//! Tasks, and what belongs to them: comments, attachments, failures, lanes.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use vestal_config::ProfileName;

use crate::id::{HostName, RunId, TaskId};
use crate::run::Role;
use crate::time::Time;

/// How much waiting a point of priority is worth: a later task of higher priority goes first, but only
/// within this time.
pub const PRIORITY_IS_WORTH: Duration = Duration::from_mins(10);
/// The largest priority; the smallest is its negative.
pub const MAX_PRIORITY: i64 = 1_000_000;

/// A task, as the store has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// Its name.
    pub id: TaskId,
    /// Its number on the board in the order of creation. The store sets it; it is 0 before.
    pub seq: i64,
    /// The title, one line.
    pub title: String,
    /// The description of the work.
    pub body: String,
    /// The profile that works on it.
    pub assignee: Option<ProfileName>,
    /// Its status.
    pub status: Status,
    /// Higher goes first.
    pub priority: i64,
    /// A namespace, with its own share of the slots.
    pub tenant: Option<String>,
    /// Who created it.
    pub created_by: String,
    /// The run that created it, if a worker did.
    pub created_by_run: Option<RunId>,
    /// How many workers stand between it and a person: 0 if a person created it.
    pub depth: u32,
    /// The conversation in which it was created.
    pub session_id: Option<String>,
    /// When it was created.
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
    pub workspace: TaskWorkspace,
    /// The host that has the workspace's directory. Only it can run the task.
    pub workspace_host: Option<HostName>,
    /// Time that a run may take.
    pub max_runtime: Option<Duration>,
    /// Failures, of any cause, after which it is given up; `None` for the settings.
    pub max_retries: Option<u32>,
    /// Skills for the worker.
    pub skills: Vec<String>,
    /// The model, if not the profile's.
    pub model: Option<String>,
    /// The result.
    pub result: Option<String>,
    /// The idempotency key: creating with the same key returns the same task.
    pub idempotency_key: Option<String>,
    /// The run that holds it.
    pub current_run: Option<RunId>,
    /// The profile of that run.
    pub running_as: Option<ProfileName>,
    /// Why it is, or was last, blocked.
    pub block_kind: Option<BlockKind>,
    /// The reason in words.
    pub block_reason: Option<String>,
    /// How often it was blocked for the same kind of reason in a row.
    pub block_recurrences: u32,
    /// Whether only a person may move it on.
    pub gate: bool,
    /// Why a person should look at it.
    pub attention: Option<String>,
    /// When it continues automatically: a scheduled task, one blocked as `transient`, or a ready one
    /// that failed recently.
    pub wake_at: Option<Time>,
    /// Why a ready task waits until then: `backoff` or `rate_limit_cooldown`.
    pub guard: Option<String>,
    /// Whether the work needs a review before it is done.
    pub needs_review: bool,
    /// The profile that reviews it; `None` for a person.
    pub reviewer: Option<ProfileName>,
    /// How many of its parents are neither done nor archived.
    pub pending_parents: u32,
}

/// Where a task is worked on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum TaskWorkspace {
    /// A directory of its own inside the profile's sandbox, removed when it is done.
    #[default]
    Scratch,
    /// A directory of the host.
    Dir {
        /// The directory.
        path: PathBuf,
    },
    /// A working tree of a git repository of the host.
    Worktree {
        /// The repository, or a directory for the tree.
        path: PathBuf,
        /// The branch; `None` for `wt/<task>`.
        branch: Option<String>,
    },
}

impl TaskWorkspace {
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

/// The lane of a task: the profile that would run it next, its tenant, and the only host that can run
/// it. The profile is empty for unassigned tasks, the host for tasks that any host can run.
///
/// The host is part of the key so that tasks of other hosts are counted without reading them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaneKey {
    /// The profile, or empty.
    pub profile: String,
    /// The tenant, or empty.
    pub tenant: String,
    /// The host that has the tasks' directories, or empty.
    pub host: String,
}

/// What a task counts as in its lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LaneShare {
    /// It could be started at once.
    Queued,
    /// It could be started once its guard expires.
    Guarded,
    /// It is being worked on.
    Running,
}

impl Task {
    /// Returns the profile that would run it next: the assignee of a ready task, the reviewer of one in
    /// review.
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

    /// Returns the profile whose queue it is in; `None` if it cannot be started now.
    pub fn queue_as(&self) -> Option<&str> {
        self.next_profile().filter(|_| self.wake_at.is_none())
    }

    /// Returns its rank in the queue; smaller goes first. The rank does not change with time, so that
    /// an index can order the queue, and still age counts: a point of priority is worth
    /// [`PRIORITY_IS_WORTH`] of waiting.
    pub fn rank(&self) -> i64 {
        let worth = i64::try_from(PRIORITY_IS_WORTH.as_millis()).unwrap_or(i64::MAX);
        let since = self.queued_at.unwrap_or(self.created_at).millis();
        let priority = self.priority.clamp(-MAX_PRIORITY, MAX_PRIORITY);
        since.saturating_sub(priority.saturating_mul(worth))
    }

    /// Returns its lane and what it counts as there.
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

/// A comment on a task.
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

/// A file that belongs to a task. Its bytes are in the attachments directory of the board, on the host
/// where it was added.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Attachment {
    /// Its number.
    pub id: i64,
    /// The task.
    pub task_id: TaskId,
    /// Its name, safe as a file name.
    pub filename: String,
    /// The file below the attachments directory of the board.
    #[serde(skip)]
    pub stored_as: String,
    /// The host that has it.
    pub host: HostName,
    /// Its content type.
    pub content_type: Option<String>,
    /// Its size in bytes.
    pub size: u64,
    /// Who added it.
    pub uploaded_by: String,
    /// When.
    pub created_at: Time,
}

/// How often a task failed for one cause since a person last restarted it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FailureCount {
    /// The cause, by the name of the outcome.
    pub cause: crate::run::Outcome,
    /// How often.
    pub count: u32,
    /// The last error.
    pub error: String,
    /// When it last happened.
    pub at: Time,
}

/// Declares an enum whose values have public names.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident: $what:literal { $($(#[$value_doc:meta])* $value:ident = $word:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$value_doc])* $value,)+ }

        impl $name {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$value),+];

            /// Returns the public name.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$value => $word,)+ }
            }
        }

        impl ::std::str::FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> ::std::result::Result<Self, String> {
                Self::ALL.iter().copied().find(|value| value.as_str() == text).ok_or_else(|| {
                    let words: Vec<&str> = Self::ALL.iter().map(|value| value.as_str()).collect();
                    format!("{text:?} is not a valid {}; there are: {}", $what, words.join(", "))
                })
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl ::serde::Serialize for $name {
            fn serialize<S: ::serde::Serializer>(
                &self,
                serializer: S,
            ) -> ::std::result::Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $name {
            fn deserialize<D: ::serde::Deserializer<'de>>(
                deserializer: D,
            ) -> ::std::result::Result<Self, D::Error> {
                let word = <String as ::serde::Deserialize>::deserialize(deserializer)?;
                word.parse().map_err(::serde::de::Error::custom)
            }
        }
    };
}

pub(crate) use words;

words! {
    /// The status of a task.
    Status: "status" {
        /// A rough idea that a person has to turn into a task.
        Triage = "triage",
        /// It waits for its parents.
        Todo = "todo",
        /// It waits for a time, or until a person takes it up.
        Scheduled = "scheduled",
        /// It can be started.
        Ready = "ready",
        /// A run holds it.
        Running = "running",
        /// It waits for a person, or after a transient error for a time.
        Blocked = "blocked",
        /// The work is done and waits for review.
        Review = "review",
        /// It is done.
        Done = "done",
        /// It is archived.
        Archived = "archived",
    }
}

impl Status {
    /// Reports whether children of a task with this status can start.
    pub const fn satisfies_children(self) -> bool {
        matches!(self, Self::Done | Self::Archived)
    }
}

words! {
    /// Why a task is blocked.
    BlockKind: "kind of block" {
        /// A person has to answer or decide.
        NeedsInput = "needs_input",
        /// The worker cannot do it: a permission, a tool or a login is missing.
        Capability = "capability",
        /// A transient error; it is tried again automatically.
        Transient = "transient",
        /// It waits for its parents.
        Dependency = "dependency",
        /// It failed too often.
        GaveUp = "gave_up",
        /// It was created to wait for a person.
        Gate = "gate",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn task(status: Status, priority: i64, queued_at: i64) -> Task {
        let assignee = Some(testing::profile("ada"));
        let queued_at = Some(Time::from_millis(queued_at));
        Task { assignee, status, priority, queued_at, ..testing::task("a task") }
    }

    fn lane(profile: &str) -> LaneKey {
        LaneKey { profile: profile.to_owned(), tenant: String::new(), host: String::new() }
    }

    #[test]
    fn a_point_of_priority_is_worth_ten_minutes_of_waiting_and_no_more() {
        let old = task(Status::Ready, 0, 0);
        let nine_minutes = task(Status::Ready, 1, 9 * 60 * 1000);
        let eleven_minutes = task(Status::Ready, 1, 11 * 60 * 1000);
        assert!(nine_minutes.rank() < old.rank());
        assert!(eleven_minutes.rank() > old.rank());
    }

    #[test]
    fn no_priority_makes_a_rank_overflow() {
        assert!(task(Status::Ready, i64::MAX, i64::MIN).rank() < task(Status::Ready, 0, 0).rank());
        assert!(task(Status::Ready, i64::MIN, i64::MAX).rank() > task(Status::Ready, 0, 0).rank());
    }

    #[test]
    fn a_task_waits_for_the_profile_that_would_run_it_next() {
        let mut task = task(Status::Ready, 0, 0);
        assert_eq!(task.queue_as(), Some("ada"));
        task.assignee = None;
        assert_eq!(task.queue_as(), Some(""), "a task of nobody is queued, too");
        task.status = Status::Review;
        assert_eq!(task.queue_as(), None, "without a reviewer a person looks at it");
        task.reviewer = Some(ProfileName::new("Grace").unwrap());
        assert_eq!(task.queue_as(), Some("grace"));
        assert_eq!(task.lane_share(), Some((lane("grace"), LaneShare::Queued)));
    }

    #[test]
    fn a_task_that_waits_for_its_moment_is_counted_and_not_queued() {
        let waiting = Task { wake_at: Some(Time::from_millis(1)), ..task(Status::Ready, 0, 0) };
        assert_eq!(waiting.queue_as(), None);
        assert_eq!(waiting.lane_share(), Some((lane("ada"), LaneShare::Guarded)));
    }

    #[test]
    fn a_running_task_counts_for_the_profile_that_runs_it() {
        let reviewer = Some(ProfileName::new("grace").unwrap());
        let running = Task { running_as: reviewer, ..task(Status::Running, 0, 0) };
        assert_eq!(running.lane_share(), Some((lane("grace"), LaneShare::Running)));
        assert_eq!(running.queue_as(), None);
    }

    #[test]
    fn a_task_that_nobody_could_start_counts_nowhere() {
        let idle = [
            Status::Triage,
            Status::Todo,
            Status::Scheduled,
            Status::Blocked,
            Status::Done,
            Status::Archived,
        ];
        for status in idle {
            assert_eq!(task(status, 0, 0).lane_share(), None, "{status}");
        }
    }

    #[test]
    fn a_task_that_only_one_host_can_run_stands_in_a_lane_of_its_host() {
        let host = HostName::new("mill");
        let there = Task { workspace_host: Some(host), ..task(Status::Ready, 0, 0) };
        let key = LaneKey { host: "mill".to_owned(), ..lane("ada") };
        assert_eq!(there.lane_share(), Some((key, LaneShare::Queued)));
    }
}
