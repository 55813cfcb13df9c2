//! Planning a native sandbox: computes what the stage builds from facts and
//! settings. Planning changes nothing on the host.

mod layout;
mod mounts;
mod system;
mod users;

#[cfg(test)]
mod mounts_tests;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use vestal_stage::survey::etc::HOSTNAME;
use vestal_wire::{Enclosure, Network, Purpose, UserMapping};

use self::layout::{MountLayout, bytes};
use self::mounts::{add_user_mounts, can_mount_at, resolve_target};
pub(super) use self::system::HOME;
use self::system::{
    add_directory, add_etc, add_kernel_and_guest, add_system, add_tmpfs, add_workspace_and_home,
};
pub(super) use self::users::users;
use self::users::{capabilities, user_limits};
use super::facts::HostFacts;
use super::private::PrivatePaths;
use super::seccomp::filters;
use super::settings::NativeSettings;
use super::tier::{self, Owners, Tier};
use crate::backend::{BackendError, InstanceRequest};
use crate::backends::own_system::{GUEST_FILE, SETTINGS_FILE, WORKSPACE};
use crate::mounts::Mounts;

/// Everything that determines a native sandbox.
#[derive(Debug, Clone)]
pub(super) struct PlanInput<'a> {
    pub machine: PlannedFor,
    pub dirs: &'a HostDirs,
    pub settings: &'a NativeSettings,
    pub facts: &'a HostFacts,
    pub tier: Tier,
    /// The sandbox's users and their ids on the host.
    pub users: UserMapping,
    /// The host directories that passed the mount checks.
    pub mounts: &'a Mounts,
    /// Files of the system directories that not everyone may read; empty where
    /// permissions hide them.
    pub private: &'a PrivatePaths,
    /// The snapshot of `/etc`.
    pub etc_dir: &'a Path,
    /// The root filesystem, for [`Tier::Rootfs`]. A probe has none for an archive.
    pub rootfs: Option<&'a Path>,
    /// Files by which the first process joins its control groups.
    pub cgroups: &'a [PathBuf],
    /// Most processes, if no control group counts them.
    pub max_processes: Option<u64>,
    pub purpose: Purpose,
}

/// Which machine a sandbox is planned for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PlannedFor {
    /// This one: files of the host can be looked at.
    ThisMachine,
    /// Another one, of which nothing is known but the facts. Directories are given by their
    /// real paths, and nothing of it is mounted on request.
    AnotherMachine,
}

/// The directories of an instance on the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::backends) struct HostDirs {
    /// The instance's own directory.
    pub(in crate::backends) instance: PathBuf,
    /// The guest's program and settings.
    pub(in crate::backends) boot: PathBuf,
    /// The guest's socket.
    pub(in crate::backends) io: PathBuf,
    /// The guest's journal, logs and sessions.
    pub(in crate::backends) state: PathBuf,
    pub(in crate::backends) workspace: PathBuf,
    pub(in crate::backends) home: PathBuf,
    /// The overlay layers, one directory per system directory.
    pub(in crate::backends) layers: PathBuf,
}

impl HostDirs {
    /// Returns the directories of an instance.
    pub(in crate::backends) fn of(request: &InstanceRequest) -> Self {
        // An instance with an owner process takes its journal and logs along.
        let state = match &request.owner {
            Some(_) => request.instance.dir.join("state"),
            None => request.sandbox_dir.join("state"),
        };
        Self { state, ..Self::below(&request.instance.dir, &request.sandbox_dir) }
    }

    /// Returns the directories of a probe.
    pub(super) fn of_probe(dir: &Path) -> Self {
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

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PlannedSandbox {
    /// The plan for the stage.
    pub enclosure: Enclosure,
    /// Directories to make on the host before, in this order.
    pub dirs_to_make: Vec<DirToMake>,
    /// Where commands start.
    pub start_dir: PathBuf,
    pub home: PathBuf,
    /// User settings that weaken the isolation.
    pub weakened: Vec<String>,
    /// Notices for the user.
    pub remarks: Vec<String>,
}

/// A directory of the host that is made if it is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DirToMake {
    pub path: PathBuf,
    pub mode: u32,
    /// Its user and group; `None` for those of this process.
    pub owner: Option<(u32, u32)>,
}

/// Plans the sandbox for settings and facts.
pub(super) fn enclosure(input: &PlanInput<'_>) -> Result<PlannedSandbox, BackendError> {
    let mut layout = MountLayout::new(input);
    add_kernel_and_guest(&mut layout);
    add_user_mounts(&mut layout)?;
    add_workspace_and_home(&mut layout)?;
    layout.hide_own_dirs();
    let root = add_system(&mut layout)?;
    add_etc(&mut layout);
    add_tmpfs(&mut layout);
    let start_dir = start_dir(&mut layout)?;
    let (mounts, dirs_to_make, remarks) = layout.into_parts();
    let network = if input.settings.network { Network::Host } else { Network::None };
    let enclosure = Enclosure {
        users: input.users.clone(),
        network,
        hostname: HOSTNAME.to_owned(),
        root,
        mounts,
        cgroups: input.cgroups.iter().map(|file| bytes(file)).collect(),
        capabilities: capabilities(input.tier, tier::owners(&input.users)),
        filters: filters()?,
        max_processes: input.max_processes,
        purpose: input.purpose.clone(),
        user_limits: Some(user_limits(&input.facts.quotas)),
    };
    Ok(PlannedSandbox {
        enclosure,
        dirs_to_make,
        start_dir,
        home: PathBuf::from(HOME),
        weakened: input.settings.volumes.weakens(),
        remarks,
    })
}

/// Returns the directory in which commands start, and plans to make it where
/// possible.
fn start_dir(layout: &mut MountLayout<'_>) -> Result<PathBuf, BackendError> {
    let Some(asked) = layout.input.settings.cwd.clone() else {
        return Ok(PathBuf::from(WORKSPACE));
    };
    let plain = asked.components().all(|part| !matches!(part, Component::ParentDir));
    if plain && asked != Path::new("/") {
        let target = resolve_target(layout, &asked)?;
        if can_mount_at(layout, &target) {
            add_directory(layout, &target, 0o755);
        }
    }
    Ok(asked)
}

/// The default `PATH`.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Returns the purpose of a sandbox with a guest. The stage writes the identity of
/// the first process to `record`; the guest writes its ready line to `ready` and
/// closes `hold` once it can be found.
pub(super) fn serve_purpose(record: &Path, ready: RawFd, hold: RawFd, owners: Owners) -> Purpose {
    let arguments = [
        GUEST_FILE,
        "serve",
        "--settings",
        SETTINGS_FILE,
        "--ready-fd",
        &ready.to_string(),
        "--hold-fd",
        &hold.to_string(),
    ];
    let mut environment = vec![
        format!("PATH={PATH}"),
        format!("HOME={HOME}"),
        "USER=root".to_owned(),
        "LOGNAME=root".to_owned(),
    ];
    if owners == Owners::One {
        // As root, tar would otherwise try to change owners.
        environment.push("TAR_OPTIONS=--no-same-owner".to_owned());
    }
    Purpose::Serve {
        arguments: arguments.into_iter().map(|text| text.as_bytes().to_vec().into()).collect(),
        environment: environment.into_iter().map(|text| text.into_bytes().into()).collect(),
        record: record.as_os_str().as_bytes().to_vec().into(),
    }
}
