//! Sandboxes: what `ps`, `inspect`, `stats`, `stop`, `rm` and `prune` show.

use std::collections::BTreeMap;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vestal_sandbox::client::Welcome;
use vestal_sandbox::{
    Drift, JobInfo, LeftBehind, Overrides, ReapReason, Reaped, Removal, SandboxStats,
    SandboxSummary, Snapshot, Status, SummaryState, TaskName,
};

use crate::{JobView, SnapshotView};

/// The state of a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SandboxState {
    /// Its guest answers.
    Running,
    /// Its process runs and its guest does not answer.
    Unresponsive,
    /// It is there and does not run.
    Stopped,
    /// It has files and no instance.
    Absent,
    /// Its backend cannot be asked; `trouble` says why.
    Unknown,
}

impl SandboxState {
    /// Returns the word for it, as JSON has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Unresponsive => "unresponsive",
            Self::Stopped => "stopped",
            Self::Absent => "absent",
            Self::Unknown => "unknown",
        }
    }
}

impl From<SummaryState> for SandboxState {
    fn from(state: SummaryState) -> Self {
        match state {
            SummaryState::Running => Self::Running,
            SummaryState::Unresponsive => Self::Unresponsive,
            SummaryState::Stopped => Self::Stopped,
            SummaryState::Absent => Self::Absent,
            SummaryState::Unknown => Self::Unknown,
        }
    }
}

/// One sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SandboxView {
    /// The profile whose sandbox it is.
    pub profile: String,
    /// The exact task.
    pub task: String,
    /// The backend it is on.
    pub backend: String,
    /// The instance; null where there is none.
    pub id: Option<String>,
    /// How many instances there have been, with this one.
    pub generation: u64,
    /// Its state.
    pub state: SandboxState,
    /// The image it was made from, where the backend has images.
    pub image: Option<String>,
    /// When the instance, or else the sandbox, was made.
    pub created_at: String,
    /// When it was last used.
    pub last_used_at: Option<String>,
    /// Whole seconds since then.
    pub idle_seconds: Option<u64>,
    /// When it is stopped or removed if it stays unused.
    pub expires_at: Option<String>,
    /// Jobs whose shell runs.
    pub jobs_running: u32,
    /// Keys of settings that differ from those it was made with.
    pub drift: Vec<String>,
    /// What the backend's own tools know the instance by: a container's name.
    pub name: Option<String>,
    /// The image's id.
    pub image_id: Option<String>,
    /// Limits that cannot be enforced here and were left out.
    pub unenforced: Vec<String>,
    /// What weakens its isolation, at the user's own wish.
    pub weakened: Vec<String>,
    /// Why its state is unknown.
    pub trouble: Option<String>,
    /// How far it is a system of its own: `read-only`, `overlay`, `rootfs`; null where that does not depend on the machine.
    pub tier: Option<String>,
    /// What was known before of one on another machine whose state is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_known: Option<LastKnownView>,
}

/// What was last known of a sandbox that has not answered in time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LastKnownView {
    /// Its state.
    pub state: SandboxState,
    /// When that was.
    pub at: String,
    /// Jobs that ran.
    pub jobs_running: u32,
    /// When it had last been used.
    pub last_used_at: Option<String>,
}

impl From<&SandboxSummary> for SandboxView {
    fn from(summary: &SandboxSummary) -> Self {
        let description = &summary.description;
        Self {
            profile: summary.profile.clone(),
            task: summary.task.clone(),
            backend: summary.backend.clone(),
            id: summary.id.clone(),
            generation: summary.generation,
            state: summary.state.into(),
            image: summary.image.clone(),
            created_at: summary.created_at.to_string(),
            last_used_at: summary.last_used_at.map(|time| time.to_string()),
            idle_seconds: summary.idle.map(|idle| idle.as_secs()),
            expires_at: summary.expires_at.map(|time| time.to_string()),
            jobs_running: summary.jobs_running,
            drift: summary.drift.iter().map(|drift| drift.key.clone()).collect(),
            name: description.name.clone(),
            image_id: description.image_id.clone(),
            unenforced: description.unenforced.clone(),
            weakened: description.weakened.clone(),
            trouble: summary.trouble.clone(),
            tier: description.tier.clone(),
            last_known: summary.last_known.as_ref().map(|known| LastKnownView {
                state: known.state.into(),
                at: known.at.to_string(),
                jobs_running: known.jobs_running,
                last_used_at: known.last_used_at.map(|time| time.to_string()),
            }),
        }
    }
}

/// What a sandbox consumes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StatsView {
    /// Processes in it.
    pub processes: u32,
    /// Memory they hold.
    pub memory_bytes: u64,
    /// Processor time they have used.
    pub cpu_ms: u64,
    /// What the logs of its jobs take on disk.
    pub log_bytes: u64,
    /// Memory that the guest itself holds.
    pub guest_memory_bytes: u64,
}

