//! Instances that belong to this process, and the end of the process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use jiff::Timestamp;
use tokio::sync::OwnedRwLockReadGuard;
use tokio::task::JoinSet;
use vestal_wire::HostRole;

use super::attach::{Attached, StateBefore, greet};
use super::create::{InstanceSource, Lifespan};
use super::lock::LOCK_TIMEOUT;
use super::remove::{StopScope, kept_files};
use super::sweep::SweepStart;
use super::{Engine, Inner, create, remove, sweep};
use crate::backend::{Backend, Confinement, Instance, Owner};
use crate::key::random_hex;
use crate::notice::Notice;
use crate::sandbox::{Cleanup, Handle};
use crate::store::{
    InstanceMark, InstanceRecord, KeyLock, SandboxDir, StoreError, make_private_dir,
};
use crate::{Error, Key, Overrides};

/// All instances that belong to this process.
///
/// An instance is in here from before it is made until it has been removed,
/// also if its handle is forgotten meanwhile: the end of the process waits for this
/// list to become empty.
#[derive(Debug, Default)]
pub(crate) struct OwnedInstances(Mutex<HashMap<String, Arc<OwnedInstance>>>);

/// An instance that belongs to this process.
#[derive(Debug)]
pub(crate) struct OwnedInstance {
    key: Key,
    backend: Arc<dyn Backend>,
    /// Locked while it is made and while it is removed, so that one does it and
    /// the others wait for that. Nothing once it has been removed.
    instance: tokio::sync::Mutex<Option<Instance>>,
}

impl OwnedInstances {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<OwnedInstance>>> {
        // The map itself is never half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns an instance by its id; nothing if it has been removed.
    pub(crate) fn get(&self, id: &str) -> Option<Arc<OwnedInstance>> {
        self.lock().get(id).cloned()
    }

