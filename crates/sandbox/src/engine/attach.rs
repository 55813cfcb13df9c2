//! Attach to a sandbox, starting or making it if need be.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use vestal_wire::Role;

use super::{Engine, Inner};
use crate::backend::{Backend, BackendError, Instance, InstanceState};
use crate::client::{ConnectError, Connection};
use crate::sandbox::{Handle, Ownership};
use crate::spec::Drift;
use crate::store::{InstanceRecord, KeyLock, LockError, Record, SandboxDir};
use crate::{Error, Key, Sandbox, Task};

/// How long a guest may take to greet. It does so in microseconds; a guest
/// that takes this long is not going to.
const GREETING_WITHIN: Duration = Duration::from_secs(10);

/// How long to wait for another process that works on the same sandbox.
pub(super) const LOCK_PATIENCE: Duration = Duration::from_mins(2);

/// What a sandbox was before a caller asked for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateBefore {
    /// There was none.
    Absent,
    /// It was there and did not run.
    Stopped,
    /// It ran.
    Running,
}

/// Something the caller should hear about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// The sandbox was just made on a backend that does not isolate.
    NoIsolation,
    /// Settings have changed since the instance was made.
    Drift(Vec<Drift>),
    /// The instance could not be started and was made anew.
    Recreated {
        /// Why the start failed.
        reason: String,
    },
}

/// An instance with a connection to its guest.
#[derive(Debug)]
pub(crate) struct Attached {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) connection: Connection,
    pub(crate) instance: Instance,
    pub(crate) generation: u64,
    pub(crate) record: InstanceRecord,
    pub(crate) before: StateBefore,
    pub(crate) notices: Vec<Notice>,
}

impl Engine {
    /// Returns the sandbox of a task: the one that is there, started if it was
    /// stopped, made if there is none.
    pub async fn sandbox(&self, task: &Task) -> Result<Sandbox, Error> {
        let key = self.inner.key(task);
        // Of several tasks of this process one opens the sandbox and the others
        // share it: of two owned instances one would be lost sight of.
        let turn = self.inner.turn(&key);
        let _turn = turn.lock().await;
        let known = self.inner.handles().get(&key).cloned();
        if let Some(handle) = known
            && handle.is_usable()
        {
            return Ok(Sandbox::new(handle));
        }
        let (attached, ownership) = if self.inner.across_processes()? {
            (self.inner.attach(&key).await?, Ownership::Shared)
        } else {
            (self.inner.create_owned(&key).await?, Ownership::Owned)
        };
        let handle = Handle::new(Arc::clone(&self.inner), key.clone(), attached, ownership);
        self.inner.handles().insert(key, Arc::clone(&handle));
        Ok(Sandbox::new(handle))
    }
}

impl Inner {
    /// Returns the lock by which the tasks of this process take turns in
    /// opening a sandbox.
    fn turn(&self, key: &Key) -> Arc<tokio::sync::Mutex<()>> {
        let mut turns = self.turns.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // Those that nobody waits for any more are held by the map alone.
        turns.retain(|_, turn| Arc::strong_count(turn) > 1);
        Arc::clone(turns.entry(key.clone()).or_default())
    }

    /// Attaches to the sandbox of a key. The first attempt takes neither the
    /// lock nor the backend's engine: a guest that greets as the recorded
    /// instance is all the proof there is to have. A sandbox that somebody is
    /// stopping or removing, or died over, is left to the second attempt:
    /// handed out now it would be ended under the caller.
    pub(crate) async fn attach(self: &Arc<Self>, key: &Key) -> Result<Attached, Error> {
        let dir = self.dir(key);
        if !dir.has_intent()
            && let Some(attached) = self.attach_running(key, &dir).await?
        {
            return self.settle_drift(key, attached).await;
        }
        self.sweep_once(key)?;
        let lock = self.lock(key.task(), &dir).await?;
        let attached = self.attach_locked(key, &dir, &lock).await?;
        drop(lock);
        self.settle_drift(key, attached).await
    }

