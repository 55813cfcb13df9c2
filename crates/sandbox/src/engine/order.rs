//! What a backend is told to make: the one builder, whoever asks.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use minicbor::bytes::ByteVec;
use vestal_config::keys;
use vestal_wire::{EnvVar, GuestSettings};

use super::Inner;
use crate::backend::{Backend, Instance, InstanceRequest, JobEnvironment, Owner};
use crate::store::{InstanceRecord, KeyLock, StoreError};
use crate::{Error, Key, Overrides};

/// What ends an instance by itself, and so where its guest keeps its state.
#[derive(Debug, Clone)]
pub(super) enum Lifespan {
    /// Idleness. Journal, logs and sessions are the sandbox's, and stay from
    /// instance to instance.
    Retained {
        /// How long it may idle; nothing: for ever.
        retention: Option<Duration>,
    },
    /// The end of the process that made it. All it has goes with it.
    Owned {
        /// That process.
        owner: Owner,
    },
}

/// Whose instance, and of what kind.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted<'a> {
    /// The sandbox.
    pub(super) key: &'a Key,
    /// What makes it.
    pub(super) backend: &'a dyn Backend,
    /// What was asked for it alone.
    pub(super) overrides: &'a Overrides,
}

/// How long an owned instance outlives its owner's connection. Long enough for
/// an owner that is busy, well within the minute that is promised.
const OWNER_GRACE: Duration = Duration::from_secs(10);

impl Inner {
    /// Returns what a backend needs to make or start an instance.
    pub(super) fn order(
        &self,
        wanted: Wanted<'_>,
        instance: &Instance,
        generation: u64,
        lifespan: Lifespan,
        lock: &KeyLock,
    ) -> Result<InstanceRequest, Error> {
        let Wanted { key, backend, overrides } = wanted;
        let hold = lock
            .share()
            .map_err(|error| StoreError::io("share the lock of", &instance.dir, error))?;
        let home = self.settings.environment().user_home().unwrap_or_else(|| PathBuf::from("/"));
        let sandbox_dir = self.dir(key).path().to_owned();
        let (state_dir, retention, owner) = match lifespan {
            Lifespan::Retained { retention } => (sandbox_dir.join("state"), retention, None),
            Lifespan::Owned { owner } => (instance.dir.join("state"), None, Some(owner)),
        };
        let guest = GuestSettings {
            instance: instance.id.clone(),
            key: key.hash(),
            generation,
            state_dir: bytes(&state_dir),
            socket_dir: bytes(&instance.dir.join("io")),
            retention_ms: retention.map(millis),
            owner_grace_ms: owner.as_ref().map(|_| millis(OWNER_GRACE)),
            env: match backend.job_environment() {
                JobEnvironment::Callers => self.base_environment()?,
                JobEnvironment::Guests => Vec::new(),
            },
            start_dir: bytes(&home),
            home: bytes(&home),
            log_bytes: self.settings.get(&keys::JOB_LOG_BYTES)?.value.get(),
            jobs_kept: self.settings.get(&keys::JOBS_KEPT)?.value.get(),
            // Whatever still carries this instance's mark when its guest starts
            // was left by the guest before.
            previous_instances: vec![instance.id.clone()],
            ephemeral: owner.is_some(),
            user: None,
            socket_mode: None,
            inherit_env: false,
            hand_over: Vec::new(),
        };
        Ok(InstanceRequest {
            key: key.clone(),
            generation,
            instance: instance.clone(),
            sandbox_dir,
            owner,
            overrides: overrides.clone(),
            guest,
            base: None,
            spec: self.spec(backend, overrides)?,
            progress: self.progress.clone(),
            hold,
        })
    }

    /// Returns the environment for jobs: this process's, without secrets, and
    /// the pairs of `terminal.env`.
    pub(crate) fn base_environment(&self) -> Result<Vec<EnvVar>, Error> {
        if let Some(known) = self.base_environment.get() {
            return Ok(known.clone());
        }
        let variables = self.settings.job_environment()?.variables;
        let variables = variables.into_iter().map(variable).collect();
        Ok(self.base_environment.get_or_init(|| variables).clone())
    }

    /// Returns what the settings add to the environment of jobs that start
    /// with the instance's own. It may hold secrets, so it goes with each job
    /// and is neither in the instance nor saved by a session.
    pub(crate) fn container_environment(&self) -> Result<Vec<EnvVar>, Error> {
        if let Some(known) = self.container_environment.get() {
            return Ok(known.clone());
        }
        let variables = self.settings.container_environment()?.variables;
        let variables = variables.into_iter().map(variable).collect();
        Ok(self.container_environment.get_or_init(|| variables).clone())
    }
}

fn variable((name, value): (OsString, OsString)) -> EnvVar {
    EnvVar { name: name.as_bytes().to_vec().into(), value: value.as_bytes().to_vec().into() }
}

impl InstanceRequest {
    /// Returns what is written down of the instance, but for its locator.
    pub(super) fn record(&self, created_at: Timestamp) -> InstanceRecord {
        InstanceRecord {
            id: self.instance.id.clone(),
            created_at,
            spec: self.spec.to_map(),
            retention_seconds: self.guest.retention_ms.map(|millis| millis / 1000),
            locator: self.instance.locator.clone(),
        }
    }
}

/// Returns a duration as the protocol counts it.
pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn bytes(path: &Path) -> ByteVec {
    path.as_os_str().as_bytes().to_vec().into()
}
