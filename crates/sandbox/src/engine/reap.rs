//! The orphan reaper removes what no process uses and no setting keeps.
//!
//! It never touches a running instance, one of another home, or the key that
//! is about to be used; and it never fails or delays its caller.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, StreamExt as _, stream};
use jiff::Timestamp;
use tokio::time::{Instant, timeout, timeout_at};

use super::lock::unlocated;
use super::open::NOT_ANSWERED;
use super::remove::{FilesOnRemoval, kept_files};
use super::{Engine, Inner, forget, lock, remove, snapshot, sweep};
use crate::backend::{
    Backend, FoundInstance, IdleSource, Instance, InstanceFilter, InstanceState, Owner,
};
use crate::store::{InstanceMark, KeyLock, SandboxDir, SandboxRecord, StoreError, list_dirs};
use crate::{Error, Key, Overrides, TaskName};

/// Why something is reaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReapReason {
    /// A process died while it was making, stopping or removing it.
    Unfinished,
    /// It belonged to a process that is gone.
    Ownerless,
    /// Another instance has taken its place.
    Superseded,
    /// It has been stopped and unused for longer than the retention.
    Expired,
    /// It was forgotten while its machine did not answer.
    Forgotten,
}

/// Something the reaper removed, or would remove.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reaped {
    /// The task.
    pub task: String,
    /// The instance; absent for what a process left that died over the sandbox.
    pub instance: Option<String>,
    /// Why.
    pub reason: ReapReason,
}

/// What a pruning came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pruned {
    /// What was removed, or would be.
    pub reaped: Vec<Reaped>,
    /// What could not be looked at, and was left alone: a task or a backend, and
    /// why.
    pub unanswered: Vec<(String, String)>,
    /// Directories with files that belong to no sandbox that is known; they are
    /// left alone.
    pub unrecorded: Vec<std::path::PathBuf>,
}

/// Most sandboxes that are looked at at a time.
const AT_ONCE: usize = 32;

/// What to do with one finding.
#[derive(Debug)]
struct ReapFinding {
    dir: SandboxDir,
    reaped: Reaped,
}

impl Engine {
    /// Removes what nobody can want any more and returns what that was; with
    /// `dry_run` only says so.
    #[boxed]
    pub async fn prune(&self, dry_run: bool) -> Result<Vec<Reaped>, Error> {
        Ok(self.prune_with_report(dry_run).await?.reaped)
    }

    /// Does the same and returns as well what could not be looked at.
    #[boxed]
    pub async fn prune_with_report(&self, dry_run: bool) -> Result<Pruned, Error> {
        let inner = &self.inner;
        let leftovers = sweep::reap_leftovers(inner, None, dry_run).await?;
        let mut pruned = reap(inner, None, None, dry_run).await?;
        pruned.reaped.splice(0..0, leftovers);
        pruned.unrecorded = sweep::unrecorded(inner)?;
        let named = inner.named_backend(&Overrides::default())?;
        for backend in inner.backends.iter() {
            let is_relied_on =
                named.as_deref() == Some(backend.name()) || is_recorded(inner, &**backend)?;
            if !is_relied_on && named.is_some() {
                // Asking it could start its engine for nothing.
                continue;
            }
            match reap_marked(inner, &**backend, None, dry_run).await {
                Ok(reaped) => pruned.reaped.extend(reaped),
                Err(reason) if is_relied_on => {
                    pruned.unanswered.push((format!("backend {}", backend.name()), reason));
                }
                Err(_) => {}
            }
        }
        Ok(pruned)
    }
}

/// Removes what nobody can want, on the backend that is in use and on those
/// that need no engine; on all when none is named. One failure does not
/// stop the sweep.
pub(super) async fn reap(
    engine: &Inner,
    spare: Option<&Key>,
    used: Option<&str>,
    dry_run: bool,
) -> Result<Pruned, Error> {
    let spared = spare.map(|key| engine.dir(key));
    let mut dirs = list_dirs(&engine.sandboxes)?;
    dirs.retain(|dir| spared.as_ref() != Some(dir) && is_swept(engine, dir, used));
    let deadline = Instant::now() + engine.probe_timeouts.examining;
    let asked: Vec<BoxFuture<'_, _>> =
        dirs.iter().map(|dir| timeout_at(deadline, findings(engine, dir)).boxed()).collect();
    let answers: Vec<_> = stream::iter(asked).buffered(AT_ONCE).collect().await;
    let mut pruned = Pruned::default();
    for (dir, answer) in dirs.iter().zip(answers) {
        let findings = match answer {
            Ok(Ok(findings)) => findings,
            Ok(Err(error)) => {
                tracing::debug!(dir = %dir.path().display(), %error, "left alone");
                pruned.unanswered.push((task_of(dir), error.to_string()));
                continue;
            }
            Err(_) => {
                pruned.unanswered.push((task_of(dir), NOT_ANSWERED.to_owned()));
                continue;
            }
        };
        for finding in findings {
            if dry_run {
                pruned.reaped.push(finding.reaped);
                continue;
            }
            match reap_one(engine, &finding).await {
                Ok(true) => pruned.reaped.push(finding.reaped),
                Ok(false) => {}
                Err(error) => tracing::debug!(%error, "left alone"),
            }
        }
    }
    Ok(pruned)
}