impl From<&SandboxStats> for StatsView {
    fn from(stats: &SandboxStats) -> Self {
        Self {
            processes: stats.processes,
            memory_bytes: stats.memory_bytes,
            cpu_ms: stats.cpu_ms,
            log_bytes: stats.log_bytes,
            guest_memory_bytes: stats.guest_bytes,
        }
    }
}

/// What the sandbox of a task consumes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskStatsView {
    /// The task.
    pub task: String,
    /// What its sandbox consumes.
    #[serde(flatten)]
    pub stats: StatsView,
}

impl TaskStatsView {
    /// Returns the view of what a task's sandbox consumes.
    pub fn new(task: &TaskName, stats: &SandboxStats) -> Self {
        Self { task: task.to_string(), stats: stats.into() }
    }
}

/// What the guest of a running sandbox says of itself.
#[derive(Debug)]
pub struct GuestFacts {
    /// How it greeted.
    pub welcome: Welcome,
    /// How it is.
    pub status: Status,
    /// What the sandbox consumes.
    pub stats: SandboxStats,
    /// The newest jobs.
    pub jobs: Vec<JobInfo>,
}

/// Everything about a sandbox.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SandboxDetailsView {
    /// What a list says of it.
    #[serde(flatten)]
    pub sandbox: SandboxView,
    /// Its directory on the host.
    pub dir: String,
    /// The settings it was made with, those at their defaults left out.
    pub spec: BTreeMap<String, String>,
    /// What has changed since then.
    pub drift_details: Vec<DriftView>,
    /// How long it may idle; null: for ever.
    pub retention_seconds: Option<u64>,
    /// Whether it ends with the process that made it.
    pub owned: bool,
    /// That process.
    pub owner_pid: Option<u32>,
    /// How its guest is reached, where there is more than one way.
    pub transport: Option<String>,
    /// What was asked for this sandbox alone.
    pub overrides: OverridesView,
    /// What the backend knows the instance by; its form is the backend's.
    pub locator: serde_json::Value,
    /// Its guest; null where it does not run or does not answer.
    pub guest: Option<GuestView>,
    /// What it consumes, as its guest says.
    pub stats: Option<StatsView>,
    /// Its newest jobs, as its guest says.
    pub jobs: Vec<JobView>,
    /// What is missing for a better tier, and how to have it.
    pub missing: Vec<String>,
    /// Its snapshots.
    pub snapshots: Vec<SnapshotView>,
}

impl SandboxDetailsView {
    /// Returns the view of a sandbox, of what its guest says, and of its snapshots.
    pub fn new(
        summary: &SandboxSummary,
        guest: Option<&GuestFacts>,
        snapshots: &[Snapshot],
    ) -> Self {
        let jobs = guest.map_or(&[][..], |guest| &guest.jobs);
        Self {
            sandbox: summary.into(),
            dir: shown(&summary.dir),
            spec: summary.spec.clone(),
            drift_details: summary.drift.iter().map(DriftView::from).collect(),
            retention_seconds: summary.retention.map(|retention| retention.as_secs()),
            owned: summary.owned,
            owner_pid: summary.owner.as_ref().map(|owner| owner.pid),
            transport: summary.description.transport.clone(),
            overrides: (&summary.overrides).into(),
            locator: summary.locator.clone(),
            guest: guest.map(GuestView::from),
            stats: guest.map(|guest| (&guest.stats).into()),
            jobs: jobs.iter().map(|info| JobView::new(&summary.task, info)).collect(),
            missing: summary.description.missing.clone(),
            snapshots: snapshots.iter().map(SnapshotView::from).collect(),
        }
    }
}

/// What was asked for one sandbox alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OverridesView {
    /// The image.
    pub image: Option<String>,
    /// The directory that commands start in.
    pub cwd: Option<String>,
    /// The backend.
    pub backend: Option<String>,
    /// The directory of the host that is its workspace.
    pub mount: Option<String>,
    /// Directories of the host that it has at the same path; left out where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub binds: Vec<String>,
}

impl From<&Overrides> for OverridesView {
    fn from(overrides: &Overrides) -> Self {
        Self {
            image: overrides.image.clone(),
            cwd: overrides.cwd.as_deref().map(shown),
            backend: overrides.backend.clone(),
            mount: overrides.mount.as_deref().map(shown),
            binds: overrides.binds.iter().map(|bind| shown(bind)).collect(),
        }
    }
}

/// A setting that differs from the one a sandbox was made with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DriftView {
    /// The setting's key.
    pub key: String,
    /// What the sandbox was made with; null: the default.
    pub was: Option<String>,
    /// What the settings say now; null: the default.
    pub now: Option<String>,
    /// Whether the change isolates more.
    pub tightens: bool,
    /// Whether the change isolates less.
    pub loosens: bool,
}

