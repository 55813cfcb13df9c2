//! List sandboxes without using them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, StreamExt as _, stream};
use jiff::Timestamp;
use tokio::time::Instant;
use vestal_config::AnyKey as _;
use vestal_wire::{AttachJob, CallReply, CallRequest, HostRole, Status};

use super::attach::{greet, greet_existing};
use super::lock::unlocated;
use super::open::NOT_ANSWERED;
use super::reap::last_activity;
use super::{Engine, Inner, reap};
use crate::backend::{
    Backend, Confinement, Description, HostProcess, Instance, InstanceState, Locator,
};
use crate::client::Connection;
use crate::job::{JobStream, Observer};
use crate::settings::keys;
use crate::spec::Drift;
use crate::store::{
    InstanceMark, Intent, LastKnownRecord, SandboxDir, SandboxRecord, list_dirs, runs_here,
};
use crate::{Error, Overrides, ProcessId, TaskName};

/// How long a listing waits for one guest.
const LIST_TIMEOUT: Duration = Duration::from_secs(3);

/// What is wrong with a sandbox whose record names another key than this home has for its task.
const OTHER_HOME: &str = "it belongs to another identity than home.json has: that file was lost \
                          or replaced, or the sandbox's directory was copied from another home";

/// Most sandboxes that are asked at a time.
const AT_ONCE: usize = 64;

/// State of a sandbox, as listings show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SummaryState {
    /// Its guest answers.
    Running,
    /// Its process runs and its guest does not answer; the next use mends that.
    Unresponsive,
    /// It is there and does not run.
    Stopped,
    /// It has files and no instance.
    Absent,
    /// Its backend cannot be asked.
    Unknown,
}

/// What was last known of a sandbox that has not answered in time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastKnown {
    /// Its state: running or stopped.
    pub state: SummaryState,
    /// When that was.
    pub at: Timestamp,
    /// Jobs that ran.
    pub jobs_running: u32,
    /// When it had last been used.
    pub last_used_at: Option<Timestamp>,
}

/// What a listing shows of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxSummary {
    /// The profile.
    pub profile: String,
    /// The exact task.
    pub task: String,
    /// The backend.
    pub backend: String,
    /// The instance.
    pub id: Option<String>,
    /// Its generation.
    pub generation: u64,
    /// Its state.
    pub state: SummaryState,
    /// The image it was made from, where the backend has images.
    pub image: Option<String>,
    /// What else its backend reports about the instance.
    pub description: Description,
    /// Why its state is unknown.
    pub trouble: Option<String>,
    /// What was known of it before, where its state is unknown and it is on another machine.
    pub last_known: Option<LastKnown>,
    /// What was asked for this sandbox alone.
    pub overrides: Overrides,
    /// When the instance, or else the sandbox, was made.
    pub created_at: Timestamp,
    /// When it was last used.
    pub last_used_at: Option<Timestamp>,
    /// Time since then.
    pub idle: Option<Duration>,
    /// When it ends, or is removed, if nobody uses it.
    pub expires_at: Option<Timestamp>,
    /// Jobs whose shell runs.
    pub jobs_running: u32,
    /// Settings that differ from the ones it was made with.
    pub drift: Vec<Drift>,
    /// The settings it was made with, those at their defaults left out.
    pub spec: BTreeMap<String, String>,
    /// How long it may idle; absent: for ever.
    pub retention: Option<Duration>,
    /// What its backend knows it by.
    pub locator: Locator,
    /// Whether it ends with the process that made it.
    pub owned: bool,
    /// That process.
    pub owner: Option<ProcessId>,
    /// Its directory on the host.
    pub dir: std::path::PathBuf,
    /// Number of its snapshots.
    pub snapshots: usize,
}

impl Engine {
    /// Returns every sandbox of this profile. Being listed is not being used. Machines that are
    /// far or slow are not waited for: what was last known of a sandbox there is returned, as
    /// that.
    #[boxed]
    pub async fn list(&self) -> Result<Vec<SandboxSummary>, Error> {
        let now = Instant::now();
        let deadlines = Deadlines {
            here: now + self.inner.probe_timeouts.listing,
            elsewhere: now + self.inner.probe_timeouts.listing.min(ELSEWHERE_WITHIN),
        };
        let dirs = list_dirs(&self.inner.sandboxes)?;
        let asked: Vec<BoxFuture<'_, _>> =
            dirs.iter().map(|dir| summaries(&self.inner, dir, deadlines).boxed()).collect();
        let answers: Vec<_> = stream::iter(asked).buffered(AT_ONCE).collect().await;
        let mut summaries = Vec::new();
        for (dir, answer) in dirs.iter().zip(answers) {
            match answer {
                Ok(found) => summaries.extend(found),
                Err(error) => {
                    tracing::warn!(dir = %dir.path().display(), %error, "cannot be listed");
                }
            }
        }
        Ok(summaries)
    }

