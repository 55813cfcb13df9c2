//! Attach to a sandbox, and greet its guest: the proof that it runs and is the one meant.

#[cfg(test)]
#[path = "attach_tests.rs"]
mod tests;

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use tokio::time::Instant;
use vestal_wire::HostRole;

use super::owned::run_to_end;
use super::sweep::SweepStart;
use super::{Engine, Inner, bring_up, drift, lock, owned, sweep};
use crate::backend::{Backend, BackendError, Instance, InstanceState};
use crate::client::{ConnectError, Connection};
use crate::notice::Notice;
use crate::sandbox::{Handle, Ownership};
use crate::store::{InstanceRecord, SandboxDir, SandboxRecord};
use crate::{Error, Key, Overrides, Sandbox, TaskName};

/// How long a guest may take to answer a greeting. It normally takes microseconds; a
/// guest that takes this long is stuck.
pub(super) const GREETING_WITHIN: Duration = Duration::from_secs(10);

/// How long the first attempt, without the lock, waits for a greeting. After that the
/// backend is asked.
pub(super) const GREETING_SOON: Duration = Duration::from_secs(1);

/// How long the attempt under the lock waits: another process may just have started the
/// guest.
pub(super) const GREETING_AT_ONCE: Duration = Duration::from_millis(500);

/// Pause before a connection that a network cut is tried again; each further
/// pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(20);

/// The longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

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

/// What a caller found who asked for a sandbox. It is the caller's own: the next one finds the
/// sandbox running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FoundAs {
    pub(crate) before: StateBefore,
    /// Whether its instance could not be used, and another one was made.
    pub(crate) was_remade: bool,
}

impl FoundAs {
    /// A sandbox that runs and is as it was.
    pub(crate) const RUNNING: Self = Self { before: StateBefore::Running, was_remade: false };

    pub(crate) fn of(attached: &Attached) -> Self {
        let is_remade = |notice: &Notice| matches!(notice, Notice::Recreated { .. });
        Self { before: attached.before, was_remade: attached.notices.iter().any(is_remade) }
    }
}

/// An instance with a connection to its guest.
#[derive(Debug)]
pub(crate) struct Attached {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) connection: Connection,
    pub(crate) instance: Instance,
    pub(crate) generation: u64,
    pub(crate) record: InstanceRecord,
    pub(crate) overrides: Overrides,
    pub(crate) before: StateBefore,
    pub(crate) notices: Vec<Notice>,
}

impl Engine {
    /// Returns the sandbox of a task: the one that is there, started if it was
    /// stopped, made if there is none.
    #[boxed]
    pub async fn sandbox(&self, task: &TaskName) -> Result<Sandbox, Error> {
        self.sandbox_with(task, &Overrides::default()).await
    }

    /// Returns the sandbox of a task that has one, started if it was stopped. None is made: a name
    /// that is mistyped is [`Error::NoSandbox`].
    #[boxed]
    pub async fn existing_sandbox(&self, task: &TaskName) -> Result<Sandbox, Error> {
        if let Err(error @ Error::NoSandbox { .. }) = self.observe(task).await {
            return Err(error);
        }
        self.sandbox(task).await
    }

    /// Connects to the sandbox of a task that has one, without using it unless it has to be started.
    #[boxed]
    pub async fn existing_connection(&self, task: &TaskName) -> Result<Connection, Error> {
        match self.observe(task).await {
            Err(Error::Stopped { .. }) => self.sandbox(task).await?.connection().await,
            result => result,
        }
    }

    /// Returns the sandbox of a task with settings for this sandbox alone. They are
    /// recorded when it is made, and stay with it.
    #[boxed]
    pub async fn sandbox_with(
        &self,
        task: &TaskName,
        overrides: &Overrides,
    ) -> Result<Sandbox, Error> {
        let (task, overrides) = self.inner.scope(task, overrides)?;
        let key = self.inner.key(&task);
        // One task of this process opens the sandbox and the others share it: of two
        // owned instances, one would never be removed.
        let turn = open_lock(&self.inner, &key).lock_owned().await;
        let known = self.inner.handles().get(&key).cloned();
        if let Some(handle) = known
            && handle.is_usable()
            && (overrides.is_empty() || handle.suits(&overrides).await)
        {
            let found = handle.find_again().await?;
            return Ok(Sandbox::new(handle, found));
        }
        if self.inner.across_processes()? {
            let attached = attach(&self.inner, &key, &overrides).await?;
            return Ok(hold(&self.inner, key, attached, Ownership::Shared));
        }
        let inner = Arc::clone(&self.inner);
        // A caller that no longer waits leaves a sandbox that others find, the
        // idle reaper among them.
        run_to_end(async move {
            let attached = owned::create_owned(&inner, &key, &overrides).await?;
            let sandbox = hold(&inner, key, attached, Ownership::Owned);
            drop(turn);
            Ok(sandbox)
        })
        .await
    }
}

