//! The settings for a sandbox, and what follows when they, or the
//! directories it mounts, have changed since its instance was made.

#[cfg(test)]
#[path = "policy_tests.rs"]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::settings::{BackendChoice, OnConfigChange, StartDir, keys};
use async_recursion::async_recursion as boxed;
use vestal_config::AnyKey as _;
use vestal_wire::{CallRequest, JobId};

use super::attach::Attached;
use super::create::millis;
use super::lock::LockWait;
use super::remove::StopScope;
use super::{Engine, Inner, bring_up, lock, remove};
use crate::backend::{
    Availability, Backend, BackendError, Confinement, JobEnvironment, Locator, Remedy,
};
use crate::job::{self, JobFilter};
use crate::notice::Notice;
use crate::spec::{Drift, Spec, Tightening};
use crate::store::{KeyLock, SandboxDir, make_private_dir};
use crate::{Error, Key, Overrides, TaskName, mounts};

/// Shortest lifetime that the orphan reaper uses.
const SHORTEST_LIFETIME: Duration = Duration::from_mins(1);

/// Whose a directory of the host is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DirOwner {
    /// It is there, or the user's to make.
    User,
    /// It is made when it is needed.
    Sandbox,
}

/// Reads settings. Each method reads only the key it needs, so that a wrong value of
/// another key does no harm.
impl Inner {
    /// Returns whether instances outlive this process.
    pub(crate) fn across_processes(&self) -> Result<bool, Error> {
        Ok(self.settings.get(&keys::PERSIST_ACROSS_PROCESSES)?.value)
    }

    /// Returns whether the files of a sandbox outlive its instance.
    pub(crate) fn persistent_files(&self) -> Result<bool, Error> {
        Ok(self.settings.get(&keys::CONTAINER_PERSISTENT)?.value)
    }

    /// Returns how long a handle may idle in this process.
    pub(crate) fn lifetime(&self) -> Result<Duration, Error> {
        Ok(self.settings.get(&keys::LIFETIME_SECONDS)?.value.duration())
    }

    /// Returns how long an instance may idle, or nothing if there is no limit.
    pub(crate) fn retention(&self) -> Result<Option<Duration>, Error> {
        Ok(self.settings.get(&keys::RETENTION_SECONDS)?.value.duration())
    }

    /// Returns the age from which an ended instance that is no longer needed is removed.
    pub(crate) fn orphan_age(&self) -> Result<Duration, Error> {
        Ok(self.lifetime()?.max(SHORTEST_LIFETIME) * 2)
    }

    pub(crate) fn orphan_reaper(&self) -> Result<bool, Error> {
        Ok(self.settings.get(&keys::ORPHAN_REAPER)?.value)
    }

    pub(crate) fn on_config_change(&self) -> Result<OnConfigChange, Error> {
        Ok(self.settings.get(&keys::ON_CONFIG_CHANGE)?.value)
    }

    pub(crate) fn stop_grace(&self) -> Result<Duration, Error> {
        Ok(self.settings.get(&keys::STOP_GRACE_SECONDS)?.value.duration())
    }

    /// Returns the settings that shape an instance, without the defaults.
    pub(crate) fn spec(&self, backend: &dyn Backend, overrides: &Overrides) -> Result<Spec, Error> {
        let mut spec = backend.spec(&self.settings, overrides)?;
        let log_bytes = self.settings.get(&keys::JOB_LOG_BYTES)?.value;
        if log_bytes != *keys::JOB_LOG_BYTES.default_value() {
            spec = spec.with(
                keys::JOB_LOG_BYTES.name(),
                &log_bytes.get().to_string(),
                Tightening::Never,
            );
        }
        let jobs_kept = self.settings.get(&keys::JOBS_KEPT)?.value;
        if jobs_kept != *keys::JOBS_KEPT.default_value() {
            spec =
                spec.with(keys::JOBS_KEPT.name(), &jobs_kept.get().to_string(), Tightening::Never);
        }
        Ok(spec)
    }

