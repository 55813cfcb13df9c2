//! What makes instances.

mod error;

use std::collections::BTreeSet;
use std::fmt;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use tokio::io::{AsyncRead, AsyncWrite};
use vestal_config::{ConfigError, Settings};
use vestal_wire::GuestSettings;

pub use self::error::BackendError;
pub use crate::owner::Owner;
use crate::spec::Tightening;
use crate::{Bundle, HomeId, Key, Overrides, Progress, ProgressSink, PublishedName, Spec};

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

    /// Returns whether the backend works on this machine, and so may be chosen
    /// when none is named.
    async fn probe(&self) -> Availability;

    /// Returns how far instances keep commands away from the host.
    fn confinement(&self) -> Confinement;

    /// Returns whether looking at instances asks an engine, which may have to be
    /// started for it.
    fn asks_engine(&self) -> bool {
        false
    }

    /// Returns whether instances are made from images.
    fn takes_images(&self) -> bool {
        false
    }

    /// Returns the settings that shape this backend's instances, beyond those
    /// that shape every backend's.
    fn spec(&self, settings: &Settings, overrides: &Overrides) -> Result<Spec, ConfigError>;

    /// Returns the rule for a setting that shapes this backend's instances.
    fn tightening(&self, key: &str) -> Tightening;

    /// Returns what it takes to apply changed settings to an instance.
    fn remedy(&self) -> Remedy;

    /// Returns whose environment jobs start with.
    fn job_environment(&self) -> JobEnvironment;

    /// Checks, as far as that can be told beforehand, that an instance can be
    /// made with the settings of now, fetching what it takes.
    async fn vet(
        &self,
        overrides: &Overrides,
        progress: &ProgressSink,
    ) -> Result<(), BackendError> {
        let _ = (overrides, progress);
        Ok(())
    }

    /// Makes a new instance and waits until its guest listens.
    async fn create(&self, order: Order) -> Result<Made, BackendError>;

    /// Starts the guest of a stopped instance and waits until it listens.
    async fn start(&self, order: Order) -> Result<Made, BackendError>;

    /// Returns what the instance is doing.
    async fn state(&self, instance: &Instance) -> Result<InstanceState, BackendError>;

    /// Returns how a running instance is found now, in case somebody else has
    /// restarted it, and lets one that was paused go on.
    async fn locate(&self, instance: &Instance) -> Result<Locator, BackendError> {
        Ok(instance.locator.clone())
    }

    /// Opens a byte stream to the guest.
    async fn connect(&self, instance: &Instance) -> Result<Box<dyn Stream>, BackendError>;

    /// Makes sure that nothing of the instance runs, within `patience`.
    async fn end(&self, instance: &Instance, patience: Duration) -> Result<(), BackendError>;

    /// Removes an instance that has ended, or was never quite made.
    async fn remove(&self, instance: &Instance) -> Result<(), BackendError>;

    /// Returns the instances that carry the mark of these sandboxes, wherever
    /// they come from. Only backends whose instances carry marks know any.
    async fn find(&self, whose: Whose<'_>) -> Result<Vec<Found>, BackendError> {
        let _ = whose;
        Ok(Vec::new())
    }

    /// Removes an instance that was found by its mark and does not run, if that
    /// still holds: nobody holds a lock. Returns whether it did.
    async fn collect(&self, found: &Found) -> Result<bool, BackendError> {
        let _ = found;
        Ok(false)
    }

    /// Moves what has the name of a sandbox's instance out of the way, whatever
    /// it is: used when looking at it has failed.
    async fn set_aside(&self, key: &Key) -> Result<(), BackendError> {
        let _ = key;
        Ok(())
    }

    /// Returns the names of a sandbox's files that the backend itself keeps.
    async fn volumes(&self, key: &str) -> Result<Vec<String>, BackendError> {
        let _ = key;
        Ok(Vec::new())
    }

    /// Removes what of a sandbox the backend itself keeps.
    async fn remove_volumes(&self, key: &str, kept: KeptVolumes) -> Result<(), BackendError> {
        let _ = (key, kept);
        Ok(())
    }

    /// Empties a directory of the host that instances wrote to and whose files
    /// this user may not touch.
    async fn erase(&self, dir: &Path) -> Result<(), BackendError> {
        Err(BackendError::Io {
            action: format!("empty {}", dir.display()),
            source: std::io::ErrorKind::PermissionDenied.into(),
        })
    }

    /// Copies the own filesystem of an instance that does not run into `into`,
    /// an empty directory, and returns what it takes to make instances of it.
    /// What was made of it when it fails, or is given up on, is removed by the
    /// caller, with [`Backend::discard`] where the copy is not all in `into`.
    async fn save(
        &self,
        instance: &Instance,
        into: &Path,
        progress: &ProgressSink,
    ) -> Result<Saved, BackendError> {
        let _ = (instance, into, progress);
        Err(BackendError::Advised {
            problem: format!("sandboxes on the backend {} have no files of their own", self.name()),
            advice: "use the backend native or docker".to_owned(),
        })
    }

    /// Gives up what [`Backend::save`] has made outside its directory, for this
    /// name of a copy; gone is fine, and so is a copy that was never finished.
    async fn discard(&self, dir: &Path) -> Result<(), BackendError> {
        let _ = dir;
        Ok(())
    }

    /// Copies a tree of a sandbox's files, with owners, times, links, holes and
    /// attributes, to where nothing is yet; from inside an instance what this
    /// user may not read. Nobody changes it meanwhile.
    async fn copy(
        &self,
        from: &Path,
        to: &Path,
        progress: &ProgressSink,
    ) -> Result<Copied, BackendError> {
        let _ = (from, to, progress);
        Err(BackendError::Advised {
            problem: format!("sandboxes on the backend {} have no files of their own", self.name()),
            advice: "use the backend native or docker".to_owned(),
        })
    }

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

    /// Returns how many processes of a running instance the kernel has killed
    /// at its limit of memory, where that can be seen.
    fn memory_kills(&self, locator: &Locator) -> Option<u64> {
        let _ = locator;
        None
    }

    /// Returns what a locator tells people.
    fn describe(&self, locator: &Locator) -> Description {
        let _ = locator;
        Description::default()
    }

    /// Returns what there is to say about the backend beyond the probe, given
    /// the instances that the home knows of.
    async fn report(&self, known: &BTreeSet<String>) -> Vec<Remark> {
        let _ = known;
        Vec::new()
    }
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
    /// The sandbox it is for.
    pub key: Key,
    /// Number of the instance among the sandbox's.
    pub generation: u64,
    /// The instance; its locator is the one from before a start.
    pub instance: Instance,
    /// The sandbox's directory on the host, where its files are.
    pub sandbox_dir: PathBuf,
    /// The process it ends with; absent: it outlives processes.
    pub owner: Option<Owner>,
    /// What was asked for this sandbox alone.
    pub overrides: Overrides,
    /// What the guest is told. Paths are the host's: a backend whose guests
    /// see others puts those in their place.
    pub guest: GuestSettings,
    /// What its own filesystem begins with; absent: with nothing of its own.
    pub base: Option<Base>,
    /// The settings that shape it.
    pub spec: Spec,
    /// Whom to tell what takes long.
    pub progress: ProgressSink,
    /// Keeps the key's lock: to be closed by the guest once it can be found.
    pub hold: OwnedFd,
}