    /// Returns what there is of one task: its sandbox, and instances that
    /// belong to processes.
    #[boxed]
    pub async fn inspect(&self, task: &TaskName) -> Result<Vec<SandboxSummary>, Error> {
        let dir = self.inner.dir(&self.inner.key(task));
        // A caller that asks for one waits for it.
        let deadline = Instant::now() + self.inner.probe_timeouts.listing;
        let deadlines = Deadlines { here: deadline, elsewhere: deadline };
        let found = summaries(&self.inner, &dir, deadlines).await?;
        if found.is_empty() { Err(Error::NoSandbox { task: task.to_string() }) } else { Ok(found) }
    }

    /// Connects to a running sandbox to look at it, without using it. One that
    /// has ended is [`Error::Stopped`], one that runs and does not answer
    /// [`Error::Unresponsive`].
    #[boxed]
    pub async fn observe(&self, task: &TaskName) -> Result<Connection, Error> {
        let key = self.inner.key(task);
        let stopped = || Error::Stopped { task: task.to_string() };
        let known = self.inner.handles().get(&key).cloned();
        if let Some(handle) = known.filter(|handle| handle.is_owned()) {
            // It is on record nowhere but in this process.
            let (backend, instance) = handle.place().await;
            return greet_existing(task, &*backend, &instance, HostRole::Observer).await;
        }
        let dir = self.inner.dir(&key);
        let record =
            dir.record_of(&key)?.ok_or_else(|| Error::NoSandbox { task: task.to_string() })?;
        self.inner.check_permitted(task, &record.overrides, &record.backend)?;
        let backend = self.inner.backend(task, &record.backend)?;
        let instance = record.instance(&dir).ok_or_else(stopped)?;
        greet_existing(task, &**backend, &instance, HostRole::Observer).await
    }

    /// Follows a job of a running sandbox without using it, through lost
    /// connections. Nothing is started for it.
    #[boxed]
    pub async fn observe_job(
        &self,
        task: &TaskName,
        request: AttachJob,
    ) -> Result<JobStream, Error> {
        let observer = Observer { engine: self.clone(), task: task.clone() };
        JobStream::attach(Arc::new(observer), request).await
    }
}

impl Engine {
    /// Returns the task of the sandbox of this profile that one of these processes is the guest of:
    /// given a process with its parents, the sandbox that it runs in. Engines on another machine have
    /// no processes here.
    pub fn sandbox_of_processes(&self, pids: &[u32]) -> Option<TaskName> {
        let dirs = list_dirs(&self.inner.sandboxes).ok()?;
        dirs.iter().find_map(|dir| {
            let record = dir.read_record().ok().flatten()?;
            let declared = self.inner.declaration(&record.backend)?;
            let instance = record.instance.as_ref()?;
            let processes = (declared.host_processes)(&instance.located(dir));
            let is_one = processes.into_iter().any(|process| match process {
                HostProcess::Known(process) => pids.contains(&process.pid),
                HostProcess::Number(pid) => pids.contains(&pid),
            });
            // The number may be another process's by now.
            (is_one && runs_here(dir, declared, instance)).then(|| record.task.parse().ok())?
        })
    }
}

/// How long a listing waits for sandboxes on another machine.
const ELSEWHERE_WITHIN: Duration = Duration::from_millis(1500);

/// Until when answers are waited for.
#[derive(Debug, Clone, Copy)]
struct Deadlines {
    /// From this machine, and engines that it reaches.
    here: Instant,
    /// From other machines.
    elsewhere: Instant,
}

impl Deadlines {
    fn of(self, backend: &dyn Backend) -> Instant {
        if is_elsewhere(backend) { self.elsewhere } else { self.here }
    }
}

/// Returns whether instances are on another machine.
fn is_elsewhere(backend: &dyn Backend) -> bool {
    backend.confinement() == Confinement::Remote
}

async fn summaries(
    engine: &Inner,
    dir: &SandboxDir,
    deadlines: Deadlines,
) -> Result<Vec<SandboxSummary>, Error> {
    let record = dir.read_record()?;
    let mut found = Vec::new();
    if let Some(record) = &record {
        found.push(summarise(engine, dir, record, deadlines).await?);
    }
    for id in dir.instance_ids()? {
        let current = record.as_ref().and_then(|record| record.instance.as_ref());
        if current.is_none_or(|current| current.id != id) {
            found.extend(summarise_owned(engine, dir, id, deadlines).await?);
        }
    }
    Ok(found)
}