    /// Returns the directory sessions without one start in: the one asked for
    /// this sandbox, else the configured one, else where the program was started
    /// ([`super::EngineOptions`]), or its workspace: for a sandbox with a system of
    /// its own, where a directory of the host means nothing, and for a program that
    /// nobody started in a directory.
    pub(crate) fn start_dir(
        &self,
        key: &Key,
        backend: &dyn Backend,
        locator: &Locator,
        asked: Option<&Path>,
    ) -> Result<PathBuf, Error> {
        let configured = self.settings.get(&keys::CWD)?.value;
        let home = self.settings.environment().user_home();
        if let Some(asked) = asked {
            return Ok(asked.to_owned());
        }
        if backend.job_environment() == JobEnvironment::Guests {
            let means_something = |path: &Path| {
                path.is_absolute() && home.as_deref().is_none_or(|home| !path.starts_with(home))
            };
            return Ok(match configured {
                StartDir::At(path) if means_something(&path) => path,
                StartDir::At(_) | StartDir::Launch => (backend.declaration().workspace)(locator),
            });
        }
        let (dir, own) = self.host_dir(key, &configured);
        if own == DirOwner::Sandbox && !dir.exists() {
            make_private_dir(&dir)?;
        }
        Ok(dir)
    }

    /// Returns the directory of the host that the configured one stands for, and whose it is.
    fn host_dir(&self, key: &Key, configured: &StartDir) -> (PathBuf, DirOwner) {
        if (&self.launch_dir, configured) == (&None, &StartDir::Launch) {
            return (self.dir(key).workspace(), DirOwner::Sandbox);
        }
        let home = self.settings.environment().user_home();
        let base = self.launch_dir.clone().or_else(|| home.clone());
        let base = base.unwrap_or_else(|| PathBuf::from("/"));
        (configured.resolve(&base, home.as_deref()), DirOwner::User)
    }

    /// Returns the backend the settings name; nothing for `auto`.
    pub(crate) fn named_backend(&self, overrides: &Overrides) -> Result<Option<String>, Error> {
        if let Some(asked) = &overrides.backend {
            return Ok(Some(asked.clone()).filter(|asked| asked != BackendChoice::Auto.as_str()));
        }
        Ok(self.settings.get(&keys::BACKEND)?.value.named().map(str::to_owned))
    }

    /// Returns the backend for a sandbox that is about to be made: the one
    /// named, or for `auto` the best one that works here. Only what this machine
    /// lacks, or what a setting asks of containers, leads to the next one: a wrong
    /// setting is an error, and so is a setting that asks for isolation where
    /// nothing is left that isolates.
    pub(crate) async fn choose_backend(
        &self,
        task: &TaskName,
        overrides: &Overrides,
    ) -> Result<Arc<dyn Backend>, Error> {
        if let Some(name) = self.named_backend(overrides)? {
            self.check_permitted(task, overrides, &name)?;
            return self.backend(task, &name).cloned();
        }
        let isolating = self.settings.isolating()?;
        let mut reasons = Vec::new();
        for backend in self.backends.unasked().filter(|backend| suits(&***backend, overrides)) {
            if backend.confinement() == Confinement::None && !isolating.is_empty() {
                return Err(Error::NotIsolated { task: task.to_string(), isolating, reasons });
            }
            self.check_confined(task, backend.name())?;
            if !backend.takes_images()
                && let Some((setting, kind)) =
                    isolating.iter().find_map(|own| Some((own, own.only_in?)))
            {
                reasons.push(format!("{}: only {kind} have {setting}", backend.name()));
                continue;
            }
            // An image is pulled only for a caller who asked for a container.
            if backend.takes_images() && asks_for_system(overrides) {
                return Ok(Arc::clone(backend));
            }
            match backend.probe().await {
                Availability::Works { .. } => return Ok(Arc::clone(backend)),
                Availability::Missing { reason, advice } => {
                    reasons.push(format!("{}: {reason} ({advice})", backend.name()));
                }
                Availability::Misconfigured { problem, advice } => {
                    let source = BackendError::Advised { problem, advice };
                    return Err(Error::backend(backend.name())(source));
                }
            }
        }
        Err(Error::NoBackend { reasons })
    }

