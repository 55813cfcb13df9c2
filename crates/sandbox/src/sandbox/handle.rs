//! What this process holds of a sandbox.

use std::path::PathBuf;
use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Mutex, watch};
use vestal_wire::Role;

use super::cleanup::Progress;
use crate::backend::{Backend, Instance};
use crate::client::Connection;
use crate::engine::{Attached, Inner, Interrupt, OwnedInstance, StateBefore, greet};
use crate::notice::Notice;
use crate::store::InstanceRecord;
use crate::{Error, Key, Overrides};

/// Whether an instance outlives this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ownership {
    /// It does: any number of processes share it.
    Shared,
    /// It does not: this process made it for itself.
    Owned,
}

/// A sandbox this process is connected to.
#[derive(Debug)]
pub(crate) struct Handle {
    pub(super) engine: Arc<Inner>,
    key: Key,
    pub(super) ownership: Ownership,
    backend: &'static str,
    before: StateBefore,
    notices: Vec<Notice>,
    held: Mutex<Held>,
    last_used: StdMutex<Instant>,
    pub(super) cleanup: watch::Sender<Progress>,
}

/// The instance and the way to it.
#[derive(Debug)]
struct Held {
    /// None once it was let go of. Whoever makes a call has a clone, so letting
    /// go ends no call.
    connection: Option<Connection>,
    backend: Arc<dyn Backend>,
    instance: Instance,
    generation: u64,
    record: InstanceRecord,
    overrides: Overrides,
}

impl From<Attached> for Held {
    fn from(attached: Attached) -> Self {
        let Attached { backend, connection, instance, generation, record, overrides, .. } =
            attached;
        let connection = Some(connection);
        Self { connection, backend, instance, generation, record, overrides }
    }
}

impl Handle {
    pub(crate) fn new(
        engine: Arc<Inner>,
        key: Key,
        mut attached: Attached,
        ownership: Ownership,
    ) -> Arc<Self> {
        Arc::new(Self {
            engine,
            key,
            ownership,
            backend: attached.backend.name(),
            before: attached.before,
            notices: std::mem::take(&mut attached.notices),
            held: Mutex::new(attached.into()),
            last_used: StdMutex::new(Instant::now()),
            cleanup: watch::Sender::new(Progress::Nothing),
        })
    }

    pub(crate) fn key(&self) -> &Key {
        &self.key
    }

