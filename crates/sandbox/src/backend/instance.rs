//! Instances: what is asked of a backend, what it says of them, and the process that owns
//! one which is not to outlive it.

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use vestal_process::ProcessId;
use vestal_wire::GuestSettings;

use super::SavedSystem;
#[cfg(doc)]
use super::{Copies, Marked};
use crate::{HomeId, Key, Overrides, ProgressSink, Spec};

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
pub struct InstanceRequest {
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
    /// The guest's settings. Paths are the host's: a backend whose guests
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
    /// What [`Copies::save`] has kept.
    Saved {
        /// The directory it was given.
        dir: PathBuf,
        /// What it returned.
        saved: SavedSystem,
    },
}

/// An instance that was made or started.
#[derive(Debug)]
pub struct StartedInstance {
    /// How it is found again.
    pub locator: Locator,
    /// What its users should hear about.
    pub warnings: Vec<String>,
}

/// What an instance is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InstanceState {
    /// Its first process runs; whether the guest answers is another matter.
    Running,
    /// Its processes are there and held; [`Marked::locate`] lets them continue.
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
pub enum InstanceFilter<'a> {
    /// Those of one sandbox, by the hash of its key.
    Key(&'a str),
    /// Those of all sandboxes of a profile home.
    Home(&'a HomeId),
}

/// An instance that was found by its marks.
#[derive(Debug, Clone)]
pub struct FoundInstance {
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
    /// up when it is rebuilt.
    pub is_copy: bool,
    /// How far it is a system of its own, where that depends on the machine.
    pub tier: Option<String>,
    /// What is missing for a better tier, and how to have it.
    pub missing: Vec<String>,
}

/// Version of the form.
pub(crate) const OWNER_VERSION: u64 = 1;

/// Who owns an instance: kept in its mark on disk, and in
/// `vestal-owner` where there are labels.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    version: u64,
    /// The backend of the instance.
    pub backend: String,
    /// Name of the host.
    pub host: String,
    /// The pid namespace its pid counts in.
    pub pid_namespace: String,
    /// The process.
    pub process: ProcessId,
}

impl Owner {
    /// Returns this process as the owner.
    pub(crate) fn current(backend: &str) -> io::Result<Self> {
        Ok(Self {
            version: OWNER_VERSION,
            backend: backend.to_owned(),
            host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            pid_namespace: pid_namespace()?,
            process: ProcessId::current()?,
        })
    }

    /// Returns whether the owner may be alive. An owner in another pid
    /// namespace, or on another host, cannot be looked at and counts as alive.
    pub fn may_be_alive(&self) -> bool {
        let here = Self::current(&self.backend);
        let comparable = here
            .is_ok_and(|here| here.host == self.host && here.pid_namespace == self.pid_namespace);
        !comparable || self.process.is_alive()
    }
}

fn pid_namespace() -> io::Result<String> {
    Ok(std::fs::read_link("/proc/self/ns/pid")?.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_in_another_pid_namespace_counts_as_alive() {
        let me = Owner::current("local").unwrap();
        assert!(me.may_be_alive());
        let dead = Owner { process: ProcessId { start: 1, ..me.process.clone() }, ..me };
        assert!(!dead.may_be_alive());
        let elsewhere = Owner { pid_namespace: "pid:[1]".into(), ..dead };
        assert!(elsewhere.may_be_alive());
    }
}
