//! What follows when the settings for a sandbox, or the directories it mounts, have changed
//! since its instance was made.

use std::path::PathBuf;
use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use vestal_config::Override;
use vestal_wire::{CallRequest, JobId};

use super::attach::Attached;
use super::create::millis;
use super::lock::{self, LockWait, LockedSandbox};
use super::remove::{self, StopScope};
use super::{Engine, Inner, bring_up, change, rebuild};
use crate::backend::{BackendError, Remedy};
use crate::job::{self, JobFilter};
use crate::notice::Notice;
use crate::settings::OnConfigChange;
use crate::spec::{Drift, UNKNOWN_SETTINGS};
use crate::store::{KeyLock, SandboxRecord};
use crate::{Error, Key, Overrides, TaskName, mounts};

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
/// Handles settings that changed since the instance was made.
pub(super) async fn settle_drift(
    engine: &Inner,
    key: &Key,
    attached: Attached,
) -> Result<Attached, Error> {
    let mut attached = settle_mounts(engine, key, attached).await?;
    settle_retention(engine, key, &mut attached).await?;
    attached.notices.extend(image_not_taken(engine, key, &attached)?);
    let drift = drift(engine, &attached)?;
    let policy = engine.on_config_change()?;
    match decide(&drift, policy) {
        Decision::Keep => Ok(attached),
        Decision::Warn => {
            attached.notices.push(Notice::Drift(drift));
            Ok(attached)
        }
        Decision::Apply => match apply(engine, key, &attached, &drift, &[]).await {
            Ok(fresh) => Ok(fresh.with_applied(drift)),
            Err(Error::Busy { .. }) => {
                attached.notices.push(Notice::Drift(drift));
                Ok(attached)
            }
            Err(error) => Err(error),
        },
        Decision::Enforce => {
            // Of settings that nobody remembers none can be held.
            let is_known = drift.iter().all(|drift| drift.key != UNKNOWN_SETTINGS);
            let (enforced, others): (Vec<_>, Vec<_>) =
                drift.into_iter().partition(|drift| drift.tightens || !is_known);
            // Only what isolates more is applied without being asked for.
            let (enforced, held) = match policy {
                OnConfigChange::Recreate => ([enforced, others].concat(), Vec::new()),
                OnConfigChange::Warn | OnConfigChange::Keep => (enforced, others),
            };
            match apply(engine, key, &attached, &enforced, &held).await {
                Err(Error::Busy { .. }) => {
                    let jobs = jobs_running(&attached).await?;
                    Err(Error::Tightened { drift: enforced, jobs })
                }
                Ok(fresh) => {
                    let mut fresh = fresh.with_applied(enforced);
                    if policy == OnConfigChange::Warn && !held.is_empty() {
                        fresh.notices.push(Notice::Drift(held));
                    }
                    Ok(fresh)
                }
                Err(error) => Err(error),
            }
        }
    }
}

/// Says that an image of the command line is not the one of a sandbox that has its own.
fn image_not_taken(
    engine: &Inner,
    key: &Key,
    attached: &Attached,
) -> Result<Option<Notice>, Error> {
    let Some(own) = &attached.overrides.image else { return Ok(None) };
    let asked = engine.image_on_command_line(&*attached.backend)?;
    Ok(asked.filter(|asked| asked != own).map(|asked| {
        let task = crate::key::quoted(key.task().as_str());
        let asked = crate::key::quoted(&asked);
        Notice::Remark(format!(
            "sandbox {task} has an image of its own, {own} (--image), and was not given another; \
             to rebuild it with that one: vestal rebuild {task} --image {asked}"
        ))
    }))
}

fn drift(engine: &Inner, attached: &Attached) -> Result<Vec<Drift>, Error> {
    let backend = &attached.backend;
    let spec = engine.spec(&**backend, &attached.overrides)?;
    Ok(spec.drift_from(&attached.record.spec, |name| backend.tightening(name)))
}

