//! Instances that belong to this process and end with it.

use std::sync::Arc;

use jiff::Timestamp;
use vestal_wire::Role;

use super::Inner;
use super::attach::{Attached, GreetError, LOCK_PATIENCE, Notice, StateBefore, greet};
use super::order::Lifespan;
use super::stop::Interrupt;
use crate::backend::Instance;
use crate::key::random_hex;
use crate::owner::Owner;
use crate::store::{InstanceRecord, KeyLock, StoreError, make_private_dir};
use crate::{Error, Key};

impl Inner {
    /// Makes an instance of this process's own. Nothing is looked for: with
    /// `persist_across_processes: false` every process starts afresh, under a
    /// name nobody else has.
    pub(crate) async fn create_owned(self: &Arc<Self>, key: &Key) -> Result<Attached, Error> {
        self.sweep_once(key)?;
        let dir = self.dir(key);
        dir.make()?;
        let backend = self.choose_backend(key.task()).await?;
        let named = random_hex::<8>();
        let id = named.map_err(|error| StoreError::io("name an instance in", dir.path(), error))?;
        let instance =
            Instance { dir: dir.instance_dir(&id), id, locator: serde_json::Value::Null };
        let socket_dir = instance.dir.join("io");
        make_private_dir(&socket_dir)?;
        // The owner is on disk before there is anything to own.
        Owner::current(backend.name())
            .map_err(|error| StoreError::io("name this process in", &socket_dir, error))?
            .write(&socket_dir)?;
        let lock = KeyLock::acquire(&socket_dir.join("lock"), LOCK_PATIENCE).await?;

        let order = self.order(key, &instance, 1, Lifespan::Owned, &lock)?;
        let record = order.record(Timestamp::now());
        let locator = match backend.create(order).await {
            Ok(locator) => locator,
            Err(error) => {
                backend.remove(&instance).await.map_err(Error::backend(backend.name()))?;
                return Err(Error::backend(backend.name())(error));
            }
        };
        let instance = Instance { locator, ..instance };
        let connection =
            greet(&*backend, &instance, Role::Owner).await.map_err(|error| match error {
                GreetError::Backend(error) => Error::backend(backend.name())(error),
                GreetError::Connect(error) => Error::Connect(error),
            })?;
        let record = InstanceRecord { locator: instance.locator.clone(), ..record };
        let notices = if backend.name() == "local" { vec![Notice::NoIsolation] } else { vec![] };
        let before = StateBefore::Absent;
        Ok(Attached { backend, connection, instance, generation: 1, record, before, notices })
    }

    /// Removes an instance of this process's own and what it leaves on disk.
    /// With [`Interrupt::Nothing`] one that is in use is left alone.
    pub(crate) async fn remove_owned(
        &self,
        key: &Key,
        attached: &OwnedInstance,
        interrupt: Interrupt,
    ) -> Result<(), Error> {
        let OwnedInstance { backend, instance } = attached;
        self.ask_to_end(key.task(), &**backend, instance, interrupt).await?;
        backend.remove(instance).await.map_err(Error::backend(backend.name()))?;
        // The sandbox's directory stays only if somebody else has something in it.
        let dir = self.dir(key);
        if dir.read_record()?.is_none()
            && dir.instance_ids()?.is_empty()
            && let Some(lock) = KeyLock::try_acquire(&dir.lock_file())?
        {
            if dir.read_record()?.is_none() && dir.instance_ids()?.is_empty() {
                dir.remove()?;
            }
            drop(lock);
        }
        Ok(())
    }
}

/// An owned instance and the backend it is on.
#[derive(Debug, Clone)]
pub(crate) struct OwnedInstance {
    pub(crate) backend: Arc<dyn crate::backend::Backend>,
    pub(crate) instance: Instance,
}