/// Keeps hold of a sandbox for this process, until the end of the process
/// or of its use.
fn hold(engine: &Arc<Inner>, key: Key, attached: Attached, ownership: Ownership) -> Sandbox {
    let found = FoundAs::of(&attached);
    let handle = Handle::new(Arc::clone(engine), key.clone(), attached, ownership);
    engine.handles().insert(key, Arc::clone(&handle));
    sweep::start_idle_reaper(engine);
    Sandbox::new(handle, found)
}

/// Returns the lock by which the tasks of this process take turns in
/// opening a sandbox.
fn open_lock(engine: &Inner, key: &Key) -> Arc<tokio::sync::Mutex<()>> {
    let mut locks = engine.open_locks.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    // A lock without waiters is referenced by the map alone.
    locks.retain(|_, lock| Arc::strong_count(lock) > 1);
    Arc::clone(locks.entry(key.clone()).or_default())
}

/// Attaches to the sandbox of a key. The first attempt neither takes the lock
/// nor asks the backend: a guest that greets as the recorded instance is proof
/// enough. It is skipped while an intent is on disk: another process is
/// stopping or removing the sandbox, or died doing so.
pub(crate) async fn attach(
    engine: &Arc<Inner>,
    key: &Key,
    overrides: &Overrides,
) -> Result<Attached, Error> {
    let dir = engine.dir(key);
    if !dir.has_intent()
        && let Some(attached) = attach_running(engine, key, &dir, overrides, GREETING_SOON).await?
    {
        sweep::sweep_once(engine, key, overrides, SweepStart::Quietly);
        return drift::settle_drift(engine, key, attached).await;
    }
    sweep::sweep_once(engine, key, overrides, SweepStart::AtOnce);
    let lock = lock::lock(engine, key.task(), &dir).await?;
    let attached = bring_up::attach_locked(engine, key, &dir, &lock, overrides).await?;
    drop(lock);
    drift::settle_drift(engine, key, attached).await
}

impl SandboxDir {
    /// Reads the record, which must be this key's.
    pub(crate) fn record_of(&self, key: &Key) -> Result<Option<SandboxRecord>, Error> {
        let Some(record) = self.read_record()? else {
            return Ok(None);
        };
        if record.key != key.hash() {
            return Err(Error::Foreign { path: self.path().into() });
        }
        Ok(Some(record))
    }
}

impl SandboxRecord {
    /// Returns the recorded instance, as a backend takes it.
    pub(crate) fn instance(&self, dir: &SandboxDir) -> Option<Instance> {
        Some(self.instance.as_ref()?.located(dir))
    }
}

