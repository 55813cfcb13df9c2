//! What to do when the settings have changed since an instance was made.

use std::sync::Arc;

use vestal_wire::{JobId, Request};

use super::Inner;
use super::attach::Attached;
use super::create::millis;
use super::remove::Interrupt;
use crate::backend::{Backend, Remedy};
use crate::job::{self, JobFilter};
use crate::notice::Notice;
use crate::settings::OnConfigChange;
use crate::spec::Drift;
use crate::store::{KeyLock, SandboxDir};
use crate::{Error, Key, Task};

/// Most jobs in the way of settings that are named.
const MAX_NAMED: u32 = 20;

/// Said of a sandbox whose system was restored or forked and is made anew.
const GIVEN_UP: &str = "its own filesystem, which began as a copy, was given up for a new one; \
                        workspace and home are kept";

/// What a drift calls for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Decision {
    /// Hand the sandbox out and say nothing.
    Keep,
    /// Hand it out and name what differs.
    Warn,
    /// Apply the settings if nothing runs, else hand it out and name them.
    Apply,
    /// Apply the settings; a busy sandbox is not handed out.
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

impl Inner {
    /// Deals with settings that changed since the instance was made.
    pub(super) async fn settle_drift(
        &self,
        key: &Key,
        mut attached: Attached,
    ) -> Result<Attached, Error> {
        self.settle_retention(key, &mut attached).await?;
        let drift = self.drift(&attached)?;
        match decide(&drift, self.on_config_change()?) {
            Decision::Keep => Ok(attached),
            Decision::Warn => {
                attached.notices.push(Notice::Drift(drift));
                Ok(attached)
            }
            Decision::Apply => match self.apply(key, &attached).await {
                Ok(fresh) => Ok(fresh.with_applied(drift)),
                Err(Error::Busy { .. }) => {
                    attached.notices.push(Notice::Drift(drift));
                    Ok(attached)
                }
                Err(error) => Err(error),
            },
            Decision::Enforce => match self.apply(key, &attached).await {
                Err(Error::Busy { .. }) => {
                    let jobs = jobs_running(&attached).await?;
                    Err(Error::Tightened { drift, jobs })
                }
                Ok(fresh) => Ok(fresh.with_applied(drift)),
                Err(error) => Err(error),
            },
        }
    }

    fn drift(&self, attached: &Attached) -> Result<Vec<Drift>, Error> {
        let backend = &attached.backend;
        let spec = self.spec(&**backend, &attached.overrides)?;
        Ok(spec.drift_from(&attached.record.spec, |name| backend.tightening(name)))
    }

    /// Applies the settings to an idle sandbox: the guest itself refuses to end
    /// under a job or a call, so there is no moment to miss.
    async fn apply(&self, key: &Key, attached: &Attached) -> Result<Attached, Error> {
        let dir = self.dir(key);
        let lock = self.lock(key.task(), &dir).await?;
        let current = dir.record_of(key)?.and_then(|record| record.instance(&dir));
        if current.as_ref() == Some(&attached.instance) {
            // What cannot be made is no reason to end what is there.
            let vetted = attached.backend.vet(&attached.overrides, &self.progress).await;
            vetted.map_err(Error::backend(attached.backend.name()))?;
            self.take_down(key.task(), &dir, &attached.backend, attached).await?;
        }
        let mut fresh = self.attach_locked(key, &dir, &lock, &attached.overrides).await?;
        let was = attached.backend.describe(&attached.instance.locator);
        if was.is_copy && fresh.instance.id != attached.instance.id {
            fresh.notices.push(Notice::Remark(GIVEN_UP.to_owned()));
        }
        Ok(fresh)
    }

    async fn take_down(
        &self,
        task: &Task,
        dir: &SandboxDir,
        backend: &Arc<dyn Backend>,
        attached: &Attached,
    ) -> Result<(), Error> {
        self.stop_locked(task, dir, &**backend, &attached.instance, Interrupt::Nothing).await?;
        if backend.remedy() == Remedy::Recreate {
            backend.remove(&attached.instance).await.map_err(Error::backend(backend.name()))?;
        }
        Ok(())
    }

    /// Tells the guest of a changed retention: that needs no new instance.
    async fn settle_retention(&self, key: &Key, attached: &mut Attached) -> Result<(), Error> {
        let wanted = self.retention()?;
        let seconds = wanted.map(|wanted| wanted.as_secs());
        if attached.record.retention_seconds == seconds {
            return Ok(());
        }
        let retention_ms = wanted.map(millis);
        attached.connection.call(Request::Retain { retention_ms }).await?;
        attached.record.retention_seconds = seconds;
        // If somebody else has the lock, the next one to attach writes it down;
        // telling the guest twice does no harm.
        let dir = self.dir(key);
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
