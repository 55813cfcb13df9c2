//! Make and start instances.

use std::sync::Arc;

use jiff::Timestamp;
use vestal_wire::Role;

use super::Inner;
use super::attach::{Attached, GreetError, Notice, StateBefore, greet};
use super::order::Lifespan;
use crate::backend::{Backend, Instance, Remedy};
use crate::failpoint;
use crate::key::random_hex;
use crate::store::{InstanceRecord, Intent, KeyLock, Record, SandboxDir, StoreError};
use crate::{Error, Key};

impl Inner {
    /// Makes the next generation of a sandbox's instance.
    pub(super) async fn create(
        &self,
        key: &Key,
        dir: &SandboxDir,
        lock: &KeyLock,
        record: Option<Record>,
    ) -> Result<Attached, Error> {
        failpoint::reach("create.locked");
        let first = record.is_none();
        let (backend, mut record) = if let Some(record) = record {
            (Arc::clone(self.backend(key.task(), &record.backend)?), record)
        } else {
            let backend = self.choose_backend(key.task()).await?;
            let record = Record::new(key, backend.name(), Timestamp::now());
            (backend, record)
        };
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

        let lifespan = Lifespan::Retained { sandbox: dir.path(), retention: self.retention()? };
        let order = self.order(key, &instance, record.generation, lifespan, lock)?;
        let made = order.record(Timestamp::now());
        let locator = match backend.create(order).await {
            Ok(locator) => locator,
            Err(error) => {
                // Nothing can have run in it: what there is of it goes.
                backend.remove(&instance).await.map_err(Error::backend(backend.name()))?;
                dir.clear_intent()?;
                return Err(Error::backend(backend.name())(error));
            }
        };
        failpoint::reach("create.guest-started");
        let instance = Instance { locator, ..instance };
        record.instance = Some(InstanceRecord { locator: instance.locator.clone(), ..made });
        dir.write_record(&record)?;
        failpoint::reach("create.record-written");
        dir.clear_intent()?;
        failpoint::reach("create.intent-cleared");

        let notices =
            if first && backend.name() == "local" { vec![Notice::NoIsolation] } else { vec![] };
        self.greet_new(backend, instance, record, StateBefore::Absent, notices).await
    }

    /// Starts the recorded instance; if that fails, makes the next generation.
    pub(super) async fn start(
        &self,
        key: &Key,
        dir: &SandboxDir,
        lock: &KeyLock,
        mut record: Record,
        before: StateBefore,
    ) -> Result<Attached, Error> {
        let backend = Arc::clone(self.backend(key.task(), &record.backend)?);
        let Some(instance) = record.instance(dir) else {
            return self.create(key, dir, lock, Some(record)).await;
        };
        dir.write_intent(Intent::Start { instance: instance.id.clone() })?;
        failpoint::reach("start.intent-written");

        let lifespan = Lifespan::Retained { sandbox: dir.path(), retention: self.retention()? };
        let order = self.order(key, &instance, record.generation, lifespan, lock)?;
        let now = order.record(Timestamp::now());
        let locator = match backend.start(order).await {
            Ok(locator) => locator,
            Err(error) => {
                tracing::warn!(instance = instance.id, %error, "cannot start; making a new one");
                backend.remove(&instance).await.map_err(Error::backend(backend.name()))?;
                record.instance = None;
                dir.write_record(&record)?;
                let mut attached = self.create(key, dir, lock, Some(record)).await?;
                attached.before = before;
                attached.notices.push(Notice::Recreated { reason: error.to_string() });
                return Ok(attached);
            }
        };
        failpoint::reach("start.guest-started");
        let instance = Instance { locator, ..instance };
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
        self.greet_new(backend, instance, record, before, Vec::new()).await
    }

    async fn greet_new(
        &self,
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
        let generation = record.generation;
        let record = record.instance.ok_or(Error::NoSandbox { task: record.task })?;
        Ok(Attached { backend, connection, instance, generation, record, before, notices })
    }
}
