//! What a plan is made from, and what it is.

use std::path::{Path, PathBuf};

use vestal_wire::{Enclosure, Purpose, Users};

use crate::backend::InstanceRequest;
use crate::backends::native::facts::Facts;
use crate::backends::native::private::Private;
use crate::backends::native::settings::NativeSettings;
use crate::backends::native::tier::Tier;
use crate::mounts::Mounts;

/// Everything that shapes a native sandbox.
#[derive(Debug, Clone)]
pub(in crate::backends::native) struct PlanInput<'a> {
    /// Where its files are.
    pub dirs: &'a HostDirs,
    /// The settings.
    pub settings: &'a NativeSettings,
    /// The host.
    pub facts: &'a Facts,
    /// What its system directories are.
    pub tier: Tier,
    /// Who its users are on the host.
    pub users: Users,
    /// What of the host may be mounted.
    pub mounts: &'a Mounts,
    /// What of the host's system directories is not for everyone, where
    /// permissions do not keep the sandbox from it.
    pub private: &'a Private,
    /// The picture of `/etc`.
    pub etc_dir: &'a Path,
    /// The root filesystem; for [`Tier::Rootfs`] only, where there is one.
    pub rootfs: Option<&'a Path>,
    /// Files of control groups that the first process is written to.
    pub cgroups: &'a [PathBuf],
    /// Most processes, where no control group counts them.
    pub max_processes: Option<u64>,
    /// What becomes of it.
    pub purpose: Purpose,
}

/// The directories of an instance on the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::backends::native) struct HostDirs {
    /// The instance's own.
    pub instance: PathBuf,
    /// The guest's program and settings.
    pub boot: PathBuf,
    /// The guest's socket.
    pub io: PathBuf,
    /// The guest's journal, logs and sessions.
    pub state: PathBuf,
    /// The workspace.
    pub workspace: PathBuf,
    /// The home.
    pub home: PathBuf,
    /// What is changed in system directories, by directory.
    pub layers: PathBuf,
}

impl HostDirs {
    /// Returns the directories of an instance that is to be made or started.
    pub(in crate::backends::native) fn of(request: &InstanceRequest) -> Self {
        // Journal and logs of an instance that ends with its process go along.
        let state = match &request.owner {
            Some(_) => request.instance.dir.join("state"),
            None => request.sandbox_dir.join("state"),
        };
        Self { state, ..Self::below(&request.instance.dir, &request.sandbox_dir) }
    }

    /// Returns the directories of an instance that is only tried.
    pub(in crate::backends::native) fn of_trial(dir: &Path) -> Self {
        Self::below(dir, dir)
    }

    fn below(instance: &Path, sandbox: &Path) -> Self {
        Self {
            instance: instance.to_owned(),
            boot: instance.join("boot"),
            io: instance.join("io"),
            state: sandbox.join("state"),
            workspace: sandbox.join("workspace"),
            home: sandbox.join("home"),
            layers: instance.join("layers"),
        }
    }
}

/// A sandbox to build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::backends::native) struct Planned {
    /// What the stage is told.
    pub enclosure: Enclosure,
    /// Directories of the host that have to be there before, in this order.
    pub make: Vec<DirToMake>,
    /// Where commands start.
    pub start_dir: PathBuf,
    /// The home of whoever runs them.
    pub home: PathBuf,
    /// What weakens its isolation, at the user's own wish.
    pub weakened: Vec<String>,
    /// What its users should hear about.
    pub remarks: Vec<String>,
}

/// A directory of the host that is made where it is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::backends::native) struct DirToMake {
    /// The directory.
    pub path: PathBuf,
    /// Its permissions.
    pub mode: u32,
    /// User and group that it is given to; absent: whoever makes it.
    pub owner: Option<(u32, u32)>,
}
