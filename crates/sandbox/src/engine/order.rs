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
use crate::backend::{Instance, Order};
use crate::store::{InstanceRecord, KeyLock, StoreError};
use crate::{Error, Key};

/// What ends an instance by itself, and so where its guest keeps its state.
#[derive(Debug, Clone, Copy)]
pub(super) enum Lifespan<'a> {
    /// Idleness. Journal, logs and sessions are the sandbox's, and stay from
    /// instance to instance.
    Retained {
        /// The sandbox's directory.
        sandbox: &'a Path,
        /// How long it may idle; nothing: for ever.
        retention: Option<Duration>,
    },
    /// The end of the process that made it. All it has goes with it.
    Owned,
}

/// How long an owned instance outlives its owner's connection. Long enough for
/// an owner that is busy, well within the minute that is promised.
const OWNER_GRACE: Duration = Duration::from_secs(10);

impl Inner {
    /// Returns what a backend needs to make or start an instance.
    pub(super) fn order(
        &self,
        key: &Key,
        instance: &Instance,
        generation: u64,
        lifespan: Lifespan<'_>,
        lock: &KeyLock,
    ) -> Result<Order, Error> {
        let hold = lock
            .share()
            .map_err(|error| StoreError::io("share the lock of", &instance.dir, error))?;
        let home = self.settings.environment().user_home().unwrap_or_else(|| PathBuf::from("/"));
        let (state_dir, retention, owner_grace, ephemeral) = match lifespan {
            Lifespan::Retained { sandbox, retention } => {
                (sandbox.join("state"), retention, None, false)
            }
            Lifespan::Owned => (instance.dir.join("state"), None, Some(OWNER_GRACE), true),
        };
        let guest = GuestSettings {
            instance: instance.id.clone(),
            key: key.hash(),
            generation,
            state_dir: bytes(&state_dir),
            socket_dir: bytes(&instance.dir.join("io")),
            retention_ms: retention.map(millis),
            owner_grace_ms: owner_grace.map(millis),
            env: self.base_environment()?,
            start_dir: bytes(&home),
            home: bytes(&home),
            log_bytes: self.settings.get(&keys::JOB_LOG_BYTES)?.value.get(),
            jobs_kept: self.settings.get(&keys::JOBS_KEPT)?.value.get(),
            // Whatever still carries this instance's mark when its guest starts
            // was left by the guest before.
            forebears: vec![instance.id.clone()],
            ephemeral,
            user: None,
            socket_mode: None,
            inherit_env: false,
            hand_over: Vec::new(),
        };
        Ok(Order { instance: instance.clone(), guest, spec: self.spec()?, hold })
    }

    /// Returns the environment for jobs: this process's, without secrets, and
    /// the pairs of `terminal.env`.
    pub(crate) fn base_environment(&self) -> Result<Vec<EnvVar>, Error> {
        if let Some(known) = self.base_environment.get() {
            return Ok(known.clone());
        }
        let variables = self.settings.job_environment()?.variables;
        let variable = |(name, value): (OsString, OsString)| EnvVar {
            name: name.as_bytes().to_vec().into(),
            value: value.as_bytes().to_vec().into(),
        };
        let variables = variables.into_iter().map(variable).collect();
        Ok(self.base_environment.get_or_init(|| variables).clone())
    }
}

impl Order {
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
