//! Greet the guest of an instance: the proof that it runs and is the one meant.

#[cfg(test)]
#[path = "greet_tests.rs"]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use vestal_wire::Role;

use super::Inner;
use super::attach::{Attached, StateBefore};
use crate::backend::{Backend, BackendError, Confinement, Instance, InstanceState};
use crate::client::{ConnectError, Connection};
use crate::store::SandboxDir;
use crate::{Error, Key, Overrides, Task};

/// How long a guest may take to greet. It does so in microseconds; a guest
/// that takes this long is not going to.
pub(super) const GREETING_WITHIN: Duration = Duration::from_secs(10);

/// How long the first look waits for a greeting. A guest that takes longer is
/// looked for with its backend's help.
pub(super) const GREETING_SOON: Duration = Duration::from_secs(1);

/// The same for the second look, which is for what somebody else may just have
/// done.
pub(super) const GREETING_AT_ONCE: Duration = Duration::from_millis(500);

/// Pause before a connection that a network cut is tried again; each further
/// pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(20);

/// The longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Why a guest could not be greeted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GreetError {
    #[error(transparent)]
    Backend(#[from] BackendError),
    #[error(transparent)]
    Connect(#[from] ConnectError),
}

impl GreetError {
    /// Returns whether the guest may be alive and well: a network cut the
    /// connection, which says nothing about the guest. Such a guest is never
    /// ended because it did not answer.
    pub(crate) fn leaves_guest_unknown(&self, backend: &dyn Backend) -> bool {
        backend.confinement() == Confinement::Remote && self.is_cut()
    }

    /// Returns whether the connection failed rather than the guest.
    fn is_cut(&self) -> bool {
        matches!(
            self,
            Self::Backend(BackendError::Unreachable { .. } | BackendError::Io { .. })
                | Self::Connect(ConnectError::Vanished | ConnectError::Io(_))
        )
    }

    /// Returns the error for a caller who needs the guest.
    pub(crate) fn into_error(self, task: &str, backend: &dyn Backend) -> Error {
        if self.leaves_guest_unknown(backend) {
            let (task, reason) = (task.to_owned(), self.to_string());
            return Error::OutOfReach { task, backend: backend.name(), reason };
        }
        match self {
            Self::Backend(error) => Error::backend(backend.name())(error),
            Self::Connect(error) => Error::Connect(error),
        }
    }
}

/// Connects to an instance's guest.
pub(crate) async fn greet(
    backend: &dyn Backend,
    instance: &Instance,
    role: Role,
) -> Result<Connection, GreetError> {
    greet_within(backend, instance, role, GREETING_WITHIN).await
}

async fn greet_within(
    backend: &dyn Backend,
    instance: &Instance,
    role: Role,
    patience: Duration,
) -> Result<Connection, GreetError> {
    let deadline = Instant::now() + patience;
    let attempt = async || -> Result<Connection, GreetError> {
        let stream = backend.connect(instance).await?;
        let id = Some(instance.id.clone());
        Ok(Connection::open_within(stream, role, id, patience).await?)
    };
    let mut pause = FIRST_PAUSE;
    loop {
        match attempt().await {
            Err(error)
                if error.leaves_guest_unknown(backend) && Instant::now() + pause < deadline =>
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
    task: &Task,
    backend: &dyn Backend,
    instance: &Instance,
    role: Role,
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
            Err(error.into_error(task.as_str(), backend))
        }
    }
}

/// Returns whether an instance's guest greets; an error if a network leaves that
/// open.
pub(super) async fn answers(
    task: &Task,
    backend: &dyn Backend,
    instance: &Instance,
) -> Result<bool, Error> {
    match greet(backend, instance, Role::Observer).await {
        Ok(_) => Ok(true),
        Err(error) if error.leaves_guest_unknown(backend) => {
            Err(error.into_error(task.as_str(), backend))
        }
        Err(_) => Ok(false),
    }
}

/// What came of greeting the recorded instance.
pub(super) enum Greeting {
    Attached(Box<Attached>),
    /// No instance is on record.
    NoInstance,
    Failed(GreetError),
}

impl Inner {
    /// Attaches to the recorded instance if its guest greets; `None` when that
    /// takes more than a connection.
    pub(super) async fn attach_running(
        &self,
        key: &Key,
        dir: &SandboxDir,
        overrides: &Overrides,
        patience: Duration,
    ) -> Result<Option<Attached>, Error> {
        match self.greet_recorded(key, dir, overrides, patience).await? {
            Greeting::Attached(attached) => Ok(Some(*attached)),
            Greeting::NoInstance | Greeting::Failed(_) => Ok(None),
        }
    }

    /// Greets the recorded instance as a user of the sandbox.
    pub(super) async fn greet_recorded(
        &self,
        key: &Key,
        dir: &SandboxDir,
        overrides: &Overrides,
        patience: Duration,
    ) -> Result<Greeting, Error> {
        let Some(record) = dir.record_of(key)? else {
            return Ok(Greeting::NoInstance);
        };
        let overrides = overrides.clone().or(&record.overrides);
        self.check_backend(key.task(), &overrides, &record.backend)?;
        let backend = Arc::clone(self.backend(key.task(), &record.backend)?);
        let Some(instance) = record.instance(dir) else {
            return Ok(Greeting::NoInstance);
        };
        let Some(instance_record) = record.instance else {
            return Ok(Greeting::NoInstance);
        };
        match greet_within(&*backend, &instance, Role::User, patience).await {
            Ok(connection) => Ok(Greeting::Attached(Box::new(Attached {
                backend,
                connection,
                instance,
                generation: record.generation,
                record: instance_record,
                overrides,
                before: StateBefore::Running,
                notices: Vec::new(),
            }))),
            // It is alive and well and speaks another language: not to be
            // taken for one that is stuck, which would be ended.
            Err(GreetError::Connect(
                error @ (ConnectError::Version(_) | ConnectError::Refused(_)),
            )) => Err(Error::Connect(error)),
            Err(reason) => {
                tracing::debug!(instance = instance.id, %reason, "not running");
                Ok(Greeting::Failed(reason))
            }
        }
    }

    /// Connects to the recorded instance, which must run. Nothing is started or
    /// made, and no lock is taken.
    pub(crate) async fn connect_recorded(
        &self,
        key: &Key,
    ) -> Result<(Instance, Connection), Error> {
        let (task, dir) = (key.task(), self.dir(key));
        let record = dir.record_of(key)?;
        let record = record.ok_or_else(|| Error::NoSandbox { task: task.to_string() })?;
        let backend = self.backend(task, &record.backend)?;
        let instance = record.instance(&dir);
        let instance = instance.ok_or_else(|| Error::Stopped { task: task.to_string() })?;
        let connection = greet_existing(task, &**backend, &instance, Role::User).await?;
        Ok((instance, connection))
    }
}
