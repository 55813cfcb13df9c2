//! The mounts of a container: the guest's, the sandbox's files, tmpfs, and the
//! user's.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use bollard::models::{
    HostConfig, Mount, MountBindOptions, MountBindOptionsPropagationEnum, MountType,
    MountVolumeOptions,
};

use super::blueprint::{Blueprint, MountSource};
use super::process::{ContainerInit, ContainerUsers};
use crate::backend::BackendError;
use crate::backends::docker::api::Flavour;
use crate::backends::docker::mounts::{HostMount, bind_target, mounts_of_settings};
use crate::backends::own_system::{BOOT_DIR, IO_DIR, STATE_DIR, WORKSPACE};
use crate::mounts::covers;
use crate::settings::{HostPath, MountKind, Propagation, Volume, VolumeSource};

/// Directories of the kernel and of Vestal, where no home is mounted.
const NO_HOME: [&str; 4] = ["/proc", "/sys", "/dev", "/.vestal"];

#[derive(Debug)]
pub(super) struct ContainerMounts {
    flavour: Flavour,
    mounts: Vec<Mount>,
    /// Mounts that only the older `-v` form can express.
    binds: Vec<String>,
    tmpfs: BTreeMap<String, String>,
    taken: BTreeSet<String>,
    /// Whether the workspace is the sandbox's own.
    pub(super) own_workspace: bool,
    /// Whether the home is the sandbox's own.
    pub(super) own_home: bool,
}

impl ContainerMounts {
    /// Returns the mounts of a container. The user's mounts come first; Vestal's own
    /// are left out where the user has mounted something.
    pub(super) fn of(
        blueprint: &Blueprint<'_>,
        first: ContainerInit,
        users: &ContainerUsers,
    ) -> Result<Self, BackendError> {
        let settings = blueprint.settings;
        let mut planned = Self {
            flavour: blueprint.info.flavour,
            mounts: Vec::new(),
            binds: Vec::new(),
            tmpfs: BTreeMap::new(),
            taken: BTreeSet::new(),
            own_workspace: false,
            own_home: false,
        };
        for volume in settings.volumes.iter() {
            planned.volume(volume, settings.user_home.as_deref())?;
        }
        for mount in &settings.extra_args.mounts {
            planned.extra_mount(mount, settings.user_home.as_deref())?;
        }
        for (target, options) in &settings.extra_args.tmpfs {
            planned.take(target)?;
            planned.tmpfs.insert(target.clone(), options.clone());
        }
        for dir in &settings.binds {
            if let Some(target) = bind_target(settings, dir)? {
                planned.take(target)?;
                let mount = bind(target.to_owned(), target, None);
                planned.add(Mount { read_only: Some(false), ..mount })?;
            }
        }
        planned.guest(blueprint, users)?;
        planned.files(blueprint)?;
        planned.hide(blueprint)?;
        planned.memory(first);
        planned.volumes(blueprint);
        Ok(planned)
    }

    /// Adds the volumes of the base image, which a copy does not declare.
    fn volumes(&mut self, blueprint: &Blueprint<'_>) {
        if !blueprint.image.is_bare {
            return;
        }
        for volume in &blueprint.image.volumes {
            if let Some(target) = clean(volume)
                && self.taken.insert(target.clone())
            {
                self.mounts.push(engine_volume(None, &target, false));
            }
        }
    }

    pub(super) fn apply(self, host: &mut HostConfig) {
        let some = |list: Vec<String>| (!list.is_empty()).then_some(list);
        host.mounts = Some(self.mounts);
        host.binds = some(self.binds);
        host.tmpfs = Some(self.tmpfs.into_iter().collect::<HashMap<_, _>>());
    }

    fn take(&mut self, target: &str) -> Result<(), BackendError> {
        if self.taken.insert(target.to_owned()) {
            return Ok(());
        }
        Err(BackendError::Advised {
            problem: format!("the settings mount two things at {target}"),
            advice: "remove one of them from terminal.docker_volumes or \
                     terminal.docker_extra_args"
                .to_owned(),
        })
    }

    fn volume(&mut self, volume: &Volume, home: Option<&Path>) -> Result<(), BackendError> {
        self.take(&volume.target)?;
        if volume.relabel.is_some() {
            let spec = volume.bind(home).ok_or_else(|| no_home(&volume.spec()))?;
            self.binds.push(spec);
            return Ok(());
        }
        let target = &volume.target;
        let mount = match &volume.source {
            VolumeSource::Host(path) => bind(resolve(path, home)?, target, volume.propagation),
            VolumeSource::Named(name) => engine_volume(Some(name.clone()), target, volume.no_copy),
        };
        self.add(Mount { read_only: Some(volume.read_only), ..mount })
    }

