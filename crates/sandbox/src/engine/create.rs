//! Make and start instances.

use std::sync::Arc;

use jiff::Timestamp;
use vestal_config::OnConfigChange;
use vestal_wire::Role;

use super::Inner;
use super::attach::{Attached, GreetError, Site, StateBefore, greet};
use super::order::{Lifespan, Wanted};
use super::remove::kept_files;
use crate::backend::{Backend, BackendError, Base, Confinement, Instance, InstanceRequest, Remedy};
use crate::failpoint;
use crate::key::random_hex;
use crate::notice::Notice;
use crate::store::{
    InstanceMark, InstanceRecord, Intent, KeyLock, Record, SandboxDir, StoreError, make_private_dir,
};
use crate::{Error, Key, ProgressSink};

impl Inner {
    /// Makes the next generation of a sandbox's instance.
    pub(super) async fn create(
        &self,
        site: Site<'_>,
        mut record: Record,
    ) -> Result<Attached, Error> {
        failpoint::reach("create.locked");
        let Site { key, dir, lock, asked } = site;
        let backend = Arc::clone(self.backend(key.task(), &record.backend)?);
        record.overrides = asked.clone().or(&record.overrides);
        let first = record.generation == 0;
        let is_new = dir.read_record()?.is_none()
            && dir.instance_ids()?.is_empty()
            && kept_files(dir).is_empty();
        let id = new_instance_id(dir)?;
        record.generation += 1;
        dir.write_intent(Intent::Create {
            instance: id.clone(),
            generation: record.generation,
            backend: backend.name().to_owned(),
        })?;
        failpoint::reach("create.intent-written");
        let ground = Ground { key, dir, lock };
        let remarks = match self.make(ground, &mut record, id, None, &self.progress).await {
            Ok(remarks) => remarks,
            Err(Unmade { error, left }) => {
                // What is left keeps the intent, and with it the duty to remove it.
                if !left {
                    dir.clear_intent()?;
                    if is_new {
                        self.forget_unmade(dir).await;
                    }
                }
                return Err(error);
            }
        };
        failpoint::reach("create.guest-started");
        dir.write_record(&record)?;
        failpoint::reach("create.record-written");
        dir.clear_intent()?;
        failpoint::reach("create.intent-cleared");
        let instance =
            record.instance(dir).ok_or_else(|| Error::NoSandbox { task: record.task.clone() })?;

        let mut notices: Vec<Notice> = remarks.into_iter().map(Notice::Remark).collect();
        if first && backend.confinement() == Confinement::None {
            notices.push(Notice::NoIsolation);
        }
        self.greet_new(site, backend, instance, record, StateBefore::Absent, notices).await
    }

    /// Makes an instance that an intent names already, and enters it in the
    /// record, which the caller writes. Returns what its users should hear.
    pub(super) async fn make(
        &self,
        ground: Ground<'_>,
        record: &mut Record,
        id: String,
        base: Option<Base>,
        progress: &ProgressSink,
    ) -> Result<Vec<String>, Unmade> {
        let Ground { key, dir, lock } = ground;
        let whole = |error| Unmade { error, left: false };
        let backend = Arc::clone(self.backend(key.task(), &record.backend).map_err(whole)?);
        let instance =
            Instance { dir: dir.instance_dir(&id), id, locator: serde_json::Value::Null };
        let prepare = || -> Result<InstanceRequest, Error> {
            if backend.confinement() != Confinement::None {
                make_private_dir(&instance.dir)?;
                let mark = InstanceMark::new(backend.name(), None);
                mark.write(&instance.dir, backend.confinement())?;
            }
            let lifespan = Lifespan::Retained { retention: self.retention()? };
            let wanted = Wanted { key, backend: &*backend, overrides: &record.overrides };
            self.order(wanted, &instance, record.generation, lifespan, lock)
        };
        let made = match prepare() {
            Ok(request) => {
                let request = InstanceRequest { base, progress: progress.clone(), ..request };
                let about = request.record(Timestamp::now());
                let made = backend.create(request).await;
                made.map(|made| (made, about)).map_err(Error::backend(backend.name()))
            }
            Err(error) => Err(error),
        };
        match made {
            Ok((made, about)) => {
                let up = Instance { locator: made.locator.clone(), ..instance };
                self.publish_again(dir, &*backend, &up).await;
                record.instance = Some(InstanceRecord { locator: made.locator, ..about });
                Ok(made.warnings)
            }
            Err(error) => {
                // Nothing can have run in it: what there is of it goes.
                let removed = backend.remove(&instance).await;
                if let Err(left) = &removed {
                    tracing::warn!(instance = instance.id, %left, "left for later");
                }
                Err(Unmade { error, left: removed.is_err() })
            }
        }
    }

    /// Removes what a sandbox that could not be made has left: nothing was there
    /// before, nothing can have run in it, and nobody would look for it. What
    /// cannot be removed is in nobody's way.
    async fn forget_unmade(&self, dir: &SandboxDir) {
        let removed = async {
            if let Some(aside) = dir.move_aside()? {
                self.delete_anyhow(&aside).await?;
            }
            Ok::<_, Error>(())
        };
        if let Err(error) = removed.await {
            tracing::warn!(%error, dir = %dir.path().display(), "left for later");
        }
    }

