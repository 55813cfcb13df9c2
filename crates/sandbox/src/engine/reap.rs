//! The orphan reaper: what nobody can want any more is removed.
//!
//! It never touches a running instance, one of another home, or the key that
//! is about to be used; and it never fails or delays whoever triggers it.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::task::JoinHandle;

use super::recover::unlocated;
use super::remove::Files;
use super::{Engine, Inner};
use crate::backend::{Backend, InstanceState};
use crate::owner::Owner;
use crate::store::{KeyLock, Record, SandboxDir, list_dirs};
use crate::{Error, Key, Task};

/// Whether and how this engine has swept.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    begun: AtomicBool,
    task: Mutex<Option<JoinHandle<usize>>>,
}

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
}

/// Something the reaper removed, or would remove.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reaped {
    /// The task.
    pub task: String,
    /// The instance; absent when only a removal had to be finished.
    pub instance: Option<String>,
    /// Why.
    pub reason: ReapReason,
}

/// What to do with one finding.
#[derive(Debug)]
struct Finding {
    dir: SandboxDir,
    reaped: Reaped,
}

impl Engine {
    /// Removes what nobody can want any more and returns what that was; with
    /// `dry_run` only says so.
    pub async fn prune(&self, dry_run: bool) -> Result<Vec<Reaped>, Error> {
        self.inner.reap(None, dry_run).await
    }

    /// Waits for the sweep that the first use of a backend set off, and returns
    /// how many instances it removed; 0 if there was none.
    pub async fn orphans_swept(&self) -> usize {
        let task = self.inner.sweep.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        match task {
            Some(task) => task.await.unwrap_or(0),
            None => 0,
        }
    }
}

impl Inner {
    /// Sets off the sweep, once in the life of the engine and only where it is
    /// allowed. Whoever calls this does not wait for it.
    pub(super) fn sweep_once(self: &Arc<Self>, in_use: &Key) -> Result<(), Error> {
        if !self.orphan_reaper()? || self.sweep.begun.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let inner = Arc::clone(self);
        let in_use = in_use.clone();
        let task = tokio::spawn(async move {
            match inner.reap(Some(&in_use), false).await {
                Ok(reaped) => reaped.len(),
                Err(error) => {
                    tracing::debug!(%error, "the orphan reaper gave up");
                    0
                }
            }
        });
        *self.sweep.task.lock().unwrap_or_else(PoisonError::into_inner) = Some(task);
        Ok(())
    }

    /// Removes what nobody can want. One failure does not stop the sweep.
    async fn reap(&self, spare: Option<&Key>, dry_run: bool) -> Result<Vec<Reaped>, Error> {
        let spared = spare.map(|key| self.dir(key));
        let mut reaped = Vec::new();
        for dir in list_dirs(&self.sandboxes)? {
            if spared.as_ref() == Some(&dir) {
                continue;
            }
            match self.findings(&dir).await {
                Ok(findings) => {
                    for finding in findings {
                        if dry_run {
                            reaped.push(finding.reaped);
                            continue;
                        }
                        match self.reap_one(&finding).await {
                            Ok(true) => reaped.push(finding.reaped),
                            Ok(false) => {}
                            Err(error) => tracing::debug!(%error, "left alone"),
                        }
                    }
                }
                Err(error) => tracing::debug!(dir = %dir.path().display(), %error, "left alone"),
            }
        }
        Ok(reaped)
    }

    /// Returns what is to be reaped in one sandbox's directory.
    async fn findings(&self, dir: &SandboxDir) -> Result<Vec<Finding>, Error> {
        let record = dir.read_record()?;
        let name = dir.path().file_name().map(|name| name.to_string_lossy().into_owned());
        let task = record.as_ref().map(|record| record.task.clone()).or(name).unwrap_or_default();
        if let Some(record) = &record {
            // A directory that was copied here from elsewhere is not ours to reap.
            let expected = Key::new(self.home_id.clone(), &*record.profile, parse(&record.task)?);
            if record.key != expected.hash() {
                return Ok(Vec::new());
            }
        }
        let finding = |instance: Option<String>, reason| Finding {
            dir: dir.clone(),
            reaped: Reaped { task: task.clone(), instance, reason },
        };
        let mut findings = Vec::new();
        if dir.read_intent()?.is_some() {
            findings.push(finding(None, ReapReason::Unfinished));
        }
        for id in dir.instance_ids()? {
            if let Some(reason) = self.judge(dir, record.as_ref(), &id).await? {
                findings.push(finding(Some(id), reason));
            }
        }
        Ok(findings)
    }