    fn extra_mount(
        &mut self,
        extra: &crate::settings::MountFlag,
        home: Option<&Path>,
    ) -> Result<(), BackendError> {
        let target = &extra.target;
        self.take(target)?;
        let mount = match &extra.kind {
            MountKind::Bind { source, propagation } => {
                bind(resolve(source, home)?, target, *propagation)
            }
            MountKind::Volume { name, no_copy } => engine_volume(name.clone(), target, *no_copy),
            // Podman takes absent options of the newer form for zero.
            MountKind::Tmpfs { size, mode } => {
                let access = if extra.read_only { "ro" } else { "rw" };
                let size = size.map(|size| format!(",size={size}")).unwrap_or_default();
                let mode = mode.map(|mode| format!(",mode={mode:04o}")).unwrap_or_default();
                self.tmpfs.insert(target.clone(), format!("{access}{size}{mode}"));
                return Ok(());
            }
        };
        self.add(Mount { read_only: Some(extra.read_only), ..mount })
    }

    /// Adds a mount in a form that can express it.
    fn add(&mut self, mount: Mount) -> Result<(), BackendError> {
        let source = mount.source.clone().unwrap_or_default();
        let target = mount.target.clone().unwrap_or_default();
        let comma = source.contains(',') || target.contains(',');
        if !(comma && self.flavour == Flavour::Podman) {
            self.mounts.push(mount);
            return Ok(());
        }
        // Podman splits the newer form at commas, and the older one at colons.
        if source.contains(':') || target.contains(':') || source.is_empty() {
            return Err(BackendError::Advised {
                problem: format!(
                    "{source} cannot be mounted at {target}: Podman does not accept a path with \
                     both a comma and a colon"
                ),
                advice: "use a directory with another name".to_owned(),
            });
        }
        let propagation = mount.bind_options.and_then(|options| options.propagation);
        let options: Vec<String> = mount
            .read_only
            .filter(|read_only| *read_only)
            .map(|_| "ro".to_owned())
            .into_iter()
            .chain(propagation.map(|propagation| propagation.to_string()))
            .collect();
        let options = options.join(",");
        let colon = if options.is_empty() { "" } else { ":" };
        self.binds.push(format!("{source}:{target}{colon}{options}"));
        Ok(())
    }

    /// Adds the directories of the guest.
    fn guest(
        &mut self,
        blueprint: &Blueprint<'_>,
        users: &ContainerUsers,
    ) -> Result<(), BackendError> {
        // A guest that is not root needs directories that everyone may write to.
        let mode = if users.start_as_root() { "0700" } else { "0777" };
        let memory = |size: &str| format!("rw,nosuid,nodev,noexec,size={size},mode={mode}");
        // Nothing can be uploaded to a read-only volume.
        let read_only = matches!(blueprint.boot, MountSource::Bind(_));
        self.own(&blueprint.boot, BOOT_DIR, read_only, "rw,nosuid,nodev,exec,size=64m,mode=0755")?;
        self.own(&blueprint.io, IO_DIR, false, &memory("16m"))?;
        self.own(&blueprint.state, STATE_DIR, false, &memory("1g"))
    }

    /// Adds workspace and home.
    fn files(&mut self, blueprint: &Blueprint<'_>) -> Result<(), BackendError> {
        let mounted = blueprint.settings.mount.clone().map(MountSource::Bind);
        if mounted.is_some() && self.taken.contains(WORKSPACE) {
            return Err(BackendError::Advised {
                problem: format!(
                    "the settings mount both the launch directory and something else at {WORKSPACE}"
                ),
                advice: "remove the other from terminal.docker_volumes or \
                         terminal.docker_extra_args, or don't mount the launch directory"
                    .to_owned(),
            });
        }
        if !self.taken.contains(WORKSPACE) {
            let source = mounted.as_ref().unwrap_or(&blueprint.workspace);
            self.own(source, WORKSPACE, false, "rw,nosuid,nodev,exec,size=10g,mode=0777")?;
            self.own_workspace = mounted.is_none();
        }
        let home = clean(&blueprint.user.home);
        if let Some(home) = home.filter(|home| can_mount_home(home) && !self.taken.contains(home)) {
            let mode = if blueprint.user.is_root() { "0700" } else { "0777" };
            let options = format!("rw,nosuid,nodev,exec,size=1g,mode={mode}");
            self.own(&blueprint.home_dir, &home, false, &options)?;
            self.own_home = true;
        }
        Ok(())
    }

