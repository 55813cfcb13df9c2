//! What a native sandbox is made of: from facts and settings to what the stage
//! is told, without changing anything.

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

use vestal_wire::{Enclosure, Network, Purpose, Users};

use self::layout::{Layout, bytes};
use self::mounts::{can_be_made, mounts, place};
pub(super) use self::mounts::{check_sources, wanted};
use self::system::{HOME, directory, etc, files, kernel_and_guest, memory, system};
pub(super) use self::users::users;
use self::users::{capabilities, user_limits};
use super::facts::Facts;
use super::private::Private;
use super::seccomp::filters;
use super::settings::NativeSettings;
use super::tier::{self, Owners, Tier};
use crate::backend::{BackendError, InstanceRequest};
use crate::backends::layout::{GUEST_FILE, SETTINGS_FILE, WORKSPACE};
use crate::mounts::Mounts;

/// Everything that shapes a native sandbox.
#[derive(Debug, Clone)]
pub(super) struct PlanInput<'a> {
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
pub(super) struct HostDirs {
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
    pub(super) fn of(request: &InstanceRequest) -> Self {
        // Journal and logs of an instance that ends with its process go along.
        let state = match &request.owner {
            Some(_) => request.instance.dir.join("state"),
            None => request.sandbox_dir.join("state"),
        };
        Self { state, ..Self::below(&request.instance.dir, &request.sandbox_dir) }
    }

    /// Returns the directories of an instance that is only tried.
    pub(super) fn of_trial(dir: &Path) -> Self {
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
pub(super) struct Planned {
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
pub(super) struct DirToMake {
    /// The directory.
    pub path: PathBuf,
    /// Its permissions.
    pub mode: u32,
    /// User and group that it is given to; absent: whoever makes it.
    pub owner: Option<(u32, u32)>,
}

/// The name of the machine that a sandbox takes itself for. It is in the
/// picture of `/etc/hosts`, which sandboxes share.
pub(super) const HOSTNAME: &str = "vestal";

/// Returns the sandbox that settings and facts call for.
pub(super) fn enclosure(input: &PlanInput<'_>) -> Result<Planned, BackendError> {
    let mut layout = Layout::new(input);
    kernel_and_guest(&mut layout);
    mounts(&mut layout)?;
    files(&mut layout)?;
    layout.cover_ours();
    let root = system(&mut layout)?;
    etc(&mut layout);
    memory(&mut layout);
    let start_dir = start_dir(&mut layout)?;
    let (places, make, remarks) = layout.into_places();
    let network = if input.settings.network { Network::Host } else { Network::None };
    let enclosure = Enclosure {
        users: input.users.clone(),
        network,
        hostname: HOSTNAME.to_owned(),
        root,
        mounts: places,
        cgroups: input.cgroups.iter().map(|file| bytes(file)).collect(),
        capabilities: capabilities(input.tier, tier::owners(&input.users)),
        filters: filters()?,
        max_processes: input.max_processes,
        purpose: input.purpose.clone(),
        user_limits: Some(user_limits(&input.facts.counted)),
    };
    Ok(Planned {
        enclosure,
        make,
        start_dir,
        home: PathBuf::from(HOME),
        weakened: input.settings.volumes.weakens(),
        remarks,
    })
}

/// Returns where commands start, and has that made where the sandbox can have
/// it.
fn start_dir(layout: &mut Layout<'_>) -> Result<PathBuf, BackendError> {
    let Some(asked) = layout.input.settings.cwd.clone() else {
        return Ok(PathBuf::from(WORKSPACE));
    };
    let plain = asked.components().all(|part| !matches!(part, Component::ParentDir));
    if plain && asked != Path::new("/") {
        let target = place(layout, &asked)?;
        if can_be_made(layout, &target) {
            directory(layout, &target, 0o755);
        }
    }
    Ok(asked)
}

/// Where programs are looked for.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Returns the purpose of a sandbox with a guest. `record` is told who the
/// first process is; the guest says on `ready` that it listens and closes
/// `hold` once it can be found.
pub(super) fn serve(record: &Path, ready: RawFd, hold: RawFd, owners: Owners) -> Purpose {
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
        // To tar, root is somebody who can give files away.
        environment.push("TAR_OPTIONS=--no-same-owner".to_owned());
    }
    Purpose::Serve {
        arguments: arguments.into_iter().map(|text| text.as_bytes().to_vec().into()).collect(),
        environment: environment.into_iter().map(|text| text.into_bytes().into()).collect(),
        record: record.as_os_str().as_bytes().to_vec().into(),
    }
}