    /// Refuses a sandbox that has no isolation because somebody wished so, where that is not permitted
    /// ([`Engine::permit_unconfined`]).
    pub(crate) fn check_permitted(
        &self,
        task: &TaskName,
        overrides: &Overrides,
        backend: &str,
    ) -> Result<(), Error> {
        self.check_confined(task, backend)?;
        let Some(permitted) = self.permitted.get() else { return Ok(()) };
        let is_wished = overrides.backend.as_deref() == Some(backend);
        if is_wished && self.is_unconfined(backend) && !permitted.iter().any(|name| name == backend)
        {
            let (task, backend) = (task.to_string(), backend.to_owned());
            return Err(Error::NotPermitted { task, backend });
        }
        Ok(())
    }

    /// Refuses a sandbox without isolation, whoever chose it, where every one has to be isolated
    /// ([`Engine::require_confinement`]).
    fn check_confined(&self, task: &TaskName, backend: &str) -> Result<(), Error> {
        if self.confined.get().is_none() || !self.is_unconfined(backend) {
            return Ok(());
        }
        Err(Error::NotConfined { task: task.to_string(), backend: backend.to_owned() })
    }

    /// Refuses to use a sandbox on another backend than the one asked for, and
    /// one without isolation that `auto` chose before a setting asked for isolation.
    pub(crate) fn check_backend(
        &self,
        task: &TaskName,
        overrides: &Overrides,
        recorded: &str,
    ) -> Result<(), Error> {
        self.check_permitted(task, overrides, recorded)?;
        match self.named_backend(overrides)? {
            Some(name) if name != recorded => Err(Error::BackendChanged {
                task: task.to_string(),
                was: recorded.to_owned(),
                now: name,
            }),
            None if self.is_unconfined(recorded) => match self.settings.isolating()? {
                isolating if isolating.is_empty() => Ok(()),
                isolating => Err(Error::NotIsolated {
                    task: task.to_string(),
                    isolating,
                    reasons: vec![format!("it was made on the backend {recorded}")],
                }),
            },
            Some(_) | None => Ok(()),
        }
    }
}

/// Returns whether a backend can give what is asked for one sandbox. An image or a
/// mounted workspace takes a backend with a system of its own.
fn suits(backend: &dyn Backend, asked: &Overrides) -> bool {
    let mounts = backend.declaration().takes_host_directory();
    (asked.image.is_none() || backend.takes_images()) && (asked.mount.is_none() || mounts)
}

fn asks_for_system(asked: &Overrides) -> bool {
    asked.image.is_some() || asked.mount.is_some()
}

/// Most jobs that are named as the reason why settings are not applied.
const MAX_NAMED: u32 = 20;

/// Warning for a sandbox whose system was restored or forked and is rebuilt.
const GIVEN_UP: &str = "its own filesystem, which began as a copy, was given up for a new one; \
                        workspace and home are kept";

/// What to do about a drift.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Decision {
    /// Return the sandbox without a notice.
    Keep,
    /// Return it with a notice that names the differences.
    Warn,
    /// Apply the settings if nothing runs, else return it with that notice.
    Apply,
    /// Apply the settings; refuse a busy sandbox.
    Enforce,
}

fn decide(drift: &[Drift], policy: OnConfigChange) -> Decision {
    if drift.is_empty() {
        Decision::Keep
    } else if drift.iter().any(|drift| drift.tightens) {
        Decision::Enforce
    } else {
        match policy {
            OnConfigChange::Warn => Decision::Warn,
            OnConfigChange::Recreate => Decision::Apply,
            OnConfigChange::Keep => Decision::Keep,
        }
    }
}

impl Engine {
    /// Returns the directory of the host in which commands of a task start, where the settings or
    /// `overrides` name a backend that confines nothing. It is made when the first one does.
    pub fn host_start_dir(
        &self,
        task: &TaskName,
        overrides: &Overrides,
    ) -> Result<Option<PathBuf>, Error> {
        let named = self.inner.named_backend(overrides)?;
        if !named.is_some_and(|name| self.inner.is_unconfined(&name)) {
            return Ok(None);
        }
        if let Some(asked) = &overrides.cwd {
            return Ok(Some(asked.clone()));
        }
        let configured = self.inner.settings.get(&keys::CWD)?.value;
        let (dir, _) = self.inner.host_dir(&self.inner.key(task), &configured);
        Ok(Some(dir))
    }
}