    /// Returns why an instance is to go, or nothing.
    async fn judge(
        &self,
        dir: &SandboxDir,
        record: Option<&Record>,
        id: &str,
    ) -> Result<Option<ReapReason>, Error> {
        let recorded =
            record.and_then(|record| record.instance(dir)).filter(|found| found.id == id);
        let owner = Owner::read(&dir.instance_dir(id).join("io"))?;
        let instance = recorded.clone().unwrap_or_else(|| unlocated(dir, id.to_owned()));
        let backend = self.backend_for(record, owner.as_ref())?;
        let state = backend.state(&instance).await.map_err(Error::backend(backend.name()))?;
        let InstanceState::Stopped { since: Some(since) } = state else {
            return Ok(None);
        };
        let idle = last_sign_of_life(dir, since);
        let older = |age: Duration| elapsed(idle).is_some_and(|elapsed| elapsed > age);
        if recorded.is_some() {
            let expired = self.retention()?.is_some_and(older);
            return Ok(expired.then_some(ReapReason::Expired));
        }
        if elapsed(since).is_none_or(|elapsed| elapsed <= self.orphan_age_or_ever()) {
            return Ok(None);
        }
        match owner {
            Some(owner) if owner.may_be_alive() => Ok(None),
            Some(_) => Ok(Some(ReapReason::Ownerless)),
            None => Ok(Some(ReapReason::Superseded)),
        }
    }

    /// Removes one finding, if it is still one once the lock is held. Whoever
    /// holds the lock is using the sandbox, so it is not waited for.
    async fn reap_one(&self, finding: &Finding) -> Result<bool, Error> {
        let dir = &finding.dir;
        let Some(_lock) = KeyLock::try_acquire(&dir.lock_file())? else {
            return Ok(false);
        };
        let task = parse(&finding.reaped.task)?;
        let Some(id) = &finding.reaped.instance else {
            let unfinished = dir.read_intent()?.is_some();
            self.recover(&task, dir).await?;
            return Ok(unfinished);
        };
        let record = dir.read_record()?;
        let reason = self.judge(dir, record.as_ref(), id).await?;
        match reason {
            None => Ok(false),
            Some(ReapReason::Expired) => {
                self.remove_locked(&task, dir, Files::Keep).await?;
                Ok(true)
            }
            Some(_) => {
                let owner = Owner::read(&dir.instance_dir(id).join("io"))?;
                let backend = self.backend_for(record.as_ref(), owner.as_ref())?;
                let instance = unlocated(dir, id.clone());
                backend.remove(&instance).await.map_err(Error::backend(backend.name()))?;
                if record.is_none() && dir.instance_ids()?.is_empty() {
                    dir.remove()?;
                }
                Ok(true)
            }
        }
    }

    /// Returns the backend an instance is on.
    pub(super) fn backend_for(
        &self,
        record: Option<&Record>,
        owner: Option<&Owner>,
    ) -> Result<Arc<dyn Backend>, Error> {
        let name = owner.map(|owner| &*owner.backend).or(record.map(|record| &*record.backend));
        let task = record.map_or_else(Task::default_task, |record| {
            parse(&record.task).unwrap_or_else(|_| Task::default_task())
        });
        self.backend(&task, name.unwrap_or("local")).cloned()
    }

    /// Returns the age of orphans; a lifetime that cannot be read protects them.
    fn orphan_age_or_ever(&self) -> Duration {
        self.orphan_age().unwrap_or(Duration::MAX)
    }
}

/// Returns when a stopped sandbox last did anything: its end, or the last entry
/// in its journal, for a guest that was killed and could not leave a trace.
pub(super) fn last_sign_of_life(dir: &SandboxDir, ended: Timestamp) -> Timestamp {
    let journal: PathBuf = dir.path().join("state").join("journal");
    let written = std::fs::metadata(journal)
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

fn parse(task: &str) -> Result<Task, Error> {
    task.parse().map_err(|_| Error::NoSandbox { task: task.to_owned() })
}
