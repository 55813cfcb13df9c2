//! Instances that belong to this process and end with it.

use std::sync::Arc;

use jiff::Timestamp;
use vestal_wire::Role;

use super::Inner;
use super::attach::{Attached, GreetError, Notice, StateBefore, greet};
use super::locking::LOCK_PATIENCE;
use super::order::{Lifespan, Wanted};
use super::reap::Begin;
use super::remove::kept_files;
use super::stop::Interrupt;
use crate::backend::{Confinement, Instance};
use crate::key::random_hex;
use crate::owner::Owner;
use crate::store::{
    InstanceMark, InstanceRecord, KeyLock, SandboxDir, StoreError, make_private_dir,
};
use crate::{Error, Key, Overrides};

impl Inner {
    /// Makes an instance of this process's own. Nothing is looked for: with
    /// `persist_across_processes: false` every process starts afresh, under a
    /// name nobody else has.
    pub(crate) async fn create_owned(
        self: &Arc<Self>,
        key: &Key,
        overrides: &Overrides,
    ) -> Result<Attached, Error> {
        self.sweep_once(key, overrides, Begin::AtOnce);
        let dir = self.dir(key);
        dir.make()?;
        let backend = self.choose_backend(key.task(), overrides).await?;
        let named = random_hex::<8>();
        let id = named.map_err(|error| StoreError::io("name an instance in", dir.path(), error))?;
        let instance =
            Instance { dir: dir.instance_dir(&id), id, locator: serde_json::Value::Null };
        let socket_dir = instance.dir.join("io");
        make_private_dir(&socket_dir)?;
        // The owner is on disk before there is anything to own.
        let owner = Owner::current(backend.name())
            .map_err(|error| StoreError::io("name this process in", &instance.dir, error))?;
        InstanceMark::new(backend.name(), Some(owner.clone()))
            .write(&instance.dir, backend.confinement())?;
        let lock = KeyLock::acquire(&socket_dir.join("lock"), LOCK_PATIENCE).await?;

        let wanted = Wanted { key, backend: &*backend, overrides };
        let order = self.order(wanted, &instance, 1, Lifespan::Owned { owner }, &lock)?;
        let record = order.record(Timestamp::now());
        let made = match backend.create(order).await {
            Ok(made) => made,
            Err(error) => {
                backend.remove(&instance).await.map_err(Error::backend(backend.name()))?;
                return Err(Error::backend(backend.name())(error));
            }
        };
        let instance = Instance { locator: made.locator, ..instance };
        let connection = match greet(&*backend, &instance, Role::Owner).await {
            Ok(connection) => connection,
            Err(error) => {
                // Nobody else would ever look for it.
                backend.remove(&instance).await.map_err(Error::backend(backend.name()))?;
                return Err(match error {
                    GreetError::Backend(error) => Error::backend(backend.name())(error),
                    GreetError::Connect(error) => Error::Connect(error),
                });
            }
        };
        let record = InstanceRecord { locator: instance.locator.clone(), ..record };
        let mut notices: Vec<Notice> = made.remarks.into_iter().map(Notice::Remark).collect();
        if backend.confinement() == Confinement::None {
            notices.push(Notice::NoIsolation);
        }
        Ok(Attached {
            backend,
            connection,
            instance,
            generation: 1,
            record,
            overrides: overrides.clone(),
            before: StateBefore::Absent,
            notices,
        })
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
        let is_left = |dir: &SandboxDir| {
            Ok::<_, StoreError>(
                dir.read_record()?.is_none()
                    && dir.instance_ids()?.is_empty()
                    && kept_files(dir).is_empty(),
            )
        };
        if is_left(&dir)?
            && let Some(lock) = KeyLock::try_acquire(&dir.lock_file())?
        {
            if is_left(&dir)? {
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
