//! Boards in memory, for tests of plans.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use vestal_config::ProfileName;

use super::{
    BoardSnapshot, Caps, DispatchPolicy, FailurePolicy, Liveness, OutsideLoad, Shown, WatchedRun,
};
use crate::id::{HostId, HostName, RunId, TaskId};
use crate::run::{Run, RunProcess};
use crate::store::Lane;
use crate::task::{LaneKey, LaneShare, Status, Task, TaskWorkspace};
use crate::testing;
use crate::time::Time;

/// The moment of all these boards.
pub(super) const NOW: Time = Time::from_millis(1_000_000_000);
pub(super) const LEASE: Duration = Duration::from_mins(15);

pub(super) fn host(name: &str) -> HostId {
    HostId { name: HostName::new(name), boot: format!("boot of {name}") }
}

pub(super) fn name(name: &str) -> ProfileName {
    ProfileName::new(name).unwrap()
}

/// A policy without caps, of the host `here`.
pub(super) fn policy() -> DispatchPolicy {
    DispatchPolicy {
        host: host("here"),
        caps: Caps::default(),
        default_assignee: None,
        lease: LEASE,
        stale_after: Some(Duration::from_hours(4)),
        failures: FailurePolicy::default(),
        shown: Shown::First(100),
    }
}

pub(super) fn capped(caps: Caps) -> DispatchPolicy {
    DispatchPolicy { caps, ..policy() }
}

/// A board in memory.
pub(super) struct PlanInput {
    pub(super) tasks: BTreeMap<TaskId, Task>,
    pub(super) runs: Vec<WatchedRun>,
    pub(super) profiles: BTreeSet<String>,
    pub(super) outside: OutsideLoad,
    seq: i64,
}

impl PlanInput {
    /// Returns an empty board with these profiles.
    pub(super) fn of(profiles: &[&str]) -> Self {
        Self {
            tasks: BTreeMap::new(),
            runs: Vec::new(),
            profiles: profiles.iter().map(|&profile| profile.to_owned()).collect(),
            outside: OutsideLoad::default(),
            seq: 0,
        }
    }

    /// Puts a ready task on it.
    pub(super) fn ready(&mut self, assignee: &str) -> TaskId {
        self.ready_with(assignee, |_| {})
    }

    /// Puts a ready task on it, with something special about it.
    pub(super) fn ready_with(&mut self, assignee: &str, with: impl FnOnce(&mut Task)) -> TaskId {
        self.seq += 1;
        let id: TaskId = format!("t_{:012}", self.seq).parse().unwrap();
        let mut task = task(id.clone(), self.seq);
        task.assignee = (!assignee.is_empty()).then(|| name(assignee));
        with(&mut task);
        self.tasks.insert(id.clone(), task);
        id
    }

    /// Puts a task on it that is being worked on here, and well.
    pub(super) fn running(&mut self, profile: &str) -> RunId {
        self.running_with(profile, Liveness::Alive, |_, _| {})
    }

    /// Puts a task on it that is being worked on, with something special about it.
    pub(super) fn running_with(
        &mut self,
        profile: &str,
        life: Liveness,
        with: impl FnOnce(&mut Run, &mut Task),
    ) -> RunId {
        let id = self.ready(profile);
        let task = self.tasks.get_mut(&id).unwrap();
        let mut run = run(RunId::new(task.seq), &id, profile, life);
        task.status = Status::Running;
        task.current_run = Some(run.id);
        task.running_as = Some(name(profile));
        with(&mut run, task);
        let (task, number) = (Some(task.clone()), run.id);
        self.runs.push(WatchedRun { run, task, failures: Vec::new(), life });
        number
    }

    pub(super) fn snapshot(&self) -> BoardSnapshot {
        let mut lanes: BTreeMap<LaneKey, Lane> = BTreeMap::new();
        let mut heads: BTreeMap<LaneKey, Vec<Task>> = BTreeMap::new();
        let mut guarded = Vec::new();
        for task in self.tasks.values() {
            let Some((key, share)) = task.lane_share() else { continue };
            let lane = lanes.entry(key.clone()).or_insert(Lane {
                key: key.clone(),
                queued: 0,
                guarded: 0,
                running: 0,
            });
            match share {
                LaneShare::Queued => {
                    lane.queued += 1;
                    heads.entry(key).or_default().push(task.clone());
                }
                LaneShare::Guarded => {
                    lane.guarded += 1;
                    guarded.push(task.clone());
                }
                LaneShare::Running => lane.running += 1,
            }
        }
        for tasks in heads.values_mut() {
            tasks.sort_by_key(|task| (task.rank(), task.seq));
        }
        let is_due = |task: &&Task| task.wake_at.is_some_and(|at| at <= NOW);
        BoardSnapshot {
            now: NOW,
            lanes: lanes.into_values().collect(),
            heads,
            due: self.tasks.values().filter(is_due).cloned().collect(),
            guarded,
            runs: self.runs.clone(),
            reviewing: BTreeSet::new(),
            busy_elsewhere: BTreeSet::new(),
            outside: self.outside,
            profiles: self.profiles.clone(),
        }
    }
}

pub(super) fn dir(path: &str) -> TaskWorkspace {
    TaskWorkspace::Dir { path: PathBuf::from(path) }
}

/// A run that began a minute ago.
fn run(id: RunId, task: &TaskId, profile: &str, life: Liveness) -> Run {
    let host = match life {
        Liveness::Foreign => Some(host("there")),
        Liveness::Person => None,
        Liveness::Unknown | Liveness::Alive | Liveness::Gone { .. } => Some(host("here")),
    };
    let process = host.clone().filter(|_| life != Liveness::Unknown);
    let began = Time::from_millis(NOW.millis() - 60_000);
    Run {
        id,
        profile: (!profile.is_empty()).then(|| name(profile)),
        process: process.map(|host| RunProcess { host, pid: 7, start: 7 }),
        host,
        started_at: began,
        expires_at: began.after(LEASE),
        heartbeat_at: Some(began),
        activity_at: Some(began),
        gone: false,
        ..testing::run(task)
    }
}

/// A ready task of nobody that was made `seq` milliseconds after the first.
fn task(id: TaskId, seq: i64) -> Task {
    let made = Time::from_millis(NOW.millis() - 600_000 + seq);
    let queued_at = Some(made);
    Task { id, seq, created_at: made, updated_at: made, queued_at, ..testing::task("a task") }
}