/// Returns whether a sandbox can be looked at without asking an engine that
/// is not in use anyway.
fn is_swept(engine: &Inner, dir: &SandboxDir, used: Option<&str>) -> bool {
    let Some(used) = used else {
        return true;
    };
    let recorded = dir.read_record().ok().flatten().map(|record| record.backend);
    let asks_engine =
        |name: &str| engine.declaration(name).is_none_or(|declared| declared.asks_engine);
    recorded.is_none_or(|name| name == used || !asks_engine(&name))
}

/// Returns whether a sandbox of this home is on a backend.
fn is_recorded(engine: &Inner, backend: &dyn Backend) -> Result<bool, Error> {
    let mut dirs = list_dirs(&engine.sandboxes)?.into_iter();
    Ok(dirs.any(|dir| {
        let record = dir.read_record().ok().flatten();
        record.is_some_and(|record| record.backend == backend.name())
    }))
}

/// Returns what is to be reaped in one sandbox's directory.
async fn findings(engine: &Inner, dir: &SandboxDir) -> Result<Vec<ReapFinding>, Error> {
    let record = dir.read_record()?;
    let task = record.as_ref().map_or_else(|| task_of(dir), |record| record.task.clone());
    if let Some(record) = &record {
        // A directory that was copied here from elsewhere is not ours to reap.
        let expected = Key::new(engine.home_id.clone(), &*record.profile, parse(&record.task)?);
        if record.key != expected.hash() {
            return Ok(Vec::new());
        }
    }
    let finding = |instance: Option<String>, reason| ReapFinding {
        dir: dir.clone(),
        reaped: Reaped { task: task.clone(), instance, reason },
    };
    let mut findings = Vec::new();
    // A copy may take long, and is only unfinished once nobody holds the lock.
    if is_unfinished(dir)? && KeyLock::try_acquire(&dir.lock_file())?.is_some() {
        findings.push(finding(None, ReapReason::Unfinished));
    }
    for id in dir.instance_ids()? {
        if let Some(reason) = judge(engine, dir, record.as_ref(), &id).await? {
            findings.push(finding(Some(id), reason));
        }
    }
    Ok(findings)
}

/// Returns why an instance is to go, or nothing.
async fn judge(
    engine: &Inner,
    dir: &SandboxDir,
    record: Option<&SandboxRecord>,
    id: &str,
) -> Result<Option<ReapReason>, Error> {
    let recorded = record.and_then(|record| record.instance(dir)).filter(|found| found.id == id);
    let instance = recorded.clone().unwrap_or_else(|| unlocated(dir, id.to_owned()));
    let mark = InstanceMark::read(&instance.dir)?;
    let backend = backend_for(engine, record, mark.as_ref())?;
    let state = backend.state(&instance).await.map_err(Error::backend(backend.name()))?;
    let (since, resumable) = match state {
        InstanceState::Stopped { since } => (since, true),
        InstanceState::Broken { since } => (since, false),
        // Only its directory is left, and nothing to wait for.
        InstanceState::Absent if recorded.is_none() => {
            return Ok(match mark.and_then(|mark| mark.owner) {
                Some(owner) if owner.may_be_alive() => None,
                Some(_) => Some(ReapReason::Ownerless),
                None => Some(ReapReason::Superseded),
            });
        }
        InstanceState::Running | InstanceState::Paused | InstanceState::Absent => {
            return Ok(None);
        }
    };
    let Some(since) = since else {
        return Ok(None);
    };
    let source = backend.declaration().idle_source;
    let idle = idle_since(source, dir, recorded.as_ref(), record, since);
    let older = |age: Duration| elapsed(idle).is_some_and(|elapsed| elapsed > age);
    if recorded.is_some() {
        let expired = resumable && engine.retention()?.is_some_and(older);
        return Ok(expired.then_some(ReapReason::Expired));
    }
    if elapsed(since).is_none_or(|elapsed| elapsed <= orphan_age_or_ever(engine)) {
        return Ok(None);
    }
    match mark.and_then(|mark| mark.owner) {
        Some(owner) if owner.may_be_alive() => Ok(None),
        Some(_) => Ok(Some(ReapReason::Ownerless)),
        None => Ok(Some(ReapReason::Superseded)),
    }
}