    /// Starts the recorded instance. One that fails to start stays as it is: a
    /// full disk or a slow machine passes, and what was installed in it would
    /// not come back. Only one that can never be started again, or that holds
    /// no files of its own, makes way for the next generation.
    pub(super) async fn start(
        &self,
        site: Site<'_>,
        mut record: Record,
        before: StateBefore,
    ) -> Result<Attached, Error> {
        let Site { key, dir, lock, asked } = site;
        let backend = Arc::clone(self.backend(key.task(), &record.backend)?);
        let Some(instance) = record.instance(dir) else {
            return self.create(site, record).await;
        };
        if backend.confinement() != Confinement::None && backend.remedy() == Remedy::Restart {
            // A system that is put together at each start is put together as it
            // is asked for now, and stays so.
            record.overrides = asked.clone().or(&record.overrides);
        }
        dir.write_intent(Intent::Start { instance: instance.id.clone() })?;
        failpoint::reach("start.intent-written");

        let lifespan = Lifespan::Retained { retention: self.retention()? };
        let wanted = Wanted { key, backend: &*backend, overrides: &record.overrides };
        let request = self.order(wanted, &instance, record.generation, lifespan, lock)?;
        let now = request.record(Timestamp::now());
        // One that is put together at each start takes the settings of now.
        let is_restarted = backend.remedy() == Remedy::Restart;
        let was = record.instance.as_ref().filter(|_| is_restarted).map(|record| &record.spec);
        let drift = was.map(|was| request.spec.drift_from(was, |name| backend.tightening(name)));
        let drift = drift.filter(|drift| !drift.is_empty());
        let made = match backend.start(request).await {
            Ok(made) => made,
            // What is wrong is not the instance: it stays as it is.
            Err(error) if error.is_final() => {
                dir.clear_intent()?;
                return Err(Error::backend(backend.name())(error));
            }
            Err(error) if !self.gives_way(&*backend, &error)? => {
                dir.clear_intent()?;
                let task = key.task().to_string();
                return Err(Error::StartFailed { task, backend: backend.name(), source: error });
            }
            Err(error) => {
                tracing::warn!(instance = instance.id, %error, "cannot start; making a new one");
                let failed = || Error::backend(backend.name());
                match backend.confinement() {
                    Confinement::None => backend.remove(&instance).await.map_err(failed())?,
                    // Its own filesystem may hold what the user wants back; the
                    // reaper gives them time for that.
                    Confinement::Contained | Confinement::Remote => {
                        backend.set_aside(key).await.map_err(failed())?;
                    }
                }
                record.instance = None;
                dir.write_record(&record)?;
                let mut attached = self.create(site, record).await?;
                attached.before = before;
                attached.notices.push(Notice::Recreated { reason: error.to_string() });
                return Ok(attached);
            }
        };
        failpoint::reach("start.guest-started");
        let instance = Instance { locator: made.locator, ..instance };
        self.publish_again(dir, &*backend, &instance).await;
        if let Some(started) = &mut record.instance {
            started.locator = instance.locator.clone();
            started.retention_seconds = now.retention_seconds;
            if is_restarted {
                started.spec = now.spec;
            }
        }
        dir.write_record(&record)?;
        failpoint::reach("start.record-written");
        dir.clear_intent()?;
        failpoint::reach("start.intent-cleared");
        let remarks = made.warnings.into_iter().map(Notice::Remark);
        let notices = remarks.chain(drift.map(Notice::Applied)).collect();
        self.greet_new(site, backend, instance, record, before, notices).await
    }

    /// Returns whether an instance that did not start makes way for a new one.
    fn gives_way(&self, backend: &dyn Backend, error: &BackendError) -> Result<bool, Error> {
        Ok(match (backend.confinement(), error) {
            // Its files are the host's own.
            (Confinement::None, _) | (_, BackendError::Unresumable { .. }) => true,
            // The user has said what a changed setting may cost.
            (_, BackendError::OtherSystem { .. }) => {
                self.on_config_change()? == OnConfigChange::Recreate
            }
            _ => false,
        })
    }

    async fn greet_new(
        &self,
        site: Site<'_>,
        backend: Arc<dyn Backend>,
        instance: Instance,
        record: Record,
        before: StateBefore,
        notices: Vec<Notice>,
    ) -> Result<Attached, Error> {
        let connection =
            greet(&*backend, &instance, Role::User).await.map_err(|error| match error {
                GreetError::Backend(error) => Error::backend(backend.name())(error),
                GreetError::Connect(error) => Error::Connect(error),
            })?;
        let Record { generation, overrides, task, instance: made, .. } = record;
        let record = made.ok_or(Error::NoSandbox { task })?;
        let overrides = site.asked.clone().or(&overrides);
        Ok(Attached {
            backend,
            connection,
            instance,
            generation,
            record,
            overrides,
            before,
            notices,
        })
    }
}

/// A sandbox whose lock is held.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ground<'a> {
    pub(super) key: &'a Key,
    pub(super) dir: &'a SandboxDir,
    pub(super) lock: &'a KeyLock,
}

/// An instance that could not be made.
#[derive(Debug)]
pub(super) struct Unmade {
    /// Why.
    pub(super) error: Error,
    /// Whether something of it is left.
    pub(super) left: bool,
}

/// Returns an id that no instance had before.
pub(super) fn new_instance_id(dir: &SandboxDir) -> Result<String, StoreError> {
    random_hex::<8>().map_err(|error| StoreError::io("name an instance in", dir.path(), error))
}