    pub(super) fn backend_name(&self) -> &'static str {
        self.backend
    }

    pub(super) fn before(&self) -> StateBefore {
        self.before
    }

    pub(super) fn notices(&self) -> &[Notice] {
        &self.notices
    }

    pub(crate) fn is_owned(&self) -> bool {
        self.ownership == Ownership::Owned
    }

    /// Returns whether the next caller may be given this handle: not once its
    /// cleanup has begun.
    pub(crate) fn is_usable(&self) -> bool {
        *self.cleanup.borrow() == Progress::Nothing
    }

    /// Returns whether the sandbox is as a caller asks for.
    pub(crate) async fn suits(&self, asked: &Overrides) -> bool {
        let held = self.held.lock().await;
        asked.clone().or(&held.overrides) == held.overrides
    }

    pub(super) async fn instance(&self) -> Instance {
        self.held.lock().await.instance.clone()
    }

    /// Returns the backend and the instance on it.
    pub(crate) async fn place(&self) -> (Arc<dyn Backend>, Instance) {
        let held = self.held.lock().await;
        (Arc::clone(&held.backend), held.instance.clone())
    }

    pub(super) async fn generation(&self) -> u64 {
        self.held.lock().await.generation
    }

    /// Returns the connection, made again if it was lost or let go of.
    pub(super) async fn connection(self: &Arc<Self>) -> Result<Connection, Error> {
        self.mark_used();
        let mut held = self.held.lock().await;
        if let Some(connection) = held.connection.as_ref().filter(|open| !open.is_closed()) {
            return Ok(connection.clone());
        }
        let attached = match self.ownership {
            Ownership::Shared => self.engine.attach(&self.key, &held.overrides).await?,
            Ownership::Owned => {
                // A guest outlives a connection that was cut, and waits a while
                // for its owner.
                if let Ok(connection) = greet(&*held.backend, &held.instance, Role::Owner).await {
                    held.connection = Some(connection.clone());
                    self.hold_again();
                    return Ok(connection);
                }
                // What is left of the one that was lost goes first.
                if let Some(lost) = self.engine.owned.get(&held.instance.id) {
                    self.engine.remove_owned(&lost, Interrupt::Anything).await?;
                }
                self.engine.own(&self.key, &held.overrides).await?
            }
        };
        let connection = attached.connection.clone();
        *held = attached.into();
        // Before the lock is free: whoever lets go meanwhile means the one before.
        self.hold_again();
        drop(held);
        Ok(connection)
    }

    /// Makes this handle the one that the process has of the sandbox, if it was
    /// let go of and none has taken its place: what is used again idles again.
    fn hold_again(self: &Arc<Self>) {
        let mut handles = self.engine.handles();
        let known = handles.entry(self.key.clone()).or_insert_with(|| Arc::clone(self));
        if Arc::ptr_eq(known, self) {
            self.cleanup.send_if_modified(|progress| {
                let is_over = *progress == Progress::Over;
                if is_over {
                    *progress = Progress::Nothing;
                }
                is_over
            });
        }
    }

    /// Lets go of an instance that idles, unless there is another one by now.
    /// Returns whether it did.
    pub(super) async fn let_go_of(&self, instance: &str) -> bool {
        let mut held = self.held.lock().await;
        if held.instance.id != instance {
            return false;
        }
        held.connection = None;
        self.engine.forget_handle_of(self);
        self.cleanup.send_replace(Progress::Over);
        true
    }

    /// Lets go of the connection; the next call makes another one.
    pub(super) async fn disconnect(&self) {
        self.held.lock().await.connection = None;
    }

    /// Returns the connection if there is one, without using the sandbox.
    async fn existing_connection(&self) -> Option<Connection> {
        let held = self.held.lock().await;
        held.connection.as_ref().filter(|connection| !connection.is_closed()).cloned()
    }

    /// Returns the instance if it belongs to this process and is there.
    pub(crate) async fn owned_instance(&self) -> Option<Arc<OwnedInstance>> {
        let held = self.held.lock().await;
        self.engine.owned.get(&held.instance.id)
    }

    /// Returns the directory that sessions without one start in.
    pub(super) async fn start_dir(&self) -> Result<PathBuf, Error> {
        let held = self.held.lock().await;
        let asked = held.overrides.cwd.as_deref();
        self.engine.start_dir(&*held.backend, &held.instance.locator, asked)
    }

    /// Returns what the instance was made by and with.
    pub(super) async fn made(&self) -> (Arc<dyn Backend>, InstanceRecord, Overrides) {
        let held = self.held.lock().await;
        (Arc::clone(&held.backend), held.record.clone(), held.overrides.clone())
    }

    pub(super) async fn job_environment(&self) -> crate::backend::JobEnvironment {
        self.held.lock().await.backend.job_environment()
    }

    pub(super) fn mark_used(&self) {
        *self.last_used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Returns how long this process has not used the sandbox.
    pub(crate) fn idle(&self) -> Duration {
        self.last_used.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }
}

impl Handle {
    /// Returns whether the sandbox is or was in use within `lifetime`, by
    /// anybody: its guest knows. A guest that cannot tell in time is taken as
    /// busy: letting go can wait, a lost job cannot be undone.
    pub(super) async fn is_in_use(&self, lifetime: Duration) -> bool {
        match self.existing_connection().await {
            None => false,
            Some(connection) => match connection.status(Duration::from_secs(5)).await {
                Ok(status) => {
                    status.jobs_running > 0 || Duration::from_millis(status.idle_ms) < lifetime
                }
                Err(_) => !connection.is_closed(),
            },
        }
    }
}
