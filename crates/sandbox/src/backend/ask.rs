//! What the engine asks of any backend, and what holds where a capability is
//! missing.

use std::collections::BTreeSet;
use std::path::Path;

use super::{
    Backend, BackendError, Confinement, DoctorNote, FoundInstance, Instance, JobEnvironment,
    KeptVolumes, Locator, Remedy,
};
use crate::spec::Tightening;
use crate::{Key, Overrides, ProgressSink};

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