/// Handles settings that changed since the instance was made.
pub(super) async fn settle_drift(
    engine: &Inner,
    key: &Key,
    attached: Attached,
) -> Result<Attached, Error> {
    let mut attached = settle_mounts(engine, key, attached).await?;
    settle_retention(engine, key, &mut attached).await?;
    let drift = drift(engine, &attached)?;
    match decide(&drift, engine.on_config_change()?) {
        Decision::Keep => Ok(attached),
        Decision::Warn => {
            attached.notices.push(Notice::Drift(drift));
            Ok(attached)
        }
        Decision::Apply => match apply(engine, key, &attached).await {
            Ok(fresh) => Ok(fresh.with_applied(drift)),
            Err(Error::Busy { .. }) => {
                attached.notices.push(Notice::Drift(drift));
                Ok(attached)
            }
            Err(error) => Err(error),
        },
        Decision::Enforce => match apply(engine, key, &attached).await {
            Err(Error::Busy { .. }) => {
                let jobs = jobs_running(&attached).await?;
                Err(Error::Tightened { drift, jobs })
            }
            Ok(fresh) => Ok(fresh.with_applied(drift)),
            Err(error) => Err(error),
        },
    }
}

fn drift(engine: &Inner, attached: &Attached) -> Result<Vec<Drift>, Error> {
    let backend = &attached.backend;
    let spec = engine.spec(&**backend, &attached.overrides)?;
    Ok(spec.drift_from(&attached.record.spec, |name| backend.tightening(name)))
}

/// Applies the settings to an idle sandbox: the guest itself refuses to end
/// under a job or a call, so there is no moment to miss.
async fn apply(engine: &Inner, key: &Key, attached: &Attached) -> Result<Attached, Error> {
    let dir = engine.dir(key);
    let lock = lock::lock(engine, key.task(), &dir).await?;
    let current = dir.record_of(key)?.and_then(|record| record.instance(&dir));
    if current.as_ref() == Some(&attached.instance) {
        // Checked first: a setting that cannot be applied must end nothing.
        let vetted = attached.backend.vet(&attached.overrides, &engine.progress).await;
        vetted.map_err(Error::backend(attached.backend.name()))?;
        take_down(engine, key.task(), &dir, &attached.backend, attached).await?;
    }
    let mut fresh = bring_up::attach_locked(engine, key, &dir, &lock, &attached.overrides).await?;
    let was = attached.backend.describe(&attached.instance.locator);
    if was.is_copy && fresh.instance.id != attached.instance.id {
        fresh.notices.push(Notice::Remark(GIVEN_UP.to_owned()));
    }
    Ok(fresh)
}

async fn take_down(
    engine: &Inner,
    task: &TaskName,
    dir: &SandboxDir,
    backend: &Arc<dyn Backend>,
    attached: &Attached,
) -> Result<(), Error> {
    remove::stop_locked(engine, task, dir, &**backend, &attached.instance, StopScope::Nothing)
        .await?;
    if backend.remedy() == Remedy::Recreate {
        backend.remove(&attached.instance).await.map_err(Error::backend(backend.name()))?;
    }
    Ok(())
}

/// Handles a mounted directory of the host whose path names another directory by now.
/// Commands would still work in the old one, which is not where the caller is: an idle
/// sandbox is started again with the new directory, a busy one is refused.
async fn settle_mounts(engine: &Inner, key: &Key, attached: Attached) -> Result<Attached, Error> {
    let Overrides { mount, binds, .. } = &attached.overrides;
    let instance_dir = &attached.instance.dir;
    let asked = || mount.iter().chain(binds);
    let replaced = |path: &&PathBuf| mounts::is_replaced(instance_dir, path);
    let Some(path) = asked().find(replaced) else {
        return Ok(attached);
    };
    // Checked first: what may not be mounted must end nothing.
    let own_dirs = mounts::OwnDirs::of(&engine.settings)?;
    let wanted: Vec<mounts::MountRequest> =
        asked().map(|path| mounts::MountRequest { path: path.clone(), writable: true }).collect();
    mounts::check_again(&own_dirs, &wanted, instance_dir, key.task())
        .map_err(Error::backend(attached.backend.name()))?;
    let (task, path) = (key.task(), path.display());
    match restart(engine, key, &attached).await {
        Ok(mut fresh) => {
            fresh.notices.push(Notice::Remark(format!(
                "another directory has the name {path} since sandbox {task} was started; it \
                 was started again, with that one"
            )));
            Ok(fresh)
        }
        Err(Error::Busy { reason, .. }) => {
            let problem = format!(
                "another directory has the name {path} since this sandbox was started, whose \
                 commands would still work in the one before, and it is in use: {reason}"
            );
            let name = crate::key::quoted(task.as_str());
            let advice = format!(
                "to see what uses it: vestal jobs -t {name}; after that has ended, or after \
                 vestal stop {name}, the next use mounts the directory that is there then"
            );
            let source = BackendError::Advised { problem, advice };
            Err(Error::backend(attached.backend.name())(source))
        }
        Err(error) => Err(error),
    }
}

