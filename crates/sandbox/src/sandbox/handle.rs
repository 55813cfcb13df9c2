//! What this process holds of a sandbox.

use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Mutex, watch};

use super::cleanup::Progress;
use crate::backend::{Backend, Instance};
use crate::client::Connection;
use crate::engine::{Attached, Inner, Interrupt, Notice, OwnedInstance, StateBefore};
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
    attached: Mutex<Attached>,
    last_used: StdMutex<Instant>,
    pub(super) cleanup: watch::Sender<Progress>,
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
            attached: Mutex::new(attached),
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
        let attached = self.attached.lock().await;
        asked.clone().or(&attached.overrides) == attached.overrides
    }

    pub(super) async fn instance(&self) -> Instance {
        self.attached.lock().await.instance.clone()
    }

    pub(super) async fn generation(&self) -> u64 {
        self.attached.lock().await.generation
    }

    /// Returns the connection, made again if it was lost.
    pub(super) async fn connection(&self) -> Result<Connection, Error> {
        self.mark_used();
        let mut attached = self.attached.lock().await;
        if attached.connection.is_closed() {
            *attached = match self.ownership {
                Ownership::Shared => self.engine.attach(&self.key, &attached.overrides).await?,
                Ownership::Owned => {
                    // What is left of the one that was lost goes first.
                    let lost = owned(&attached);
                    self.engine.remove_owned(&self.key, &lost, Interrupt::Anything).await?;
                    self.engine.create_owned(&self.key, &attached.overrides).await?
                }
            };
        }
        Ok(attached.connection.clone())
    }

    /// Returns the connection if there is one, without using the sandbox.
    pub(crate) async fn existing_connection(&self) -> Option<Connection> {
        let attached = self.attached.lock().await;
        (!attached.connection.is_closed()).then(|| attached.connection.clone())
    }

    pub(crate) async fn owned_instance(&self) -> OwnedInstance {
        owned(&*self.attached.lock().await)
    }

    /// Returns what was asked for this sandbox alone.
    pub(super) async fn overrides(&self) -> Overrides {
        self.attached.lock().await.overrides.clone()
    }

    /// Returns what the instance was made by and with.
    pub(super) async fn made(&self) -> (Arc<dyn Backend>, InstanceRecord, Overrides) {
        let attached = self.attached.lock().await;
        (Arc::clone(&attached.backend), attached.record.clone(), attached.overrides.clone())
    }

    pub(super) async fn job_environment(&self) -> crate::backend::JobEnvironment {
        self.attached.lock().await.backend.job_environment()
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
    /// Returns whether a job runs in the sandbox. A guest that cannot tell in
    /// time is taken as busy: letting go can wait, a lost job cannot be undone.
    pub(crate) async fn has_running_jobs(&self) -> bool {
        match self.existing_connection().await {
            None => false,
            Some(connection) => match connection.status(Duration::from_secs(5)).await {
                Ok(status) => status.jobs_running > 0,
                Err(_) => !connection.is_closed(),
            },
        }
    }
}

fn owned(attached: &Attached) -> OwnedInstance {
    OwnedInstance { backend: Arc::clone(&attached.backend), instance: attached.instance.clone() }
}