async fn summarise(
    engine: &Inner,
    dir: &SandboxDir,
    record: &SandboxRecord,
    deadlines: Deadlines,
) -> Result<SandboxSummary, Error> {
    let made = record.instance.as_ref();
    let backend = reap::backend_for(engine, Some(record), None)?;
    let deadline = deadlines.of(&*backend);
    let description = made.map(|made| backend.describe(&made.locator)).unwrap_or_default();
    let mut summary = SandboxSummary {
        profile: record.profile.clone(),
        task: record.task.clone(),
        backend: record.backend.clone(),
        id: made.map(|made| made.id.clone()),
        generation: record.generation,
        state: SummaryState::Absent,
        image: description.image.clone(),
        description,
        trouble: None,
        last_known: None,
        overrides: record.overrides.clone(),
        created_at: made.map_or(record.created_at, |made| made.created_at),
        last_used_at: None,
        idle: None,
        expires_at: None,
        jobs_running: 0,
        drift: Vec::new(),
        spec: made.map(|made| made.spec.clone()).unwrap_or_default(),
        retention: made.and_then(|made| made.retention_seconds.map(Duration::from_secs)),
        locator: made.map(|made| made.locator.clone()).unwrap_or_default(),
        owned: false,
        owner: None,
        dir: dir.path().to_owned(),
        // An unreadable directory is reported by the listing of snapshots.
        snapshots: dir.snapshot_names().map_or(0, |names| names.len()),
    };
    if record.profile == engine.profile
        && record.task.parse().is_ok_and(|task| engine.key(&task).hash() != record.key)
    {
        summary.state = SummaryState::Unknown;
        summary.trouble = Some(OTHER_HOME.to_owned());
        return Ok(summary);
    }
    // One that cannot be read is for its owner to mend.
    if let Ok(Some(Intent::Remove { problem: Some(problem), .. })) = dir.read_intent() {
        summary.trouble = Some(format!("its removal is not finished: {problem}"));
        if dir.instance_ids()?.is_empty() {
            return Ok(summary);
        }
    }
    let (Some(made), Some(instance)) = (made, record.instance(dir)) else {
        return Ok(summary);
    };
    // A setting that cannot be read is for `config check` to tell.
    if let Ok(spec) = engine.spec(&*backend, &record.overrides) {
        summary.drift = spec.drift_from(&made.spec, |key| backend.tightening(key));
    }
    // A guest that answers spares the question to its backend.
    if let Some(status) = status(&*backend, &instance, deadline).await {
        summary.fill(&status);
        summary.keep(dir, &*backend);
        return Ok(summary);
    }
    let state = match state_by(&*backend, &instance, deadline).await {
        Ok(state) => state,
        Err(trouble) => {
            summary.state = SummaryState::Unknown;
            summary.trouble = Some(trouble);
            summary.last_known = LastKnownRecord::read(dir, &instance.id).map(LastKnown::from);
            return Ok(summary);
        }
    };
    match state {
        InstanceState::Absent => {}
        InstanceState::Broken { .. } | InstanceState::Paused => {
            summary.state = SummaryState::Unresponsive;
        }
        InstanceState::Stopped { since } => {
            summary.state = SummaryState::Stopped;
            let used =
                since.map(|since| last_activity(backend.declaration().idle_source, dir, since));
            summary.last_used_at = used;
            summary.expires_at =
                used.zip(summary.retention).and_then(|(used, span)| used.checked_add(span).ok());
            summary.idle = used.and_then(age);
        }
        InstanceState::Running => summary.state = SummaryState::Unresponsive,
    }
    summary.keep(dir, &*backend);
    Ok(summary)
}

