//! What makes instances: a small core that every backend has, and capabilities
//! that some have. The crate's README says why each method is where it is.

mod ask;
mod capabilities;
mod declaration;
mod error;
mod instance;

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use tokio::io::{AsyncRead, AsyncWrite};
use vestal_config::{ConfigError, Settings};

pub use self::capabilities::{
    Copies, CopyTotals, Diagnostics, DoctorNote, HostFiles, KeptVolumes, Marked, Preflight,
    Publishing, SavedSystem, VolumeStore,
};
pub(crate) use self::declaration::WORKSPACE;
pub use self::declaration::{
    Availability, Confinement, Declaration, HostDirectories, HostProcess, IdleSource,
    JobEnvironment, Remedy,
};
pub use self::error::BackendError;
pub use self::instance::{
    Base, Description, FoundInstance, Instance, InstanceFilter, InstanceRequest, InstanceState,
    Locator, StartedInstance,
};
pub use crate::owner::Owner;
use crate::{Overrides, Spec};

/// A byte stream to a guest.
pub trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for T {}

/// A backend: it makes, finds, starts, ends and removes instances and opens a
/// byte stream to the guest in them. Everything else is the guest's work.
///
/// Every call that changes something is made under the key's lock, after its
/// intent is on disk, and may be made again after a crash: `end` and `remove`
/// of something that is gone are fine.
#[async_trait]
pub trait Backend: Send + Sync + fmt::Debug {
    /// Returns what holds for all its instances.
    fn declaration(&self) -> &'static Declaration;

    /// Returns whether the backend works on this machine, and so may be chosen
    /// when none is named.
    async fn probe(&self) -> Availability;

    /// Returns the settings that shape this backend's instances, beyond those
    /// that shape every backend's.
    fn spec(&self, settings: &Settings, overrides: &Overrides) -> Result<Spec, ConfigError>;

    /// Makes a new instance and waits until its guest listens.
    async fn create(&self, request: InstanceRequest) -> Result<StartedInstance, BackendError>;

    /// Starts the guest of a stopped instance and waits until it listens.
    async fn start(&self, request: InstanceRequest) -> Result<StartedInstance, BackendError>;

    /// Returns what the instance is doing.
    async fn state(&self, instance: &Instance) -> Result<InstanceState, BackendError>;

    /// Opens a byte stream to the guest.
    async fn connect(&self, instance: &Instance) -> Result<Box<dyn ByteStream>, BackendError>;

    /// Makes sure that nothing of the instance runs, within `patience`.
    async fn end(&self, instance: &Instance, patience: Duration) -> Result<(), BackendError>;

    /// Removes an instance that has ended, or was never quite made.
    async fn remove(&self, instance: &Instance) -> Result<(), BackendError>;

    /// Returns the instances that carry the mark of these sandboxes, wherever
    /// they come from: none where instances carry no marks.
    async fn find(&self, whose: InstanceFilter<'_>) -> Result<Vec<FoundInstance>, BackendError>;

    /// Returns what a locator tells people.
    fn describe(&self, locator: &Locator) -> Description {
        let _ = locator;
        Description::default()
    }

    /// Returns the backend if it can look ahead.
    fn preflight(&self) -> Option<&dyn Preflight> {
        None
    }

    /// Returns the backend if an engine keeps its instances under names and marks.
    fn marked(&self) -> Option<&dyn Marked> {
        None
    }

    /// Returns the backend if it keeps files of sandboxes itself.
    fn volume_store(&self) -> Option<&dyn VolumeStore> {
        None
    }

    /// Returns the backend if files of sandboxes are in directories of this
    /// machine.
    fn host_files(&self) -> Option<&dyn HostFiles> {
        None
    }

    /// Returns the backend if it can copy an instance's own filesystem.
    fn copies(&self) -> Option<&dyn Copies> {
        None
    }

    /// Returns the backend if it can show files of the host to instances.
    fn publishing(&self) -> Option<&dyn Publishing> {
        None
    }

    /// Returns the backend if it can tell of its machine.
    fn diagnostics(&self) -> Option<&dyn Diagnostics> {
        None
    }
}