/// Applies settings to an idle sandbox, those of now but for the ones that are held: the guest
/// itself refuses to end under a job or a call, so there is no moment to miss.
async fn apply(
    engine: &Inner,
    key: &Key,
    attached: &Attached,
    applied: &[Drift],
    held: &[Drift],
) -> Result<Attached, Error> {
    let dir = engine.dir(key);
    let lock = lock::lock(engine, key.task(), &dir).await?;
    let record = dir.record_of(key)?;
    let mut overrides = attached.overrides.clone();
    if let Some(record) = record.as_ref().filter(|_| !held.is_empty()) {
        // Another image is a change that is held.
        overrides.image.clone_from(&record.overrides.image);
    }
    let holding = hold(engine, key, attached, &overrides, held)?;
    let with = holding.as_ref().unwrap_or(engine);
    let is_current =
        |record: &SandboxRecord| record.instance(&dir).as_ref() == Some(&attached.instance);
    let mut remarks = Vec::new();
    if let Some(record) = record.filter(is_current) {
        let backend = Arc::clone(with.backend(key.task(), &record.backend)?);
        // Checked first: a setting that cannot be applied must end nothing.
        let vetted = backend.vet(&overrides, &engine.progress).await;
        vetted.map_err(Error::backend(backend.name()))?;
        let (task, instance) = (key.task(), &attached.instance);
        remove::stop_locked(engine, task, &dir, &*backend, instance, StopScope::Nothing).await?;
        if backend.remedy() == Remedy::Recreate {
            let settings: Vec<&str> = applied.iter().map(|drift| &*drift.key).collect();
            tracing::warn!(
                "sandbox {task} is rebuilt because settings changed ({}): what was installed \
                 outside its workspace and home goes, once the new one runs",
                settings.join(", ")
            );
            let locked = LockedSandbox { key, dir: &dir, lock: &lock };
            let now = SandboxRecord { overrides: overrides.clone(), ..record.clone() };
            remarks = exchange(with, locked, record, now, applied).await?;
        }
    }
    let mut fresh = bring_up::attach_locked(with, key, &dir, &lock, &overrides).await?;
    if holding.is_some() {
        fresh.backend = Arc::clone(engine.backend(key.task(), fresh.backend.name())?);
    }
    fresh.notices.extend(remarks.into_iter().map(Notice::Remark));
    let was = attached.backend.describe(&attached.instance.locator);
    if was.is_copy && fresh.instance.id != attached.instance.id {
        fresh.notices.push(Notice::Remark(GIVEN_UP.to_owned()));
    }
    Ok(fresh)
}

/// Puts a new instance in the place of a stopped one, which goes once the guest of the new one
/// answers. If that cannot be made, the one that was there is the sandbox's again.
async fn exchange(
    engine: &Inner,
    locked: LockedSandbox<'_>,
    was: SandboxRecord,
    now: SandboxRecord,
    applied: &[Drift],
) -> Result<Vec<String>, Error> {
    let changing =
        rebuild::change_instance(engine, locked, &was, &now, &[], change::Replaced::Go, None);
    let error = match Box::pin(changing).await {
        Ok(remarks) => return Ok(remarks),
        Err(error) => error,
    };
    if let Err(left) = lock::finish(engine, locked.key.task(), locked.dir).await {
        // The intent stays, and the next process puts it back.
        tracing::warn!(dir = %locked.dir.path().display(), %left, "left for later");
    }
    Err(match error {
        Error::Backend { backend, source } => {
            let settings: Vec<String> = applied.iter().map(Drift::to_string).collect();
            let (settings, source) = (settings.join(", "), Box::new(source));
            Error::Backend { backend, source: BackendError::NotApplied { settings, source } }
        }
        other => other,
    })
}

/// Returns an engine whose settings are those of now, but for changes that are not to be applied:
/// of these it has the values that the instance was made with. Nothing if there are none.
fn hold(
    engine: &Inner,
    key: &Key,
    attached: &Attached,
    overrides: &Overrides,
    held: &[Drift],
) -> Result<Option<Inner>, Error> {
    if held.is_empty() {
        return Ok(None);
    }
    let settings = &engine.settings;
    let known = held.iter().filter_map(|drift| Some((drift, settings.schema().find(&drift.key)?)));
    let values = known.map(|(drift, setting)| {
        let was = match drift.was.as_deref() {
            // As specs write it; settings write 0.
            Some("none") => "0".to_owned(),
            Some(was) => was.to_owned(),
            None => setting.default_untyped().to_string(),
        };
        Override::parse(settings.schema(), &format!("{}={was}", setting.name()))
    });
    let values = values.collect::<Result<Vec<_>, _>>()?;
    let holding = engine.with_settings(Arc::new(settings.with_overrides(&values)));
    let backend = &*attached.backend;
    let spec = holding.spec(backend, overrides)?;
    let rest = spec.drift_from(&attached.record.spec, |name| backend.tightening(name));
    match rest.iter().find(|left| held.iter().any(|drift| drift.key == left.key)) {
        None => Ok(Some(holding)),
        Some(left) => {
            let task = crate::key::quoted(key.task().as_str());
            Err(Error::backend(backend.name())(BackendError::Advised {
                problem: format!(
                    "settings isolate more than the sandbox, and cannot be applied without {left}, \
                     which was not asked for"
                ),
                advice: format!("to apply all of them: vestal rebuild {task}"),
            }))
        }
    }
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
    /// Adds the notice that changed settings were applied, unless the start has added it.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn drift(tightens: bool) -> Vec<Drift> {
        vec![Drift { key: "k".into(), was: None, now: Some("1".into()), tightens, loosens: false }]
    }

    #[test]
    fn a_change_that_tightens_is_never_ignored() {
        for policy in [OnConfigChange::Warn, OnConfigChange::Recreate, OnConfigChange::Keep] {
            assert_eq!(decide(&drift(true), policy), Decision::Enforce);
        }
    }

    #[test]
    fn other_changes_go_by_the_policy() {
        assert_eq!(decide(&drift(false), OnConfigChange::Warn), Decision::Warn);
        assert_eq!(decide(&drift(false), OnConfigChange::Recreate), Decision::Apply);
        assert_eq!(decide(&drift(false), OnConfigChange::Keep), Decision::Keep);
        assert_eq!(decide(&[], OnConfigChange::Recreate), Decision::Keep);
    }
}
