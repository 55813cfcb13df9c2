//! What makes instances.

use std::fmt;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use tokio::io::{AsyncRead, AsyncWrite};
use vestal_wire::GuestSettings;

use crate::Spec;
use crate::spec::Tightening;

/// A byte stream to a guest.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A backend: it makes, finds, starts, ends and removes instances and opens a
/// byte stream to the guest in them. Everything else is the guest's work.
///
/// Every call that changes something is made under the key's lock, after its
/// intent is on disk, and may be made again after a crash: `end` and `remove`
/// of something that is gone are fine.
#[async_trait]
pub trait Backend: Send + Sync + fmt::Debug {
    /// Returns the backend's name, as in `terminal.backend`.
    fn name(&self) -> &'static str;

    /// Returns whether the backend works on this machine.
    async fn probe(&self) -> Availability;

    /// Returns the rule for a setting that shapes this backend's instances.
    fn tightening(&self, key: &str) -> Tightening;

    /// Returns what it takes to apply changed settings to an instance.
    fn remedy(&self) -> Remedy;

    /// Returns whose environment jobs start with.
    fn job_environment(&self) -> JobEnvironment;

    /// Makes a new instance and waits until its guest listens.
    async fn create(&self, order: Order) -> Result<Locator, BackendError>;

    /// Starts the guest of a stopped instance and waits until it listens.
    async fn start(&self, order: Order) -> Result<Locator, BackendError>;

    /// Returns what the instance is doing.
    async fn state(&self, instance: &Instance) -> Result<InstanceState, BackendError>;

    /// Opens a byte stream to the guest.
    async fn connect(&self, instance: &Instance) -> Result<Box<dyn Stream>, BackendError>;

    /// Makes sure that nothing of the instance runs, within `patience`.
    async fn end(&self, instance: &Instance, patience: Duration) -> Result<(), BackendError>;

    /// Removes an instance that has ended, or was never quite made.
    async fn remove(&self, instance: &Instance) -> Result<(), BackendError>;
}

/// What a backend needs to find an instance again; only it can read this.
pub type Locator = serde_json::Value;

/// An instance, as the engine hands it to a backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    /// Its id.
    pub id: String,
    /// Its directory on the host: sockets and what the backend keeps.
    pub dir: PathBuf,
    /// What `create` or `start` returned; null when that is not known.
    pub locator: Locator,
}

/// An instance to make or start.
#[derive(Debug)]
pub struct Order {
    /// The instance; its locator is the one from before a start.
    pub instance: Instance,
    /// What the guest is told.
    pub guest: GuestSettings,
    /// The settings that shape it.
    pub spec: Spec,
    /// Keeps the key's lock: to be closed by the guest once it can be found.
    pub hold: OwnedFd,
}

/// What an instance is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InstanceState {
    /// Its first process runs; whether the guest answers is another matter.
    Running,
    /// It exists and does not run.
    Stopped {
        /// Since when, as far as anyone can tell.
        since: Option<Timestamp>,
    },
    /// It does not exist.
    Absent,
}

/// How changed settings reach an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// By stopping it: they are taken at the next start.
    Restart,
    /// By making a new one; files are kept.
    Recreate,
}

/// Whose environment jobs start with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobEnvironment {
    /// The caller's, stripped of secrets, each time anew.
    Callers,
    /// The instance's own.
    Guests,
}

/// Whether a backend works on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Availability {
    /// It works.
    Works {
        /// What is worth knowing about it.
        notes: Vec<String>,
    },
    /// It does not.
    Missing {
        /// What is missing.
        reason: String,
        /// What to do about it.
        advice: String,
    },
}

/// A failure of a backend.
#[derive(Debug, thiserror::Error)]
pub enum BackendError {
    /// Nobody listens there.
    #[error("no guest answers in instance {id}")]
    NotListening {
        /// The instance.
        id: String,
    },
    /// Something listens that is not the guest.
    #[error("what answers for instance {id} is not its guest: {reason}")]
    Impostor {
        /// The instance.
        id: String,
        /// How that was noticed.
        reason: String,
    },
    /// The guest did not come up.
    #[error("the guest did not start: {reason}")]
    GuestFailed {
        /// What it, or the system, said.
        reason: String,
    },
    /// Something of the instance still runs.
    #[error("instance {id} does not end: {reason}")]
    WontEnd {
        /// The instance.
        id: String,
        /// What is in the way.
        reason: String,
    },
    /// The system refused.
    #[error("cannot {action}: {source}")]
    Io {
        /// What was tried.
        action: String,
        /// Why it failed.
        source: std::io::Error,
    },
}

impl BackendError {
    pub(crate) fn io(action: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let action = action.into();
        move |source| Self::Io { action, source }
    }
}