/// Stops an idle sandbox and starts it again.
async fn restart(engine: &Inner, key: &Key, attached: &Attached) -> Result<Attached, Error> {
    let dir = engine.dir(key);
    let lock = lock::lock(engine, key.task(), &dir).await?;
    let current = dir.record_of(key)?.and_then(|record| record.instance(&dir));
    if current.as_ref() == Some(&attached.instance) {
        let (backend, instance) = (&*attached.backend, &attached.instance);
        remove::stop_locked(engine, key.task(), &dir, backend, instance, StopScope::Nothing)
            .await?;
    }
    bring_up::attach_locked(engine, key, &dir, &lock, &attached.overrides).await
}

/// Tells the guest of a changed retention: that needs no new instance.
async fn settle_retention(engine: &Inner, key: &Key, attached: &mut Attached) -> Result<(), Error> {
    let wanted = engine.retention()?;
    let seconds = wanted.map(|wanted| wanted.as_secs());
    if attached.record.retention_seconds == seconds {
        return Ok(());
    }
    let retention_ms = wanted.map(millis);
    attached.connection.call(CallRequest::Retain { retention_ms }).await?;
    attached.record.retention_seconds = seconds;
    // If another process has the lock, the next one to attach records it; telling
    // the guest twice does no harm.
    let dir = engine.dir(key);
    if let Some(_lock) = KeyLock::try_acquire(&dir.lock_file())?
        && let Some(mut record) = dir.record_of(key)?
        && let Some(instance) = &mut record.instance
        && instance.id == attached.instance.id
    {
        instance.retention_seconds = seconds;
        dir.write_record(&record)?;
    }
    Ok(())
}

impl Attached {
    /// Says that changed settings were applied, unless the start has said so.
    fn with_applied(mut self, drift: Vec<Drift>) -> Self {
        if !self.notices.iter().any(|notice| matches!(notice, Notice::Applied(_))) {
            self.notices.push(Notice::Applied(drift));
        }
        self
    }
}

async fn jobs_running(attached: &Attached) -> Result<Vec<JobId>, Error> {
    let running = job::jobs(&attached.connection, JobFilter::Running, MAX_NAMED).await?;
    Ok(running.jobs.into_iter().map(|job| job.id).collect())
}

impl Engine {
    /// Has the next start of a sandbox take the directories that it mounts as
    /// they are at this moment. Otherwise a start refuses directories that were
    /// replaced since the sandbox was made. Returns why some are not accepted,
    /// such as directories that do not exist.
    #[boxed]
    pub async fn accept_mounts(&self, task: &TaskName) -> Result<Vec<BackendError>, Error> {
        let key = self.inner.key(task);
        let dir = self.inner.dir(&key);
        let absent = || Error::NoSandbox { task: task.to_string() };
        if !dir.exists() {
            return Err(absent());
        }
        let lock = lock::acquire(&self.inner, task, &dir, LockWait::Bounded).await?;
        let record = dir.record_of(&key)?.ok_or_else(absent)?;
        let mut not_accepted = Vec::new();
        if let Some(instance) = record.instance(&dir) {
            let own_dirs = mounts::OwnDirs::of(&self.inner.settings)?;
            let backend = self.inner.backend(task, &record.backend)?.name();
            not_accepted =
                mounts::accept(&own_dirs, &instance.dir).map_err(Error::backend(backend))?;
        }
        drop(lock);
        Ok(not_accepted)
    }
}
