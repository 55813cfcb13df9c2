//! A sandbox that this process is connected to, and its release.

use std::path::PathBuf;
use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::time::{Duration, Instant};

use async_recursion::async_recursion as boxed;
use tokio::sync::{Mutex, watch};
use vestal_wire::HostRole;

use super::Sandbox;
use super::credentials::BroughtCredentials;
use crate::backend::{Backend, Instance};
use crate::client::Connection;
use crate::engine::{
    Attached, FilesOnRemoval, FoundAs, Inner, OwnedInstance, StopScope, greet, greet_existing,
};
use crate::engine::{attach, owned, sweep};
use crate::notice::Notice;
use crate::store::InstanceRecord;
use crate::{Engine, Error, Key, Overrides};

/// Whether an instance outlives this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ownership {
    /// It does; any number of processes share it.
    Shared,
    /// It does not; this process made it for itself.
    Owned,
}

/// A sandbox this process is connected to.
#[derive(Debug)]
pub(crate) struct Handle {
    pub(super) engine: Arc<Inner>,
    key: Key,
    pub(super) ownership: Ownership,
    backend: &'static str,
    notices: Vec<Notice>,
    held: Mutex<HeldInstance>,
    last_used: StdMutex<Instant>,
    /// What syncs have had to say.
    pub(super) sync_notes: StdMutex<Vec<String>>,
    /// Which credential files its guest has got; nothing before the first command.
    pub(super) credentials: Mutex<Option<BroughtCredentials>>,
    pub(super) cleanup: watch::Sender<CleanupProgress>,
}

/// The instance and the way to it.
#[derive(Debug)]
struct HeldInstance {
    /// `None` once it was released. Calls have a clone, so a release ends no call.
    connection: Option<Connection>,
    backend: Arc<dyn Backend>,
    instance: Instance,
    generation: u64,
    record: InstanceRecord,
    overrides: Overrides,
}

impl From<Attached> for HeldInstance {
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
            notices: std::mem::take(&mut attached.notices),
            held: Mutex::new(attached.into()),
            last_used: StdMutex::new(Instant::now()),
            sync_notes: StdMutex::default(),
            credentials: Mutex::default(),
            cleanup: watch::Sender::new(CleanupProgress::Nothing),
        })
    }

    pub(crate) fn key(&self) -> &Key {
        &self.key
    }

    pub(super) fn backend_name(&self) -> &'static str {
        self.backend
    }

    pub(super) fn notices(&self) -> &[Notice] {
        &self.notices
    }

    pub(crate) fn is_owned(&self) -> bool {
        self.ownership == Ownership::Owned
    }

    /// Returns whether the next caller may be given this handle: not once its
    /// cleanup has started.
    pub(crate) fn is_usable(&self) -> bool {
        *self.cleanup.borrow() == CleanupProgress::Nothing
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

    /// Returns the connection, made again if it was lost or released.
    pub(super) async fn connection(self: &Arc<Self>) -> Result<Connection, Error> {
        Ok(self.connect().await?.0)
    }

    /// Returns what the sandbox was before a further caller asked for it, who has it running then.
    pub(crate) async fn find_again(self: &Arc<Self>) -> Result<FoundAs, Error> {
        Ok(self.connect().await?.1)
    }

    /// Returns the connection, made again if it was lost or released, and what was found then.
    async fn connect(self: &Arc<Self>) -> Result<(Connection, FoundAs), Error> {
        self.mark_used();
        let mut held = self.held.lock().await;
        if let Some(connection) = held.connection.as_ref().filter(|open| !open.is_closed()) {
            return Ok((connection.clone(), FoundAs::RUNNING));
        }
        let attached = match self.ownership {
            Ownership::Shared => attach::attach(&self.engine, &self.key, &held.overrides).await?,
            Ownership::Owned => {
                // A guest outlives a connection that was cut, and waits a while
                // for its owner.
                match greet(&*held.backend, &held.instance, HostRole::Owner).await {
                    Ok(connection) => {
                        held.connection = Some(connection.clone());
                        self.hold_again();
                        return Ok((connection, FoundAs::RUNNING));
                    }
                    Err(error) if error.leaves_guest_unknown(&*held.backend, &held.instance) => {
                        let (task, backend) = (self.key.task().as_str(), &*held.backend);
                        return Err(error.into_error(task, backend, &held.instance));
                    }
                    Err(_) => {}
                }
                // The lost instance is removed first.
                if let Some(lost) = self.engine.owned.get(&held.instance.id) {
                    owned::remove_owned(&self.engine, &lost, StopScope::Anything).await?;
                }
                owned::own(&self.engine, &self.key, &held.overrides).await?
            }
        };
        let (connection, found) = (attached.connection.clone(), FoundAs::of(&attached));
        *held = attached.into();
        // While the lock is held: a release that waits for it means the old instance.
        self.hold_again();
        drop(held);
        Ok((connection, found))
    }

    /// Returns the connection, made again to the recorded instance if it was lost or
    /// released. Nothing is started or made, and no lock of the key is taken.
    pub(super) async fn running_connection(self: &Arc<Self>) -> Result<Connection, Error> {
        self.mark_used();
        let mut held = self.held.lock().await;
        if let Some(connection) = held.connection.as_ref().filter(|open| !open.is_closed()) {
            return Ok(connection.clone());
        }
        let (instance, connection) = match self.ownership {
            Ownership::Shared => attach::connect_recorded(&self.engine, &self.key).await?,
            Ownership::Owned => {
                let (task, instance) = (self.key.task(), held.instance.clone());
                let greeted =
                    greet_existing(task, &*held.backend, &instance, HostRole::Owner).await;
                (instance, greeted?)
            }
        };
        // Another process may have replaced the instance, or started it again.
        if instance == held.instance {
            held.connection = Some(connection.clone());
            self.hold_again();
        }
        Ok(connection)
    }

    /// Registers this handle again after a release, unless there is another one, so that
    /// the idle reaper sees it.
    fn hold_again(self: &Arc<Self>) {
        let mut handles = self.engine.handles();
        let known = handles.entry(self.key.clone()).or_insert_with(|| Arc::clone(self));
        if Arc::ptr_eq(known, self) {
            self.cleanup.send_if_modified(|progress| {
                let is_over = *progress == CleanupProgress::Over;
                if is_over {
                    *progress = CleanupProgress::Nothing;
                }
                is_over
            });
        }
    }

    /// Releases an instance that idles, unless there is another one by now. Returns whether
    /// it did.
    pub(super) async fn release_instance(&self, instance: &str) -> bool {
        let mut held = self.held.lock().await;
        if held.instance.id != instance {
            return false;
        }
        held.connection = None;
        sweep::forget_handle_of(&self.engine, self);
        self.cleanup.send_replace(CleanupProgress::Over);
        true
    }

    /// Lets go of the connection to an instance that has ended, which the connection may not have
    /// seen yet. Callers that connect meanwhile see it.
    pub(crate) fn instance_ended(&self, instance: &str) {
        if let Ok(mut held) = self.held.try_lock()
            && held.instance.id == instance
        {
            held.connection = None;
        }
    }

    /// Closes the connection; the next call makes another one.
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
        self.engine.start_dir(self.key(), &*held.backend, &held.instance.locator, asked)
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
    /// busy: a release can wait, a lost job cannot be undone.
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

/// How far a cleanup is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CleanupProgress {
    /// None was asked for.
    Nothing,
    /// It is under way.
    UnderWay,
    /// It has ended, with or without an error.
    Over,
}