impl From<&Drift> for DriftView {
    fn from(drift: &Drift) -> Self {
        let Drift { key, was, now, tightens, loosens } = drift.clone();
        Self { key, was, now, tightens, loosens }
    }
}

/// The first process of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GuestView {
    /// The build it is.
    pub program: String,
    /// The version of the protocol it speaks.
    pub protocol: String,
    /// Which start of it this is.
    pub incarnation: String,
    /// Which start of the machine it runs in.
    pub boot: String,
    /// Whole seconds since it was started.
    pub up_seconds: u64,
    /// Jobs on its record.
    pub jobs_known: u32,
}

impl From<&GuestFacts> for GuestView {
    fn from(GuestFacts { welcome, status, .. }: &GuestFacts) -> Self {
        Self {
            program: welcome.program.clone(),
            protocol: format!("{}.{}", welcome.major, welcome.minor),
            incarnation: welcome.incarnation.clone(),
            boot: welcome.boot.clone(),
            up_seconds: status.up_ms / 1000,
            jobs_known: status.jobs_known,
        }
    }
}

/// A sandbox that was stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StoppedView {
    /// The task.
    pub task: String,
    /// Whether it ran before.
    pub was_running: bool,
    /// Whether files that were in memory went with its processes.
    pub files_lost: bool,
}

/// A sandbox that was removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RemovedView {
    /// The task.
    pub task: String,
    /// How many instances were removed.
    pub instances: usize,
    /// Directories of the sandbox's files that were kept.
    pub kept: Vec<String>,
    /// Files of the sandbox that its backend keeps, by the backend's names.
    pub kept_volumes: Vec<String>,
}

/// What `rm` did about a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum RemovalView {
    /// Its record alone was removed, because its machine did not answer.
    Forgotten(ForgottenView),
    /// It was removed.
    Removed(RemovedView),
}

/// A sandbox that was forgotten.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForgottenView {
    /// The task.
    pub task: String,
    /// How many instances were forgotten.
    pub forgotten: usize,
    /// The machine that they were on.
    pub machine: String,
    /// The directory there in which work was, and may be left.
    pub left: String,
}

impl ForgottenView {
    /// Returns the view of a task's sandbox that was forgotten.
    pub fn new(task: &TaskName, left: &LeftBehind) -> Self {
        Self {
            task: task.to_string(),
            forgotten: left.instances,
            machine: left.machine.clone(),
            left: left.workspace.clone(),
        }
    }
}

impl RemovedView {
    /// Returns the view of a task's sandbox that was removed.
    pub fn new(task: &TaskName, removal: &Removal) -> Self {
        Self {
            task: task.to_string(),
            instances: removal.instances,
            kept: removal.kept.iter().map(|path| shown(path)).collect(),
            kept_volumes: removal.kept_volumes.clone(),
        }
    }
}

/// Why an instance is left over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReapCause {
    /// A process died while it worked on it.
    Unfinished,
    /// The process it belonged to is gone.
    Ownerless,
    /// Another instance has taken its place.
    Superseded,
    /// It was unused for longer than the retention.
    Expired,
    /// It was forgotten while its machine did not answer.
    Forgotten,
}

impl From<ReapReason> for ReapCause {
    fn from(reason: ReapReason) -> Self {
        match reason {
            ReapReason::Unfinished => Self::Unfinished,
            ReapReason::Ownerless => Self::Ownerless,
            ReapReason::Superseded => Self::Superseded,
            ReapReason::Expired => Self::Expired,
            ReapReason::Forgotten => Self::Forgotten,
        }
    }
}

/// An instance that is left over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReapedView {
    /// The task.
    pub task: String,
    /// The instance; null when only a removal had to be finished.
    pub id: Option<String>,
    /// Why it is left over.
    pub reason: ReapCause,
    /// Whether it was removed; false in a dry run.
    pub removed: bool,
}

impl ReapedView {
    /// Returns the view of an instance that was, or would be, removed.
    pub fn new(reaped: &Reaped, removed: bool) -> Self {
        Self {
            task: reaped.task.clone(),
            id: reaped.instance.clone(),
            reason: reaped.reason.into(),
            removed,
        }
    }
}

/// Returns a path as text.
pub(crate) fn shown(path: &Path) -> String {
    path.display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_reaped_has_the_promised_shape() {
        let instance = Some("i".to_owned());
        let reaped = Reaped { task: "web".to_owned(), instance, reason: ReapReason::Ownerless };
        assert_eq!(
            serde_json::to_string(&ReapedView::new(&reaped, true)).unwrap(),
            r#"{"task":"web","id":"i","reason":"ownerless","removed":true}"#
        );
    }
}
