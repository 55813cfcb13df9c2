//! Sandboxes as JSON.

use serde::Serialize;
use vestal_sandbox::{Summary, SummaryState};
use vestal_wire::Stats;

/// One sandbox, as `ps --json` prints it.
#[derive(Debug, Serialize)]
pub(crate) struct SandboxView {
    profile: String,
    task: String,
    backend: String,
    id: Option<String>,
    generation: u64,
    state: &'static str,
    image: Option<String>,
    created_at: String,
    last_used_at: Option<String>,
    idle_seconds: Option<u64>,
    expires_at: Option<String>,
    jobs_running: u32,
    drift: Vec<String>,
    /// What the backend's own tools know the instance by.
    name: Option<String>,
    image_id: Option<String>,
    /// Limits that cannot be enforced here and were left out.
    unenforced: Vec<String>,
    /// What weakens its isolation, at the user's own wish.
    weakened: Vec<String>,
    /// Why its state is unknown.
    trouble: Option<String>,
    /// How far it is a system of its own, where that depends on the machine.
    tier: Option<String>,
}

impl From<&Summary> for SandboxView {
    fn from(summary: &Summary) -> Self {
        let description = &summary.description;
        Self {
            profile: summary.profile.clone(),
            task: summary.task.clone(),
            backend: summary.backend.clone(),
            id: summary.id.clone(),
            generation: summary.generation,
            state: state_name(summary.state),
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
        }
    }
}

/// Returns the word for a sandbox's state.
pub(crate) fn state_name(state: SummaryState) -> &'static str {
    match state {
        SummaryState::Running => "running",
        SummaryState::Unresponsive => "unresponsive",
        SummaryState::Stopped => "stopped",
        SummaryState::Absent => "absent",
        SummaryState::Unknown => "unknown",
    }
}

/// What a sandbox consumes.
#[derive(Debug, Serialize)]
pub(crate) struct StatsView {
    processes: u32,
    memory_bytes: u64,
    cpu_ms: u64,
    log_bytes: u64,
    guest_memory_bytes: u64,
}

impl From<&Stats> for StatsView {
    fn from(stats: &Stats) -> Self {
        Self {
            processes: stats.processes,
            memory_bytes: stats.memory_bytes,
            cpu_ms: stats.cpu_ms,
            log_bytes: stats.log_bytes,
            guest_memory_bytes: stats.guest_bytes,
        }
    }
}