    /// Covers Vestal's own directories wherever a mount of the host contains them.
    fn hide(&mut self, blueprint: &Blueprint<'_>) -> Result<(), BackendError> {
        let shown = mounts_of_settings(blueprint.settings);
        // Podman copies the covered directory into the tmpfs by default.
        let podman = if self.flavour == Flavour::Podman { ",notmpcopyup" } else { "" };
        let nothing = format!("ro,nosuid,nodev,noexec,size=64k,mode=0555{podman}");
        for HostMount { source, target, writable } in shown {
            let Ok(admitted) = blueprint.mounts.get(&source) else {
                continue;
            };
            for cover in covers(blueprint.hidden, &admitted.path, &target) {
                for (source, target) in &cover.fixed {
                    let target = utf8(target)?;
                    if self.taken.insert(target.clone()) {
                        let mount = bind(utf8(source)?, &target, None);
                        self.add(Mount { read_only: Some(!writable), ..mount })?;
                    }
                }
                let target = utf8(&cover.target)?;
                if self.taken.insert(target.clone()) {
                    self.tmpfs.insert(target, nothing.clone());
                }
            }
        }
        Ok(())
    }

    /// Adds the directories that are kept in memory.
    fn memory(&mut self, first: ContainerInit) {
        // An init of the image runs programs from /run.
        let run = match first {
            ContainerInit::Guest => "rw,noexec,nosuid,nodev,size=64m,mode=0755",
            ContainerInit::Entrypoint => "rw,exec,nosuid,nodev,size=64m,mode=0755",
        };
        let tmpfs = [
            ("/tmp", "rw,exec,nosuid,nodev,size=512m,mode=1777"),
            ("/var/tmp", "rw,noexec,nosuid,nodev,size=256m,mode=1777"),
            ("/run", run),
        ];
        for (target, options) in tmpfs {
            if self.taken.insert(target.to_owned()) {
                self.tmpfs.insert(target.to_owned(), options.to_owned());
            }
        }
    }

    fn own(
        &mut self,
        source: &MountSource,
        target: &str,
        read_only: bool,
        options: &str,
    ) -> Result<(), BackendError> {
        self.take(target)?;
        let mount = match source {
            MountSource::Bind(path) => bind(utf8(path)?, target, None),
            MountSource::Volume(name) => engine_volume(Some(name.clone()), target, false),
            MountSource::Anonymous => engine_volume(None, target, false),
            MountSource::Tmpfs => {
                self.tmpfs.insert(target.to_owned(), options.to_owned());
                return Ok(());
            }
        };
        self.add(Mount { read_only: Some(read_only), ..mount })
    }
}

fn bind(source: String, target: &str, propagation: Option<Propagation>) -> Mount {
    Mount {
        typ: Some(MountType::BIND),
        source: Some(source),
        target: Some(target.to_owned()),
        bind_options: propagation.map(|propagation| MountBindOptions {
            propagation: Some(match propagation {
                Propagation::Private => MountBindOptionsPropagationEnum::PRIVATE,
                Propagation::Rprivate => MountBindOptionsPropagationEnum::RPRIVATE,
                Propagation::Shared => MountBindOptionsPropagationEnum::SHARED,
                Propagation::Rshared => MountBindOptionsPropagationEnum::RSHARED,
                Propagation::Slave => MountBindOptionsPropagationEnum::SLAVE,
                Propagation::Rslave => MountBindOptionsPropagationEnum::RSLAVE,
            }),
            ..MountBindOptions::default()
        }),
        ..Mount::default()
    }
}

/// Returns a mount of a volume, anonymous without a name.
fn engine_volume(name: Option<String>, target: &str, no_copy: bool) -> Mount {
    Mount {
        typ: Some(MountType::VOLUME),
        source: name,
        target: Some(target.to_owned()),
        volume_options: no_copy
            .then(|| MountVolumeOptions { no_copy: Some(true), ..MountVolumeOptions::default() }),
        ..Mount::default()
    }
}

fn resolve(path: &HostPath, home: Option<&Path>) -> Result<String, BackendError> {
    path.resolve(home).ok_or_else(|| no_home(path.as_str()))
}

fn no_home(what: &str) -> BackendError {
    BackendError::Advised {
        problem: format!("{what} cannot be mounted: your home directory is unknown"),
        advice: "write the whole path, or set HOME".to_owned(),
    }
}

fn utf8(path: &Path) -> Result<String, BackendError> {
    path.to_str().map(str::to_owned).ok_or_else(|| BackendError::Advised {
        problem: format!("{} cannot be mounted: its name is not UTF-8", path.display()),
        advice: "container engines require UTF-8; use a directory with such a name".to_owned(),
    })
}

/// Returns an absolute path without empty and `.` parts; `None` for any other path.
fn clean(path: &str) -> Option<String> {
    if !path.starts_with('/') || path.contains('\0') {
        return None;
    }
    let mut cleaned = String::new();
    for part in path.split('/').filter(|part| !matches!(*part, "" | ".")) {
        if part == ".." {
            return None;
        }
        cleaned.push('/');
        cleaned.push_str(part);
    }
    Some(cleaned)
}

/// Returns whether a home can be mounted at a path. Some images name `/` as a home.
fn can_mount_home(path: &str) -> bool {
    !path.is_empty() && !NO_HOME.iter().any(|dir| Path::new(path).starts_with(dir))
}