/// What a new instance's own filesystem begins with: a copy of another's, made
/// by the same backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Base {
    /// An instance that does not run, and is not started meanwhile.
    Instance(Instance),
    /// What [`Backend::save`] has kept.
    Saved {
        /// The directory it was given.
        dir: PathBuf,
        /// What it returned.
        saved: Saved,
    },
}

/// What a backend needs to make instances of a copy; only it can read this.
pub type Saved = serde_json::Value;

/// What a copy consists of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Copied {
    /// Files, directories and everything else that has a name.
    pub files: u64,
    /// Bytes in them.
    pub bytes: u64,
}

impl Copied {
    /// Returns the last step of a copy of `what` that is whole.
    pub(crate) fn told(self, what: &str) -> Progress {
        let Self { files, bytes } = self;
        Progress::Copying { what: what.to_owned(), files, bytes, total: Some(bytes) }
    }
}

/// An instance that was made or started.
#[derive(Debug)]
pub struct Made {
    /// How it is found again.
    pub locator: Locator,
    /// What its users should hear about.
    pub remarks: Vec<String>,
}

/// What an instance is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InstanceState {
    /// Its first process runs; whether the guest answers is another matter.
    Running,
    /// Its processes are there and held; [`Backend::locate`] lets them go on.
    Paused,
    /// It exists and does not run.
    Stopped {
        /// Since when, as far as anyone can tell.
        since: Option<Timestamp>,
    },
    /// It exists and cannot be started: it was never quite made, or never quite
    /// removed.
    Broken {
        /// Since when, as far as anyone can tell.
        since: Option<Timestamp>,
    },
    /// It does not exist.
    Absent,
}

/// Which instances to look for.
#[derive(Debug, Clone, Copy)]
pub enum Whose<'a> {
    /// Those of one sandbox, by the hash of its key.
    Key(&'a str),
    /// Those of all sandboxes of a profile home.
    Home(&'a HomeId),
}

/// An instance that was found by its marks.
#[derive(Debug, Clone)]
pub struct Found {
    /// Its id.
    pub id: String,
    /// Hash of the key it was made for.
    pub key: String,
    /// The task, as far as a mark can carry it.
    pub task: String,
    /// Its generation.
    pub generation: u64,
    /// Whether it was made to outlive processes.
    pub persistent: bool,
    /// The process it was to end with.
    pub owner: Option<Owner>,
    /// Hash of the settings it was made with.
    pub spec: String,
    /// What it is doing.
    pub state: InstanceState,
    /// When it was made.
    pub created_at: Option<Timestamp>,
    /// How it is found.
    pub locator: Locator,
}

/// What a locator tells people.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Description {
    /// The image's name.
    pub image: Option<String>,
    /// The image's id when the instance was made.
    pub image_id: Option<String>,
    /// What the backend's own tools know the instance by.
    pub name: Option<String>,
    /// How its guest is reached.
    pub transport: Option<String>,
    /// Limits that were left out because they cannot be enforced here.
    pub unenforced: Vec<String>,
    /// What weakens its isolation, at the user's own wish.
    pub weakened: Vec<String>,
    /// Whether its own filesystem began as a copy of another's, which is given
    /// up when it is made anew.
    pub is_copy: bool,
    /// How far it is a system of its own, where that depends on the machine.
    pub tier: Option<String>,
    /// What is missing for a better tier, and how to have it.
    pub missing: Vec<String>,
}

/// A line of `vestal doctor`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remark {
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

/// How far instances keep commands away from the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confinement {
    /// Not at all.
    None,
    /// In a system of their own.
    Contained,
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
    /// A setting that it needs has a wrong value, so nobody can tell. Another
    /// backend is no answer to that: the setting has to be mended.
    Misconfigured {
        /// What is wrong.
        problem: String,
        /// What to do about it.
        advice: String,
    },
}