/// Describes an instance that belongs to a process; nothing where there is
/// only rubbish for the reaper.
async fn summarise_owned(
    engine: &Inner,
    dir: &SandboxDir,
    id: String,
    deadlines: Deadlines,
) -> Result<Option<SandboxSummary>, Error> {
    let instance = unlocated(dir, id);
    let mark = InstanceMark::read(&instance.dir)?;
    let Some(owner) = mark.as_ref().and_then(|mark| mark.owner.clone()) else {
        return Ok(None);
    };
    let backend = reap::backend_for(engine, None, mark.as_ref())?;
    let deadline = deadlines.of(&*backend);
    let state = state_by(&*backend, &instance, deadline).await;
    let created = std::fs::metadata(&instance.dir).and_then(|metadata| metadata.created());
    let mut summary = SandboxSummary {
        profile: engine.profile.clone(),
        task: dir
            .path()
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default(),
        backend: owner.backend,
        id: Some(instance.id.clone()),
        generation: 1,
        state: SummaryState::Stopped,
        image: None,
        description: Description::default(),
        trouble: None,
        last_known: None,
        overrides: Overrides::default(),
        created_at: created.ok().and_then(|time| time.try_into().ok()).unwrap_or_default(),
        last_used_at: None,
        idle: None,
        expires_at: None,
        jobs_running: 0,
        drift: Vec::new(),
        spec: BTreeMap::new(),
        retention: None,
        locator: Locator::Null,
        owned: true,
        owner: Some(owner.process),
        dir: dir.path().to_owned(),
        snapshots: 0,
    };
    match state {
        Ok(InstanceState::Absent) => return Ok(None),
        Ok(InstanceState::Stopped { since } | InstanceState::Broken { since }) => {
            summary.last_used_at = since;
        }
        Ok(InstanceState::Paused) => summary.state = SummaryState::Unresponsive,
        Ok(InstanceState::Running) => match status(&*backend, &instance, deadline).await {
            Some(status) => summary.fill(&status),
            None => summary.state = SummaryState::Unresponsive,
        },
        Err(trouble) => {
            summary.state = SummaryState::Unknown;
            summary.trouble = Some(trouble);
        }
    }
    Ok(Some(summary))
}

async fn status(backend: &dyn Backend, instance: &Instance, deadline: Instant) -> Option<Status> {
    let ask = async {
        let connection = greet(backend, instance, HostRole::Observer).await.ok()?;
        match connection.call(CallRequest::Status).await.ok()? {
            CallReply::Status(status) => Some(status),
            _ => None,
        }
    };
    let within = deadline.min(Instant::now() + LIST_TIMEOUT);
    tokio::time::timeout_at(within, ask).await.ok().flatten()
}

/// Asks a backend for the state of an instance, or says why that is not known.
async fn state_by(
    backend: &dyn Backend,
    instance: &Instance,
    deadline: Instant,
) -> Result<InstanceState, String> {
    match tokio::time::timeout_at(deadline, backend.state(instance)).await {
        Ok(state) => state.map_err(|error| error.to_string()),
        Err(_) => Err(format!("backend {}: {NOT_ANSWERED}", backend.name())),
    }
}

impl SandboxSummary {
    /// Returns whether its workspace and home are in memory, and so end with
    /// its processes.
    pub fn has_files_in_memory(&self) -> bool {
        self.state != SummaryState::Absent
            && self.state != SummaryState::Stopped
            && in_memory(&self.spec)
    }

    /// Keeps what is known of one on another machine for a time when that does not answer.
    fn keep(&self, dir: &SandboxDir, backend: &dyn Backend) {
        let running = match self.state {
            SummaryState::Running => true,
            SummaryState::Stopped => false,
            SummaryState::Unresponsive | SummaryState::Absent | SummaryState::Unknown => return,
        };
        let Some(id) = self.id.as_deref().filter(|_| is_elsewhere(backend)) else {
            return;
        };
        let mut known = LastKnownRecord::new(id, running);
        known.jobs_running = self.jobs_running;
        known.last_used_at = self.last_used_at;
        if let Err(error) = known.write(dir) {
            tracing::debug!(%error, "what is known of it is not kept");
        }
    }

    fn fill(&mut self, status: &Status) {
        self.state = SummaryState::Running;
        self.jobs_running = status.jobs_running;
        self.idle = Some(Duration::from_millis(status.idle_ms));
        self.last_used_at = i64::try_from(status.last_used_ms)
            .ok()
            .and_then(|millis| Timestamp::from_millisecond(millis).ok());
        self.expires_at = status
            .expires_in_ms
            .and_then(|left| Timestamp::now().checked_add(Duration::from_millis(left)).ok());
    }
}

impl From<LastKnownRecord> for LastKnown {
    fn from(known: LastKnownRecord) -> Self {
        let state = if known.running { SummaryState::Running } else { SummaryState::Stopped };
        let LastKnownRecord { at, jobs_running, last_used_at, .. } = known;
        Self { state, at, jobs_running, last_used_at }
    }
}

/// Returns whether files of an instance that was made like this are in memory.
pub(super) fn in_memory(spec: &BTreeMap<String, String>) -> bool {
    spec.get(keys::CONTAINER_PERSISTENT.name()).is_some_and(|value| value == "false")
}

fn age(then: Timestamp) -> Option<Duration> {
    Duration::try_from(Timestamp::now().duration_since(then)).ok()
}

#[cfg(test)]
#[path = "list_tests.rs"]
mod tests;