/// Removes one finding, if it is still one once the lock is held. A process
/// that holds the lock uses the sandbox, so the lock is not waited for.
async fn reap_one(engine: &Inner, finding: &ReapFinding) -> Result<bool, Error> {
    let dir = &finding.dir;
    let Some(_lock) = KeyLock::try_acquire(&dir.lock_file())? else {
        return Ok(false);
    };
    let task = parse(&finding.reaped.task)?;
    let Some(id) = &finding.reaped.instance else {
        let unfinished = is_unfinished(dir)?;
        dir.sweep_temporaries();
        lock::recover(engine, &task, dir).await?;
        snapshot::remove_partial_snapshots(engine, &task, dir).await?;
        return Ok(unfinished);
    };
    let record = dir.read_record()?;
    let reason = judge(engine, dir, record.as_ref(), id).await?;
    match reason {
        None => Ok(false),
        Some(ReapReason::Expired) => {
            remove::remove_locked(engine, &task, dir, FilesOnRemoval::Keep).await?;
            Ok(true)
        }
        Some(_) => {
            let mark = InstanceMark::read(&dir.instance_dir(id))?;
            let backend = backend_for(engine, record.as_ref(), mark.as_ref())?;
            let instance = unlocated(dir, id.clone());
            backend.remove(&instance).await.map_err(Error::backend(backend.name()))?;
            if record.is_none() && dir.instance_ids()?.is_empty() && kept_files(dir).is_empty() {
                dir.remove()?;
            }
            Ok(true)
        }
    }
}

/// Removes instances that carry this home's mark and have no directory any
/// more. What cannot be removed is met again by the next sweep; a backend
/// that does not tell what it has is an error, in words.
pub(super) async fn reap_marked(
    engine: &Inner,
    backend: &dyn Backend,
    spare: Option<&Key>,
    dry_run: bool,
) -> Result<Vec<Reaped>, String> {
    let asked = timeout(
        engine.probe_timeouts.examining,
        backend.find(InstanceFilter::Home(&engine.home_id)),
    )
    .await;
    let found = match asked {
        Ok(Ok(found)) => found,
        Ok(Err(error)) => {
            tracing::debug!(%error, backend = backend.name(), "cannot be swept");
            return Err(error.to_string());
        }
        Err(_) => return Err(NOT_ANSWERED.to_owned()),
    };
    let spared = spare.map(Key::hash);
    let known = known_instances(engine);
    let forgotten = forget::forgotten_instances(engine).ids().map_err(|error| error.to_string())?;
    let mut reaped = Vec::new();
    for found in found {
        // One that has a record is not forgotten yet: a process died over that.
        if forgotten.contains(&found.id) && !known.contains(&found.id) {
            let (task, id) = (found.task.clone(), found.id.clone());
            if !dry_run && let Err(error) = finish_forgetting(engine, backend, found).await {
                tracing::debug!(instance = id, %error, "left alone");
                continue;
            }
            reaped.push(Reaped { task, instance: Some(id), reason: ReapReason::Forgotten });
            continue;
        }
        if spared.as_ref() == Some(&found.key) || known.contains(&found.id) {
            continue;
        }
        let Some(reason) = judge_marked(engine, &found) else {
            continue;
        };
        if !dry_run {
            match backend.collect(&found).await {
                Ok(true) => {}
                Ok(false) => continue,
                Err(error) => {
                    tracing::debug!(instance = found.id, %error, "left alone");
                    continue;
                }
            }
        }
        reaped.push(Reaped { task: found.task, instance: Some(found.id), reason });
    }
    Ok(reaped)
}

/// Removes an instance that was forgotten. It has no directory, and nobody's lock.
async fn finish_forgetting(
    engine: &Inner,
    backend: &dyn Backend,
    found: FoundInstance,
) -> Result<(), Error> {
    let dir = SandboxDir::new(engine.sandboxes.join(".forgotten"));
    forget::finish(engine, &dir, backend, found).await
}

