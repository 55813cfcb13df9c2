//! What a plan is made from, and what it is.

use std::path::PathBuf;

use bollard::models::ContainerCreateBody;
use serde::{Deserialize, Serialize};

use crate::backend::Owner;
use crate::backends::docker::api::{EngineInfo, ImageFacts};
use crate::backends::docker::settings::DockerSettings;
use crate::backends::limits::LimitKind;
use crate::mounts::Mounts;
use crate::{HomeId, Key};

/// Everything that shapes a container.
#[derive(Debug, Clone)]
pub(in crate::backends::docker) struct Blueprint<'a> {
    /// The sandbox.
    pub key: &'a Key,
    /// The profile home it belongs to.
    pub home: &'a HomeId,
    /// Number of the instance among the sandbox's.
    pub generation: u64,
    /// The instance.
    pub instance: &'a str,
    /// The process it ends with; absent: it outlives processes.
    pub owner: Option<&'a Owner>,
    /// Hash of the settings it is made with.
    pub spec_hash: &'a str,
    /// The settings.
    pub settings: &'a DockerSettings,
    /// The image.
    pub image: &'a ImageFacts,
    /// The engine.
    pub info: &'a EngineInfo,
    /// Whom jobs run as.
    pub user: &'a JobUser,
    /// Where the guest's program and settings come from.
    pub boot: Source,
    /// Where the guest's socket is.
    pub io: Source,
    /// Where the guest keeps its journal, logs and sessions.
    pub state: Source,
    /// The sandbox's workspace, unless a directory of the host is mounted.
    pub workspace: Source,
    /// The home of the user of jobs.
    pub home_dir: Source,
    /// What of this machine may be mounted, where the engine sees its files.
    pub mounts: &'a Mounts,
    /// Our own directories, which no container sees.
    pub hidden: &'a [PathBuf],
    /// Limits that an earlier try has shown to be beyond this engine.
    pub leave_out: &'a [LimitKind],
    /// Limits of processes, for engines that may not set their own defaults.
    pub ulimits: Option<Ulimits>,
}

/// Whom jobs run as: the image's USER, or the host's user where that is asked
/// for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::backends::docker) struct JobUser {
    /// Number of the user.
    pub uid: u32,
    /// Number of the group.
    pub gid: u32,
    /// The user's name in the image, if there is one.
    pub name: Option<String>,
    /// The user's home in the image.
    pub home: String,
}

impl JobUser {
    /// Returns whether this is nobody but the image's root.
    pub(in crate::backends::docker) fn is_root(&self) -> bool {
        self.uid == 0 && self.gid == 0
    }
}

/// What is behind a place in a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::backends::docker) enum Source {
    /// A directory of the engine's host.
    Bind(PathBuf),
    /// A volume of the engine, by name.
    Volume(String),
    /// A volume that is the container's own and goes with it.
    Anonymous,
    /// Memory.
    Tmpfs,
}

/// Limits of processes that have to be given explicitly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::backends::docker) struct Ulimits {
    /// Open files.
    pub nofile: i64,
    /// Processes.
    pub nproc: i64,
}

/// A container to make.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::backends::docker) struct Plan {
    /// Its name.
    pub name: String,
    /// What the engine is told.
    pub body: ContainerCreateBody,
    /// The platform, where one is asked for; the engine takes it apart from the
    /// rest.
    pub platform: Option<String>,
    /// Keys of limits that are left out because they cannot be enforced.
    pub unenforced: Vec<String>,
    /// What weakens its isolation, at the user's own wish.
    pub weakened: Vec<String>,
    /// Whom the guest is to run jobs as; absent: as itself.
    pub guest_user: Option<String>,
    /// Whether the workspace is the sandbox's own, rather than something the
    /// user has put in its place.
    pub own_workspace: bool,
    /// Whether the home is the sandbox's own.
    pub own_home: bool,
}
