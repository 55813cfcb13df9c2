//! Make and start instances.

use std::sync::Arc;

use jiff::Timestamp;
use vestal_wire::Role;

use super::Inner;
use super::attach::{Attached, GreetError, Notice, Site, StateBefore, greet};
use super::order::{Lifespan, Wanted};
use crate::Error;
use crate::backend::{Backend, Confinement, Instance, Remedy};
use crate::failpoint;
use crate::key::random_hex;
use crate::store::{InstanceMark, InstanceRecord, Intent, Record, StoreError, make_private_dir};

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
        let id = random_hex::<8>()
            .map_err(|error| StoreError::io("name an instance in", dir.path(), error))?;
        record.generation += 1;
        let instance =
            Instance { dir: dir.instance_dir(&id), id, locator: serde_json::Value::Null };
        dir.write_intent(Intent::Create {
            instance: instance.id.clone(),
            generation: record.generation,
            backend: backend.name().to_owned(),
        })?;
        failpoint::reach("create.intent-written");
        if backend.confinement() == Confinement::Contained {
            make_private_dir(&instance.dir)?;
            InstanceMark::new(backend.name(), None).write(&instance.dir, backend.confinement())?;
        }

        let lifespan = Lifespan::Retained { retention: self.retention()? };
        let wanted = Wanted { key, backend: &*backend, overrides: &record.overrides };
        let order = self.order(wanted, &instance, record.generation, lifespan, lock)?;
        let about = order.record(Timestamp::now());
        let made = match backend.create(order).await {
            Ok(made) => made,
            Err(error) => {
                // Nothing can have run in it: what there is of it goes.
                if let Err(left) = backend.remove(&instance).await {
                    // The intent stays, and with it the duty to remove it.
                    tracing::warn!(instance = instance.id, %left, "left for later");
                } else {
                    dir.clear_intent()?;
                }
                return Err(Error::backend(backend.name())(error));
            }
        };
        failpoint::reach("create.guest-started");
        let instance = Instance { locator: made.locator, ..instance };
        record.instance = Some(InstanceRecord { locator: instance.locator.clone(), ..about });
        dir.write_record(&record)?;
        failpoint::reach("create.record-written");
        dir.clear_intent()?;
        failpoint::reach("create.intent-cleared");

        let mut notices: Vec<Notice> = made.remarks.into_iter().map(Notice::Remark).collect();
        if first && backend.confinement() == Confinement::None {
            notices.push(Notice::NoIsolation);
        }
        self.greet_new(site, backend, instance, record, StateBefore::Absent, notices).await
    }

    /// Starts the recorded instance; if that fails, makes the next generation.
    pub(super) async fn start(
        &self,
        site: Site<'_>,
        mut record: Record,
        before: StateBefore,
    ) -> Result<Attached, Error> {
        let Site { key, dir, lock, .. } = site;
        let backend = Arc::clone(self.backend(key.task(), &record.backend)?);
        let Some(instance) = record.instance(dir) else {
            return self.create(site, record).await;
        };
        dir.write_intent(Intent::Start { instance: instance.id.clone() })?;
        failpoint::reach("start.intent-written");

        let lifespan = Lifespan::Retained { retention: self.retention()? };
        let wanted = Wanted { key, backend: &*backend, overrides: &record.overrides };
        let order = self.order(wanted, &instance, record.generation, lifespan, lock)?;
        let now = order.record(Timestamp::now());
        let made = match backend.start(order).await {
            Ok(made) => made,
            // What is wrong is not the instance: it stays as it is.
            Err(error) if error.is_final() => {
                dir.clear_intent()?;
                return Err(Error::backend(backend.name())(error));
            }
            Err(error) => {
                tracing::warn!(instance = instance.id, %error, "cannot start; making a new one");
                let failed = || Error::backend(backend.name());
                match backend.confinement() {
                    Confinement::None => backend.remove(&instance).await.map_err(failed())?,
                    // Its own filesystem may hold what the user wants back; the
                    // reaper gives them time for that.
                    Confinement::Contained => backend.set_aside(key).await.map_err(failed())?,
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
        if let Some(started) = &mut record.instance {
            started.locator = instance.locator.clone();
            started.retention_seconds = now.retention_seconds;
            if backend.remedy() == Remedy::Restart {
                started.spec = now.spec;
            }
        }
        dir.write_record(&record)?;
        failpoint::reach("start.record-written");
        dir.clear_intent()?;
        failpoint::reach("start.intent-cleared");
        let notices = made.remarks.into_iter().map(Notice::Remark).collect();
        self.greet_new(site, backend, instance, record, before, notices).await
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