/// Returns the instances that have a directory, which judges them.
pub(super) fn known_instances(engine: &Inner) -> BTreeSet<String> {
    let dirs = list_dirs(&engine.sandboxes).unwrap_or_default();
    dirs.iter().flat_map(|dir| dir.instance_ids().unwrap_or_default()).collect()
}

/// Returns why an instance without a directory is to go, or nothing.
fn judge_marked(engine: &Inner, found: &FoundInstance) -> Option<ReapReason> {
    let (since, resumable) = match found.state {
        InstanceState::Stopped { since } => (since?, true),
        InstanceState::Broken { since } => (since?, false),
        _ => return None,
    };
    let age = elapsed(since)?;
    if resumable && found.persistent {
        let retention = engine.retention().ok().flatten()?;
        return (age > retention).then_some(ReapReason::Expired);
    }
    if found.owner.as_ref().is_some_and(Owner::may_be_alive) {
        return None;
    }
    let reason = if found.persistent { ReapReason::Unfinished } else { ReapReason::Ownerless };
    (age > orphan_age_or_ever(engine)).then_some(reason)
}

/// Returns the backend an instance is on.
pub(super) fn backend_for(
    engine: &Inner,
    record: Option<&SandboxRecord>,
    mark: Option<&InstanceMark>,
) -> Result<Arc<dyn Backend>, Error> {
    let name = mark.map(|mark| &*mark.backend).or(record.map(|record| &*record.backend));
    let task = record.map_or_else(TaskName::default_task, |record| {
        parse(&record.task).unwrap_or_else(|_| TaskName::default_task())
    });
    match name {
        Some(name) => engine.backend(&task, name).cloned(),
        // Only instances that nothing confines go without a mark.
        None => engine.unconfined_backend().ok_or(Error::NoBackend { reasons: Vec::new() }),
    }
}

/// Returns the age of orphans; a lifetime that cannot be read protects them.
fn orphan_age_or_ever(engine: &Inner) -> Duration {
    engine.orphan_age().unwrap_or(Duration::MAX)
}

/// Returns since when a stopped sandbox has idled. A guest that ended because
/// nobody used it had idled for as long as it may before its end.
fn idle_since(
    source: IdleSource,
    dir: &SandboxDir,
    recorded: Option<&Instance>,
    record: Option<&SandboxRecord>,
    ended: Timestamp,
) -> Timestamp {
    let last = last_activity(source, dir, ended);
    if source == IdleSource::EndTime {
        return last;
    }
    let idled_out = recorded.is_some_and(|instance| {
        std::fs::symlink_metadata(instance.dir.join("io").join("idle")).is_ok()
    });
    let retention = record
        .and_then(|record| record.instance.as_ref())
        .and_then(|instance| instance.retention_seconds)
        .filter(|_| idled_out);
    let before = retention.and_then(|seconds| last.checked_sub(Duration::from_secs(seconds)).ok());
    before.unwrap_or(last)
}

/// Returns when a stopped sandbox last did anything: its end, or the last entry
/// in its journal, for a guest that was killed and could not leave a trace.
pub(super) fn last_activity(source: IdleSource, dir: &SandboxDir, ended: Timestamp) -> Timestamp {
    if source == IdleSource::EndTime {
        return ended;
    }
    let journal: PathBuf = dir.path().join("state").join("journal");
    let written = std::fs::symlink_metadata(journal)
        .and_then(|metadata| metadata.modified())
        .ok()
        .and_then(|time| Timestamp::try_from(time).ok());
    written.map_or(ended, |written| written.max(ended))
}

/// Returns the time since `then`; nothing when that is in the future, as after
/// a clock that jumped: such an age is unreadable and reaps nothing.
fn elapsed(then: Timestamp) -> Option<Duration> {
    Duration::try_from(Timestamp::now().duration_since(then)).ok()
}

/// Returns whether there is something of which only a holder of the sandbox's lock may
/// leave parts.
fn is_unfinished(dir: &SandboxDir) -> Result<bool, StoreError> {
    Ok(dir.read_intent()?.is_some()
        || dir.has_temporaries()
        || !dir.partial_snapshots()?.is_empty())
}

/// Returns the task of a sandbox as far as its directory's name tells.
fn task_of(dir: &SandboxDir) -> String {
    dir.path().file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

fn parse(task: &str) -> Result<TaskName, Error> {
    task.parse().map_err(|_| Error::NoSandbox { task: task.to_owned() })
}