    /// Returns those that are there, or are being made or removed.
    pub(super) fn all(&self) -> Vec<Arc<OwnedInstance>> {
        self.lock().values().cloned().collect()
    }
}

/// Makes an instance of this process's own. Making is seen through even if
/// the caller no longer waits: half an instance would belong to nobody.
pub(crate) async fn own(
    engine: &Arc<Inner>,
    key: &Key,
    overrides: &Overrides,
) -> Result<Attached, Error> {
    let (inner, key, overrides) = (Arc::clone(engine), key.clone(), overrides.clone());
    run_to_end(async move { create_owned(&inner, &key, &overrides).await }).await
}

/// Makes an instance of this process's own. Nothing is looked for: with
/// `persist_across_processes: false` every process starts afresh, under a
/// name nobody else has.
pub(super) async fn create_owned(
    engine: &Arc<Inner>,
    key: &Key,
    overrides: &Overrides,
) -> Result<Attached, Error> {
    sweep::sweep_once(engine, key, overrides, SweepStart::AtOnce);
    let dir = engine.dir(key);
    dir.make()?;
    let backend = engine.choose_backend(key.task(), overrides).await?;
    let named = random_hex::<8>();
    let id = named.map_err(|error| StoreError::io("name an instance in", dir.path(), error))?;
    let instance = Instance { dir: dir.instance_dir(&id), id, locator: serde_json::Value::Null };
    let owned = Arc::new(OwnedInstance {
        key: key.clone(),
        backend: Arc::clone(&backend),
        instance: tokio::sync::Mutex::new(Some(instance.clone())),
    });
    let mut made = owned.instance.lock().await;
    engine.owned.lock().insert(instance.id.clone(), Arc::clone(&owned));
    let attached = make_owned(engine, key, overrides, &backend, instance).await;
    match &attached {
        Ok(attached) => *made = Some(attached.instance.clone()),
        Err(error) => {
            // Nobody else would ever look for it. If this fails, the end of
            // the process tries once more.
            tracing::debug!(%error, "an instance of this process could not be made");
            if let Some(instance) = made.as_ref() {
                backend.remove(instance).await.map_err(Error::backend(backend.name()))?;
                engine.owned.lock().remove(&instance.id);
                *made = None;
            }
        }
    }
    attached
}

/// Makes an instance of this process's own with an id that is on record already.
pub(super) async fn make_owned(
    engine: &Inner,
    key: &Key,
    overrides: &Overrides,
    backend: &Arc<dyn Backend>,
    instance: Instance,
) -> Result<Attached, Error> {
    let socket_dir = instance.dir.join("io");
    make_private_dir(&socket_dir)?;
    // The owner is on disk before there is anything to own.
    let owner = Owner::current(backend.name())
        .map_err(|error| StoreError::io("name this process in", &instance.dir, error))?;
    InstanceMark::new(backend.name(), Some(owner.clone()))
        .write(&instance.dir, backend.confinement())?;
    let lock = KeyLock::acquire(&socket_dir.join("lock"), LOCK_TIMEOUT).await?;

    let wanted = InstanceSource { key, backend: &**backend, overrides };
    let request =
        create::instance_request(engine, wanted, &instance, 1, Lifespan::Owned { owner }, &lock)?;
    let record = request.record(Timestamp::now());
    let made = backend.create(request).await.map_err(Error::backend(backend.name()))?;
    let instance = Instance { locator: made.locator, ..instance };
    let greeted = greet(&**backend, &instance, HostRole::Owner).await;
    let connection =
        greeted.map_err(|error| error.into_error(key.task().as_str(), &**backend, &instance))?;
    let record = InstanceRecord { locator: instance.locator.clone(), ..record };
    let mut notices: Vec<Notice> = made.warnings.into_iter().map(Notice::Remark).collect();
    if backend.confinement() == Confinement::None {
        notices.push(Notice::NoIsolation);
    }
    Ok(Attached {
        backend: Arc::clone(backend),
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
/// With [`StopScope::Nothing`] one that is in use is left alone. A
/// second caller waits for the first.
pub(crate) async fn remove_owned(
    engine: &Inner,
    owned: &OwnedInstance,
    interrupt: StopScope,
) -> Result<(), Error> {
    let OwnedInstance { key, backend, instance } = owned;
    let mut there = instance.lock().await;
    let Some(instance) = there.as_ref() else { return Ok(()) };
    remove::ask_to_end(engine, key.task(), &**backend, instance, interrupt).await?;
    backend.remove(instance).await.map_err(Error::backend(backend.name()))?;
    engine.owned.lock().remove(&instance.id);
    *there = None;
    // The sandbox's directory stays only if somebody else has something in it.
    let dir = engine.dir(key);
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

/// Does work to its end, whether or not the caller waits for it that long.
pub(super) async fn run_to_end<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> T {
    match tokio::spawn(work).await {
        Ok(done) => done,
        Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
    }
}

/// Longest time a process spends on its sandboxes when it ends. What is not
/// done by then the guests do themselves, when they miss their owner.
pub const CLOSE_WITHIN: Duration = Duration::from_secs(15);

impl Engine {
    /// Ends this process's part: removes what belongs to it, waits until copies
    /// that were given up are undone, lets go of the rest. Returns whether all
    /// was done within `timeout`.
    #[boxed]
    pub async fn close(&self, timeout: Duration) -> bool {
        let deadline = tokio::time::Instant::now() + timeout;
        let handles: Vec<Arc<Handle>> =
            self.inner.handles().drain().map(|(_, handle)| handle).collect();
        for handle in handles.into_iter().filter(|handle| handle.is_owned()) {
            handle.begin_cleanup(Cleanup::Release);
        }
        let removed = tokio::time::timeout_at(deadline, remove_all_owned(&self.inner)).await;
        let undone = tokio::time::timeout_at(deadline, self.inner.unfinished.write()).await;
        removed.unwrap_or(false) && undone.is_ok()
    }
}

/// Makes [`Engine::close`] wait until the returned value is dropped; nothing
/// once it has started to wait.
pub(crate) fn delay_close(engine: &Inner) -> Option<OwnedRwLockReadGuard<()>> {
    Arc::clone(&engine.unfinished).try_read_owned().ok()
}

/// Removes every instance of this process, those too that are being made
/// and those whose removal somebody else has started. Returns whether none is
/// left.
async fn remove_all_owned(engine: &Arc<Inner>) -> bool {
    loop {
        let owned = engine.owned.all();
        if owned.is_empty() {
            return true;
        }
        let mut removals = JoinSet::new();
        for instance in owned {
            let inner = Arc::clone(engine);
            removals.spawn(async move {
                remove_owned(&inner, &instance, StopScope::Anything).await.inspect_err(|error| {
                    tracing::warn!(%error, "a sandbox of this process is not removed");
                })
            });
        }
        if !removals.join_all().await.iter().all(Result::is_ok) {
            return false;
        }
    }
}