    /// Locks a sandbox to be used, making its directory if need be. What a
    /// process that died had begun is dealt with; if that was a removal, the
    /// lock went with the sandbox and the next one is a new sandbox's.
    pub(super) async fn lock(&self, task: &Task, dir: &SandboxDir) -> Result<KeyLock, Error> {
        loop {
            dir.make()?;
            let lock = match KeyLock::acquire(&dir.lock_file(), LOCK_PATIENCE).await {
                // Removed between the two: the next round makes it again.
                Err(LockError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {
                    continue;
                }
                other => other?,
            };
            dir.sweep_temporaries();
            self.recover(task, dir).await?;
            if lock.is_current(&dir.lock_file()) {
                return Ok(lock);
            }
        }
    }

    /// Attaches under the lock, whatever it takes.
    pub(super) async fn attach_locked(
        &self,
        key: &Key,
        dir: &SandboxDir,
        lock: &KeyLock,
    ) -> Result<Attached, Error> {
        // Whoever held the lock before may have done the work.
        if let Some(attached) = self.attach_running(key, dir).await? {
            return Ok(attached);
        }
        let record = dir.record_of(key)?;
        let Some(record) = record else {
            return self.create(key, dir, lock, None).await;
        };
        let backend = Arc::clone(self.backend(key.task(), &record.backend)?);
        let Some(instance) = record.instance(dir) else {
            return self.create(key, dir, lock, Some(record)).await;
        };
        let failed = Error::backend(backend.name());
        match backend.state(&instance).await.map_err(failed)? {
            InstanceState::Absent => self.create(key, dir, lock, Some(record)).await,
            InstanceState::Stopped { .. } => {
                self.start(key, dir, lock, record, StateBefore::Stopped).await
            }
            InstanceState::Running => {
                // It runs and has not greeted, twice and for long: its guest is
                // dead or stuck, which is what "stopped" means to everyone else.
                tracing::warn!(
                    instance = instance.id,
                    "the guest does not answer; starting it anew"
                );
                backend
                    .end(&instance, GREETING_WITHIN)
                    .await
                    .map_err(Error::backend(backend.name()))?;
                self.start(key, dir, lock, record, StateBefore::Stopped).await
            }
        }
    }

    /// Attaches to the recorded instance if its guest greets; `None` when that
    /// takes more than a connection.
    async fn attach_running(&self, key: &Key, dir: &SandboxDir) -> Result<Option<Attached>, Error> {
        let Some(record) = dir.record_of(key)? else {
            return Ok(None);
        };
        self.check_backend(key.task(), &record.backend)?;
        let backend = Arc::clone(self.backend(key.task(), &record.backend)?);
        let Some(instance) = record.instance(dir) else {
            return Ok(None);
        };
        let Some(instance_record) = record.instance else {
            return Ok(None);
        };
        match greet(&*backend, &instance, Role::User).await {
            Ok(connection) => Ok(Some(Attached {
                backend,
                connection,
                instance,
                generation: record.generation,
                record: instance_record,
                before: StateBefore::Running,
                notices: Vec::new(),
            })),
            // It is alive and well and speaks another language: not to be
            // taken for one that is stuck, which would be ended.
            Err(GreetError::Connect(
                error @ (ConnectError::Version(_) | ConnectError::Refused(_)),
            )) => Err(Error::Connect(error)),
            Err(reason) => {
                tracing::debug!(instance = instance.id, %reason, "not running");
                Ok(None)
            }
        }
    }
}

impl SandboxDir {
    /// Reads the record, which must be this key's.
    pub(super) fn record_of(&self, key: &Key) -> Result<Option<Record>, Error> {
        let Some(record) = self.read_record()? else {
            return Ok(None);
        };
        if record.key != key.hash() {
            return Err(Error::Foreign { path: self.path().into() });
        }
        Ok(Some(record))
    }
}

impl Record {
    /// Returns the recorded instance, as a backend takes it.
    pub(crate) fn instance(&self, dir: &SandboxDir) -> Option<Instance> {
        let instance = self.instance.as_ref()?;
        Some(Instance {
            id: instance.id.clone(),
            dir: dir.instance_dir(&instance.id),
            locator: instance.locator.clone(),
        })
    }
}

/// Why a guest could not be greeted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GreetError {
    #[error(transparent)]
    Backend(#[from] BackendError),
    #[error(transparent)]
    Connect(#[from] ConnectError),
}

/// Connects to an instance's guest.
pub(crate) async fn greet(
    backend: &dyn Backend,
    instance: &Instance,
    role: Role,
) -> Result<Connection, GreetError> {
    let stream = backend.connect(instance).await?;
    let connection =
        Connection::open_within(stream, role, Some(instance.id.clone()), GREETING_WITHIN).await?;
    Ok(connection)
}