impl InstanceRecord {
    /// Returns the instance, as a backend takes it.
    pub(crate) fn located(&self, dir: &SandboxDir) -> Instance {
        Instance {
            id: self.id.clone(),
            dir: dir.instance_dir(&self.id),
            locator: self.locator.clone(),
        }
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

impl GreetError {
    /// Returns whether a network lost the connection, which says nothing about the guest.
    /// Such a guest is never ended for not answering.
    pub(crate) fn leaves_guest_unknown(&self, backend: &dyn Backend, instance: &Instance) -> bool {
        backend.can_be_cut_off(instance) && self.is_cut()
    }

    /// Returns whether the connection failed rather than the guest.
    fn is_cut(&self) -> bool {
        match self {
            // The far end of the stream says that no guest listens there.
            Self::Connect(ConnectError::Io(error)) => error.kind() != ErrorKind::ConnectionRefused,
            Self::Backend(
                BackendError::Unreachable { .. }
                | BackendError::HostUnreachable { .. }
                | BackendError::Io { .. },
            )
            | Self::Connect(ConnectError::Vanished) => true,
            Self::Backend(_) | Self::Connect(_) => false,
        }
    }

    /// Returns the error for a caller who needs the guest.
    pub(crate) fn into_error(
        self,
        task: &str,
        backend: &dyn Backend,
        instance: &Instance,
    ) -> Error {
        if self.leaves_guest_unknown(backend, instance) {
            let (task, reason) = (task.to_owned(), self.to_string());
            return Error::OutOfReach { task, backend: backend.name(), reason };
        }
        match self {
            Self::Backend(BackendError::NotListening { .. })
            | Self::Connect(
                ConnectError::Timeout(_) | ConnectError::Vanished | ConnectError::Io(_),
            ) => Error::Unresponsive { task: task.to_owned(), reason: self.to_string() },
            Self::Backend(error) => Error::backend(backend.name())(error),
            Self::Connect(error) => Error::Connect(error),
        }
    }
}

/// Connects to an instance's guest.
pub(crate) async fn greet(
    backend: &dyn Backend,
    instance: &Instance,
    role: HostRole,
) -> Result<Connection, GreetError> {
    greet_within(backend, instance, role, GREETING_WITHIN).await
}

async fn greet_within(
    backend: &dyn Backend,
    instance: &Instance,
    role: HostRole,
    timeout: Duration,
) -> Result<Connection, GreetError> {
    let deadline = Instant::now() + timeout;
    let attempt = async || -> Result<Connection, GreetError> {
        let stream = backend.connect(instance).await?;
        let id = Some(instance.id.clone());
        Ok(Connection::open_within(stream, role, id, timeout).await?)
    };
    let mut pause = FIRST_PAUSE;
    loop {
        match attempt().await {
            Err(error)
                if error.leaves_guest_unknown(backend, instance)
                    && Instant::now() + pause < deadline =>
            {
                tracing::debug!(instance = instance.id, %error, "trying again");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
            other => return other,
        }
    }
}

/// Connects to the guest of an instance that should run. The error tells an
/// instance that has ended from one whose guest does not answer.
pub(crate) async fn greet_existing(
    task: &TaskName,
    backend: &dyn Backend,
    instance: &Instance,
    role: HostRole,
) -> Result<Connection, Error> {
    let error = match greet(backend, instance, role).await {
        Ok(connection) => return Ok(connection),
        Err(error) => error,
    };
    match backend.state(instance).await.map_err(Error::backend(backend.name()))? {
        InstanceState::Absent | InstanceState::Stopped { .. } => {
            Err(Error::Stopped { task: task.to_string() })
        }
        InstanceState::Running | InstanceState::Paused | InstanceState::Broken { .. } => {
            Err(error.into_error(task.as_str(), backend, instance))
        }
    }
}

/// Returns whether an instance's guest greets; an error if a network leaves that
/// open.
pub(super) async fn answers(
    task: &TaskName,
    backend: &dyn Backend,
    instance: &Instance,
) -> Result<bool, Error> {
    match greet(backend, instance, HostRole::Observer).await {
        Ok(_) => Ok(true),
        Err(error) if error.leaves_guest_unknown(backend, instance) => {
            Err(error.into_error(task.as_str(), backend, instance))
        }
        Err(_) => Ok(false),
    }
}

/// What came of greeting the recorded instance.
pub(super) enum GreetOutcome {
    Attached(Box<Attached>),
    /// No instance is on record.
    NoInstance,
    Failed(GreetError),
}

/// Attaches to the recorded instance if its guest greets; `None` when that
/// takes more than a connection.
pub(super) async fn attach_running(
    engine: &Inner,
    key: &Key,
    dir: &SandboxDir,
    overrides: &Overrides,
    timeout: Duration,
) -> Result<Option<Attached>, Error> {
    match greet_recorded(engine, key, dir, overrides, timeout).await? {
        GreetOutcome::Attached(attached) => Ok(Some(*attached)),
        GreetOutcome::NoInstance | GreetOutcome::Failed(_) => Ok(None),
    }
}

/// Greets the recorded instance as a user of the sandbox.
pub(super) async fn greet_recorded(
    engine: &Inner,
    key: &Key,
    dir: &SandboxDir,
    overrides: &Overrides,
    timeout: Duration,
) -> Result<GreetOutcome, Error> {
    let Some(record) = dir.record_of(key)? else {
        return Ok(GreetOutcome::NoInstance);
    };
    let overrides = overrides.clone().or(&record.overrides);
    engine.check_backend(key.task(), &overrides, &record.backend)?;
    let backend = Arc::clone(engine.backend(key.task(), &record.backend)?);
    let Some(instance) = record.instance(dir) else {
        return Ok(GreetOutcome::NoInstance);
    };
    let Some(instance_record) = record.instance else {
        return Ok(GreetOutcome::NoInstance);
    };
    match greet_within(&*backend, &instance, HostRole::User, timeout).await {
        Ok(connection) => Ok(GreetOutcome::Attached(Box::new(Attached {
            backend,
            connection,
            instance,
            generation: record.generation,
            record: instance_record,
            overrides,
            before: StateBefore::Running,
            notices: Vec::new(),
        }))),
        // The guest runs and has another version, or refuses. Only a guest
        // that is stuck may be ended.
        Err(GreetError::Connect(error @ (ConnectError::Version(_) | ConnectError::Refused(_)))) => {
            Err(Error::Connect(error))
        }
        Err(reason) => {
            tracing::debug!(instance = instance.id, %reason, "not running");
            Ok(GreetOutcome::Failed(reason))
        }
    }
}

/// Connects to the recorded instance, which must run. Nothing is started or
/// made, and no lock is taken.
pub(crate) async fn connect_recorded(
    engine: &Inner,
    key: &Key,
) -> Result<(Instance, Connection), Error> {
    let (task, dir) = (key.task(), engine.dir(key));
    let record = dir.record_of(key)?;
    let record = record.ok_or_else(|| Error::NoSandbox { task: task.to_string() })?;
    engine.check_permitted(task, &record.overrides, &record.backend)?;
    let backend = engine.backend(task, &record.backend)?;
    let instance = record.instance(&dir);
    let instance = instance.ok_or_else(|| Error::Stopped { task: task.to_string() })?;
    let connection = greet_existing(task, &**backend, &instance, HostRole::User).await?;
    Ok((instance, connection))
}
