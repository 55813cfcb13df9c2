//! What some backends can do beyond the core.
//!
//! Each capability is a trait of its own, and a backend that has it hands itself
//! out by the accessor of that name. The engine asks whether it is there and never
//! for the name of a backend.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use async_trait::async_trait;

use super::{BackendError, FoundInstance, Instance, Locator};
use crate::{Bundle, Key, Overrides, Progress, ProgressSink, PublishedName};

/// Looking ahead: whether an instance could be made.
#[async_trait]
pub trait Preflight: Send + Sync {
    /// Checks, as far as that can be determined beforehand, that an instance can be
    /// made with the settings of now, fetching what it takes.
    async fn vet(&self, overrides: &Overrides, progress: &ProgressSink)
    -> Result<(), BackendError>;
}

/// Instances that an engine keeps under names and marks, where others see and
/// change them, too.
#[async_trait]
pub trait Marked: Send + Sync {
    /// Returns how a running instance is found now, in case somebody else has
    /// restarted it, and lets one that was paused continue.
    async fn locate(&self, instance: &Instance) -> Result<Locator, BackendError>;

    /// Removes an instance that was found by its mark and does not run, if that
    /// still holds: nobody holds a lock. Returns whether it did.
    async fn collect(&self, found: &FoundInstance) -> Result<bool, BackendError>;

    /// Moves what has the name of a sandbox's instance out of the way, whatever
    /// it is: used when looking at it has failed.
    async fn set_aside(&self, key: &Key) -> Result<(), BackendError>;
}

/// Files of sandboxes that the backend itself keeps, apart from instances.
#[async_trait]
pub trait VolumeStore: Send + Sync {
    /// Returns the names of a sandbox's files.
    async fn volumes(&self, key: &str) -> Result<Vec<String>, BackendError>;

    /// Removes what is kept of a sandbox.
    async fn remove_volumes(&self, key: &str, kept: KeptVolumes) -> Result<(), BackendError>;
}

/// Files of sandboxes that are in directories of this machine, where instances
/// write them as users that may not be this one.
#[async_trait]
pub trait HostFiles: Send + Sync {
    /// Empties a directory of the host that instances wrote to and whose files
    /// this user may not touch.
    async fn erase(&self, dir: &Path) -> Result<(), BackendError>;

    /// Copies a tree of a sandbox's files, with owners, times, links, holes and
    /// attributes, to where nothing is yet; from inside an instance what this
    /// user may not read. Nobody changes it meanwhile.
    async fn copy(
        &self,
        from: &Path,
        to: &Path,
        progress: &ProgressSink,
    ) -> Result<CopyTotals, BackendError>;
}

/// Copies of an instance's own filesystem, or of files that the backend itself keeps,
/// of which other instances are made (see [`Base`](super::Base)).
#[async_trait]
pub trait Copies: Send + Sync {
    /// Returns what copies hold beside the files in directories of this machine.
    fn copied_part(&self) -> CopiedPart {
        CopiedPart::System
    }

    /// Copies the own filesystem of an instance that does not run into `into`,
    /// an empty directory, and returns what it takes to make instances of it.
    /// What was made of it when it fails, or is given up on, is removed by the
    /// caller, with [`Copies::discard`] where the copy is not all in `into`.
    async fn save(
        &self,
        instance: &Instance,
        into: &Path,
        progress: &ProgressSink,
    ) -> Result<SavedSystem, BackendError>;

    /// Gives up what [`Copies::save`] has made outside its directory, for this
    /// name of a copy; gone is fine, and so is a copy that was never finished.
    async fn discard(&self, dir: &Path) -> Result<(), BackendError>;
}

/// Showing files of the host to an instance that is there.
#[async_trait]
pub trait Publishing: Send + Sync {
    /// Shows files to an instance, in a place that it can read and, where
    /// anything confines it, not change. What was shown under the name before is
    /// replaced in one step; the same files again change nothing. Returns where
    /// the instance finds them.
    ///
    /// It is no part of what the instance was made with, and made without the
    /// key's lock.
    async fn publish(
        &self,
        instance: &Instance,
        name: &PublishedName,
        bundle: &Bundle,
    ) -> Result<PathBuf, BackendError>;
}

/// What a backend can report about its machine and what happens to instances there.
#[async_trait]
pub trait Diagnostics: Send + Sync {
    /// Returns what there is to say about the backend beyond the probe, given
    /// the instances that the home knows of.
    async fn report(&self, known: &BTreeSet<String>) -> Vec<DoctorNote>;

    /// Returns how many processes of a running instance the kernel has killed
    /// at its limit of memory, where that can be seen.
    fn memory_kills(&self, locator: &Locator) -> Option<u64>;
}

/// What the copies of a backend hold beside the files in directories of this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopiedPart {
    /// The instance's own filesystem.
    System,
    /// Workspace and home, which the backend itself keeps, and nothing of the instance: it
    /// need not even be there.
    Files,
}

/// What a backend needs to make instances of a copy; only it can read this.
pub type SavedSystem = serde_json::Value;

/// What a copy consists of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CopyTotals {
    /// Files, directories and everything else that has a name.
    pub files: u64,
    /// Bytes in them.
    pub bytes: u64,
}

impl CopyTotals {
    /// Returns the last step of a copy of `what` that is whole.
    pub(crate) fn as_progress(self, what: &str) -> Progress {
        let Self { files, bytes } = self;
        Progress::Copying { what: what.to_owned(), files, bytes, total: Some(bytes) }
    }
}

/// A line of `vestal doctor`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DoctorNote {
    /// What it is about.
    pub topic: String,
    /// What there is to say.
    pub text: String,
    /// What to do, if anything is wrong.
    pub advice: Option<String>,
}

/// What stays of a sandbox that is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeptVolumes {
    /// Workspace and home; the guest's own state goes.
    Files,
    /// Nothing.
    None,
}
