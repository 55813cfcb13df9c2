//! What makes instances: a small core that every backend has, and capabilities
//! that some have. The crate's README says why each method is where it is.

mod capabilities;
mod declaration;
mod error;
mod instance;

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use tokio::io::{AsyncRead, AsyncWrite};
use vestal_config::{ConfigError, Settings};

use crate::spec::Tightening;
use crate::{Key, Overrides, ProgressSink, Spec};

pub use self::capabilities::{
    CopiedPart, Copies, CopyTotals, Diagnostics, DoctorNote, HostFiles, KeptVolumes, Marked,
    Preflight, Publishing, SavedSystem, VolumeStore,
};
pub(crate) use self::declaration::WORKSPACE;
pub use self::declaration::{
    Availability, Confinement, Declaration, HostDirectories, HostProcess, IdleSource,
    JobEnvironment, Remedy,
};
pub use self::error::BackendError;
pub(crate) use self::instance::OWNER_VERSION;
pub use self::instance::{
    Base, Description, FoundInstance, Instance, InstanceFilter, InstanceRequest, InstanceState,
    Locator, Owner, StartedInstance,
};

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

    /// Makes sure that nothing of the instance runs, within `timeout`.
    async fn end(&self, instance: &Instance, timeout: Duration) -> Result<(), BackendError>;

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

    /// Returns the backend if it can report about its machine.
    fn diagnostics(&self) -> Option<&dyn Diagnostics> {
        None
    }
}

/// What the backend declares.
impl dyn Backend + '_ {
    /// Returns the backend's name, as in `terminal.backend`.
    pub fn name(&self) -> &'static str {
        self.declaration().name
    }

    /// Returns how far instances keep commands away from the host.
    pub fn confinement(&self) -> Confinement {
        self.declaration().confinement
    }

    /// Returns whether instances are made from images.
    pub fn takes_images(&self) -> bool {
        self.declaration().takes_images
    }

    /// Returns what it takes to apply changed settings to an instance.
    pub fn remedy(&self) -> Remedy {
        self.declaration().remedy
    }

    /// Returns whether the connection to an instance's guest can be cut while the
    /// guest is well.
    pub(crate) fn can_be_cut_off(&self, instance: &Instance) -> bool {
        (self.declaration().can_be_cut_off)(&instance.locator)
    }

    pub(crate) fn job_environment(&self) -> JobEnvironment {
        self.declaration().job_environment
    }

    pub(crate) fn tightening(&self, key: &str) -> Tightening {
        (self.declaration().tightening)(key)
    }
}

/// What it can do.
impl dyn Backend + '_ {
    /// Checks that an instance can be made. Where nobody can look ahead, making it
    /// tells.
    pub(crate) async fn vet(
        &self,
        overrides: &Overrides,
        progress: &ProgressSink,
    ) -> Result<(), BackendError> {
        match self.preflight() {
            Some(preflight) => preflight.vet(overrides, progress).await,
            None => Ok(()),
        }
    }

    /// Returns how a running instance is found now. Where nobody else can change
    /// an instance it is found as before.
    pub(crate) async fn locate(&self, instance: &Instance) -> Result<Locator, BackendError> {
        match self.marked() {
            Some(marked) => marked.locate(instance).await,
            None => Ok(instance.locator.clone()),
        }
    }

    /// Removes an instance that was found by its mark. Where no engine keeps
    /// instances, their directories tell what is to be removed.
    pub(crate) async fn collect(&self, found: &FoundInstance) -> Result<bool, BackendError> {
        match self.marked() {
            Some(marked) => marked.collect(found).await,
            None => Ok(false),
        }
    }

    /// Moves what has the name of a sandbox's instance out of the way. Where
    /// instances have no names, none is in the way.
    pub(crate) async fn set_aside(&self, key: &Key) -> Result<(), BackendError> {
        match self.marked() {
            Some(marked) => marked.set_aside(key).await,
            None => Ok(()),
        }
    }

    /// Returns the names of a sandbox's files that the backend itself keeps.
    pub(crate) async fn volumes(&self, key: &str) -> Result<Vec<String>, BackendError> {
        match self.volume_store() {
            Some(store) => store.volumes(key).await,
            None => Ok(Vec::new()),
        }
    }

    /// Removes what of a sandbox the backend itself keeps.
    pub(crate) async fn remove_volumes(
        &self,
        key: &str,
        kept: KeptVolumes,
    ) -> Result<(), BackendError> {
        match self.volume_store() {
            Some(store) => store.remove_volumes(key, kept).await,
            None => Ok(()),
        }
    }

    /// Empties a directory of the host whose files this user may not touch. A
    /// backend whose instances never write there can do no more than the user.
    pub(crate) async fn erase(&self, dir: &Path) -> Result<(), BackendError> {
        match self.host_files() {
            Some(files) => files.erase(dir).await,
            None => Err(BackendError::Io {
                action: format!("empty {}", dir.display()),
                source: std::io::ErrorKind::PermissionDenied.into(),
            }),
        }
    }

    /// Gives up what a copy has outside its directory.
    pub(crate) async fn discard(&self, dir: &Path) -> Result<(), BackendError> {
        match self.copies() {
            Some(copies) => copies.discard(dir).await,
            None => Ok(()),
        }
    }

    /// Returns what there is to say about the backend beyond the probe.
    pub(crate) async fn report(&self, known: &BTreeSet<String>) -> Vec<DoctorNote> {
        match self.diagnostics() {
            Some(diagnostics) => diagnostics.report(known).await,
            None => Vec::new(),
        }
    }

    pub(crate) fn memory_kills(&self, locator: &Locator) -> Option<u64> {
        self.diagnostics()?.memory_kills(locator)
    }
}
