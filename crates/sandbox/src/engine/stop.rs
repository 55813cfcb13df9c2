//! Stop a sandbox: its processes end, its files stay.

use std::sync::Arc;
use std::time::Duration;

use vestal_wire::{FaultCode, Reply, Request, Role};

use super::attach::greet;
use super::locking::Patience;
use super::order::millis;
use super::{Engine, Inner};
use crate::backend::{Backend, Instance, InstanceState};
use crate::client::CallError;
use crate::failpoint;
use crate::store::{Intent, SandboxDir};
use crate::{Error, Task};

/// How long a killed instance may take to be gone.
pub(super) const END_PATIENCE: Duration = Duration::from_secs(10);

/// What a stop is allowed to interrupt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interrupt {
    /// Whatever runs.
    Anything,
    /// Nothing: a busy sandbox is left alone.
    Nothing,
}

impl Engine {
    /// Stops a sandbox. Running jobs get SIGTERM and, after the configured
    /// grace, SIGKILL. Returns whether it ran.
    pub async fn stop(&self, task: &Task) -> Result<bool, Error> {
        let key = self.inner.key(task);
        let dir = self.inner.dir(&key);
        if !dir.exists() {
            return Err(Error::NoSandbox { task: task.to_string() });
        }
        let lock = self.inner.acquire(task, &dir, Patience::Ending).await?;
        self.inner.recover(task, &dir).await?;
        let record =
            dir.record_of(&key)?.ok_or_else(|| Error::NoSandbox { task: task.to_string() })?;
        let backend = Arc::clone(self.inner.backend(task, &record.backend)?);
        let Some(instance) = record.instance(&dir) else {
            return Ok(false);
        };
        let state = backend.state(&instance).await.map_err(Error::backend(backend.name()))?;
        let instance = match state {
            InstanceState::Running => instance,
            // It has to go on to be able to end in order.
            InstanceState::Paused => {
                let locator = backend.locate(&instance).await;
                let locator = locator.map_err(Error::backend(backend.name()))?;
                Instance { locator, ..instance }
            }
            _ => return Ok(false),
        };
        self.inner.stop_locked(task, &dir, &*backend, &instance, Interrupt::Anything).await?;
        drop(lock);
        Ok(true)
    }
}

impl Inner {
    /// Stops an instance, under the lock.
    pub(super) async fn stop_locked(
        &self,
        task: &Task,
        dir: &SandboxDir,
        backend: &dyn Backend,
        instance: &Instance,
        interrupt: Interrupt,
    ) -> Result<(), Error> {
        let if_idle = interrupt == Interrupt::Nothing;
        dir.write_intent_if_room(Intent::Stop { instance: instance.id.clone(), if_idle })?;
        failpoint::reach("stop.intent-written");
        if let Err(error) = self.ask_to_end(task, backend, instance, interrupt).await {
            dir.clear_intent()?;
            return Err(error);
        }
        failpoint::reach("stop.guest-asked");
        backend.end(instance, END_PATIENCE).await.map_err(Error::backend(backend.name()))?;
        failpoint::reach("stop.ended");
        dir.clear_intent()?;
        failpoint::reach("stop.intent-cleared");
        Ok(())
    }

    /// Asks a guest to end in order and waits until it has. A guest that does
    /// not answer is no error: the backend ends it next.
    pub(super) async fn ask_to_end(
        &self,
        task: &Task,
        backend: &dyn Backend,
        instance: &Instance,
        interrupt: Interrupt,
    ) -> Result<(), Error> {
        let grace = self.stop_grace()?;
        let Ok(connection) = greet(backend, instance, Role::Observer).await else {
            return Ok(());
        };
        let request =
            Request::Shutdown { grace_ms: millis(grace), if_idle: interrupt == Interrupt::Nothing };
        // Beyond the grace the guest only kills and reaps.
        let within = grace + END_PATIENCE;
        match tokio::time::timeout(within, connection.call(request)).await {
            Ok(Ok(Reply::Done)) => {
                // The guest closes the connection with its last breath.
                if tokio::time::timeout(END_PATIENCE, connection.closed()).await.is_err() {
                    tracing::warn!(
                        instance = instance.id,
                        "the guest said it would end and has not"
                    );
                }
                Ok(())
            }
            Ok(Err(CallError::Fault(fault))) if fault.code == FaultCode::Busy => {
                Err(Error::Busy { task: task.to_string(), reason: fault.message })
            }
            Ok(Ok(_) | Err(_)) | Err(_) => Ok(()),
        }
    }
}