/// What a cleanup does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cleanup {
    /// Releases the sandbox. One that outlives its processes is not touched; one that
    /// belongs to this process is removed.
    Release,
    /// Removes the instance in any case; workspace and home stay.
    ForceRemove,
}

impl Sandbox {
    /// Begins a cleanup and returns at once. A second one while the first is
    /// under way does nothing.
    pub fn cleanup(&self, cleanup: Cleanup) {
        self.handle.clone().begin_cleanup(cleanup);
    }

    /// Waits for a cleanup. Returns whether there is nothing left to wait for.
    #[boxed]
    pub async fn wait_for_cleanup(&self, timeout: Duration) -> bool {
        self.handle.wait_for_cleanup(timeout).await
    }
}

impl Handle {
    pub(crate) fn begin_cleanup(self: Arc<Self>, cleanup: Cleanup) {
        let begins = self.cleanup.send_if_modified(|progress| {
            let begins = *progress != CleanupProgress::UnderWay;
            *progress = CleanupProgress::UnderWay;
            begins
        });
        if !begins {
            return;
        }
        tokio::spawn(async move {
            if let Err(error) = self.clean(cleanup).await {
                tracing::warn!(task = %self.key().task(), %error, "cleanup failed; the reaper will finish it");
            }
            self.cleanup.send_replace(CleanupProgress::Over);
        });
    }

    pub(crate) async fn wait_for_cleanup(&self, timeout: Duration) -> bool {
        let mut progress = self.cleanup.subscribe();
        let over = progress.wait_for(|progress| *progress != CleanupProgress::UnderWay);
        matches!(tokio::time::timeout(timeout, over).await, Ok(Ok(_)))
    }

    /// Releases a sandbox that has idled, and returns whether it did. An owned instance is
    /// removed, but only if its guest has neither a job nor an open call. The guest decides,
    /// so there is no race.
    pub(crate) async fn release_idle(self: &Arc<Self>, lifetime: Duration) -> bool {
        if self.is_in_use(lifetime).await {
            return false;
        }
        let (_, instance) = self.place().await;
        if let Some(owned) = self.engine.owned.get(&instance.id)
            && let Err(error) = owned::remove_owned(&self.engine, &owned, StopScope::Nothing).await
        {
            if !matches!(error, Error::Busy { .. }) {
                tracing::warn!(task = %self.key().task(), %error, "cannot remove an idle sandbox");
            }
            return false;
        }
        self.release_instance(&instance.id).await
    }

    async fn clean(&self, cleanup: Cleanup) -> Result<(), Error> {
        sweep::forget_handle_of(&self.engine, self);
        if self.is_owned() {
            return match self.owned_instance().await {
                Some(owned) => owned::remove_owned(&self.engine, &owned, StopScope::Anything).await,
                None => Ok(()),
            };
        }
        self.disconnect().await;
        match cleanup {
            Cleanup::Release => Ok(()),
            Cleanup::ForceRemove => {
                let engine = Engine { inner: Arc::clone(&self.engine) };
                match engine.remove(self.key().task(), FilesOnRemoval::Keep).await {
                    Ok(_) | Err(Error::NoSandbox { .. }) => Ok(()),
                    Err(error) => Err(error),
                }
            }
        }
    }
}
