//! Directories of the host in containers, and the check that the engine mounts
//! the recorded ones.
//!
//! The engine resolves the paths itself at each start of a container. So they are
//! checked before the start, and again when the guest listens and before any
//! command runs: on the host, and by asking the guest which files it sees. On an
//! engine on another machine nothing can be checked.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use vestal_config::{ConfigError, Settings};
use vestal_wire::{FaultCode, HostRole};

use super::inspect::InspectedContainer;
use super::prepare::Sharing;
use super::settings::DockerSettings;
use super::storage::{ContainerDirs, io_dir};
use crate::backend::{BackendError, Instance, InstanceRequest};
use crate::backends::own_system::{BOOT_DIR, MountAt, WORKSPACE, refused, vet};
use crate::client::socket::{PeerExpectation, connect};
use crate::client::{CallError, Connection};
use crate::files::{FileError, Files, Links};
use crate::mounts::{self, KnownMounts, MountRequest, Mounts, OwnDirs, covers};
use crate::settings::{DockerTransport, MountKind, VolumeSource};

/// Longest time for an answer of the guest.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// A directory or file of the host and its mount point in a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HostMount {
    pub(super) source: PathBuf,
    pub(super) target: PathBuf,
    pub(super) writable: bool,
}

/// Returns the mounts of host files in the settings.
pub(super) fn mounts_of_settings(settings: &DockerSettings) -> Vec<HostMount> {
    let home = settings.user_home.as_deref();
    let mut mounts = Vec::new();
    let mut put = |source: PathBuf, target: &Path, writable: bool| {
        mounts.push(HostMount { source, target: target.to_owned(), writable });
    };
    for volume in settings.volumes.iter() {
        if let VolumeSource::Host(source) = &volume.source
            && let Some(source) = source.resolve(home)
        {
            put(source.into(), Path::new(&volume.target), !volume.read_only);
        }
    }
    for mount in &settings.extra_args.mounts {
        if let MountKind::Bind { source, .. } = &mount.kind
            && let Some(source) = source.resolve(home)
        {
            put(source.into(), Path::new(&mount.target), !mount.read_only);
        }
    }
    for dir in &settings.binds {
        put(dir.clone(), dir, true);
    }
    if let Some(mount) = &settings.mount {
        put(mount.clone(), Path::new(WORKSPACE), true);
    }
    mounts
}

/// Returns the mounts of host files in an existing container, whatever the settings
/// are now.
pub(super) fn mounts_of_container(
    seen: &InspectedContainer,
    request: &InstanceRequest,
) -> Vec<HostMount> {
    let mounts = seen.response.mounts.iter().flatten();
    let binds = mounts.filter_map(|mount| {
        let is_bind = mount.typ.as_deref() == Some("bind");
        Some(HostMount {
            source: mount.source.clone().filter(|_| is_bind)?.into(),
            target: mount.destination.clone()?.into(),
            writable: mount.rw.unwrap_or(true),
        })
    });
    let is_ours = |mount: &HostMount| {
        mount.source.starts_with(&request.sandbox_dir) || mount.target.starts_with("/.vestal")
    };
    binds.filter(|mount| !is_ours(mount)).collect()
}

/// The host files of a container, checked before they are mounted.
#[derive(Debug)]
pub(super) struct HostMounts {
    pub(super) own_dirs: OwnDirs,
    pub(super) requested: Vec<HostMount>,
    pub(super) mounts: Mounts,
}

impl HostMounts {
    /// Checks the files to mount and records them.
    pub(super) fn admit(
        settings: &Settings,
        requested: Vec<HostMount>,
        request: &InstanceRequest,
        before: KnownMounts,
    ) -> Result<Self, BackendError> {
        let own_dirs = OwnDirs::of(settings)?;
        let wanted = |mount: &HostMount| MountRequest {
            path: mount.source.clone(),
            writable: mount.writable,
        };
        let wanted: Vec<MountRequest> = requested.iter().map(wanted).collect();
        let mounts = mounts::admit(&own_dirs, &wanted, request, before)?;
        Ok(Self { own_dirs, requested, mounts })
    }

    /// Returns no mounts, for an engine that does not have the files of this
    /// machine.
    pub(super) fn none(settings: &Settings) -> Result<Self, ConfigError> {
        Ok(Self {
            own_dirs: OwnDirs::of(settings)?,
            requested: Vec::new(),
            mounts: Mounts::default(),
        })
    }

    /// Checks that the engine has mounted the recorded files. No command has run
    /// yet, so the guest can be trusted.
    pub(super) async fn confirm(
        &self,
        instance: &Instance,
        dirs: &ContainerDirs,
    ) -> Result<(), BackendError> {
        if self.requested.is_empty() {
            return Ok(());
        }
        let replaced = self.find_replaced(instance, dirs).await?;
        if replaced.is_none() && mounts::are_unmoved(&self.own_dirs, &self.mounts) {
            return Ok(());
        }
        let which = replaced
            .map_or_else(|| "a mounted directory".to_owned(), |path| path.display().to_string());
        Err(BackendError::Advised {
            problem: format!("{which} was replaced while the container was started"),
            advice: "find the sandbox or program that changes the directories above it, and try \
                     again"
                .to_owned(),
        })
    }

    /// Returns the source of a mount in whose place the guest sees another file.
    async fn find_replaced(
        &self,
        instance: &Instance,
        dirs: &ContainerDirs,
    ) -> Result<Option<&Path>, BackendError> {
        let stream = connect(&io_dir(&instance.dir), PeerExpectation::anyone()).await;
        let stream = stream.map_err(|error| unverified(&error))?;
        let id = Some(instance.id.clone());
        let connection =
            Connection::open_within(stream, HostRole::Observer, id, ANSWER_TIMEOUT).await;
        let files = Files::new(connection.map_err(|error| unverified(&error))?);
        let boot = std::fs::symlink_metadata(&dirs.boot).map_err(|error| unverified(&error))?;
        self.compare_inodes(&files, boot.ino()).await
    }

    /// Compares the inodes that the guest sees with the recorded ones. `boot` is the
    /// inode of the boot directory on the host. An inode that the guest cannot report
    /// is an error: the file may be a replaced one.
    async fn compare_inodes(
        &self,
        files: &Files,
        boot: u64,
    ) -> Result<Option<&Path>, BackendError> {
        // An engine in a virtual machine has other inode numbers for all files, so
        // they cannot be compared.
        if inode_inside(files, Path::new(BOOT_DIR)).await? != boot {
            return Ok(None);
        }
        for mount in &self.requested {
            let expected = self.mounts.get(&mount.source)?.inode;
            // A later mount at the same target hides this one.
            let last = self.requested.iter().rfind(|other| other.target == mount.target);
            if last.is_some_and(|last| last.source == mount.source)
                && inode_inside(files, &mount.target).await? != expected
            {
                return Ok(Some(&mount.source));
            }
        }
        Ok(None)
    }

    /// Refuses to start a container that would see a directory of Vestal's own. Its
    /// mounts were fixed when it was made, before that directory was covered.
    pub(super) fn refuse_uncovered(
        &self,
        seen: &InspectedContainer,
        request: &InstanceRequest,
    ) -> Result<(), BackendError> {
        let inspected = &seen.response;
        let config = inspected.host_config.as_ref();
        let memory = config.into_iter().flat_map(|config| config.tmpfs.iter().flatten());
        let mounted =
            inspected.mounts.iter().flatten().filter_map(|mount| mount.destination.as_ref());
        let taken: BTreeSet<PathBuf> =
            memory.map(|(target, _)| target).chain(mounted).map(PathBuf::from).collect();
        match self.uncovered(&taken)? {
            None => Ok(()),
            Some(dir) => Err(BackendError::Advised {
                problem: format!(
                    "its container would see {} of this machine, which is Vestal's own: the \
                     container was made before Vestal covered that directory",
                    dir.display()
                ),
                advice: format!(
                    "rebuild the container, which keeps workspace and home: vestal rebuild {}",
                    crate::key::quoted(request.key.task().as_str())
                ),
            }),
        }
    }

    /// Returns a directory of Vestal's own that is visible if only these mount
    /// points are in use.
    fn uncovered(&self, taken: &BTreeSet<PathBuf>) -> Result<Option<PathBuf>, BackendError> {
        for mount in &self.requested {
            let admitted = self.mounts.get(&mount.source)?;
            for cover in covers(&self.own_dirs.hidden, &admitted.path, &mount.target) {
                let fixed = cover.fixed.iter().all(|(_, target)| taken.contains(target));
                if !fixed || !taken.contains(&cover.target) {
                    let rest = cover.target.strip_prefix(&mount.target).unwrap_or(&cover.target);
                    return Ok(Some(admitted.path.join(rest)));
                }
            }
        }
        Ok(None)
    }
}

/// Returns the inode that the guest sees at a path.
async fn inode_inside(files: &Files, path: &Path) -> Result<u64, BackendError> {
    match tokio::time::timeout(ANSWER_TIMEOUT, files.stat(path, Links::Keep)).await {
        Ok(Ok(found)) => Ok(found.version.inode),
        Ok(Err(FileError::Call(CallError::Fault(fault)))) if fault.code == FaultCode::Denied => {
            Err(BackendError::Advised {
                problem: format!(
                    "cannot check what is mounted at {} in the container: {fault}",
                    path.display()
                ),
                advice: "mount it at a path that the sandbox's user may reach, or remove it from \
                         terminal.docker_volumes or terminal.docker_extra_args; a container that \
                         is there already keeps its mounts until `vestal rebuild TASK`, which \
                         keeps workspace and home"
                    .to_owned(),
            })
        }
        Ok(Err(error)) => Err(unverified(&error)),
        Err(late) => Err(unverified(&late)),
    }
}

fn unverified(why: &dyn std::fmt::Display) -> BackendError {
    BackendError::GuestFailed {
        reason: format!("it did not report what is mounted in its container: {why}"),
    }
}

/// Checks that the directories of the host can be mounted at the same path.
pub(super) fn check_binds(settings: &DockerSettings, is_remote: bool) -> Result<(), BackendError> {
    for bind in &settings.binds {
        if is_remote {
            return Err(refused(
                bind,
                "the container engine is on another machine",
                "use an engine on this machine, or the backend local",
            ));
        }
        bind_target(settings, bind)?;
        if !bind.is_dir() {
            return Err(refused(bind, "it is not a directory any more", "create it"));
        }
    }
    Ok(())
}

/// Refuses directories of this machine if the engine does not see them: it would
/// mount its own.
pub(super) fn check_binds_shared(
    settings: &DockerSettings,
    sharing: Sharing,
) -> Result<(), BackendError> {
    let is_separate = sharing == Sharing::Separate && settings.transport == DockerTransport::Auto;
    match settings.binds.first() {
        Some(bind) if is_separate => Err(refused(
            bind,
            "the container engine does not see the files of this machine",
            "use an engine that does, or the backend local",
        )),
        _ => Ok(()),
    }
}

/// Returns the mount point of a directory, unless the settings already mount it
/// there.
pub(super) fn bind_target<'a>(
    settings: &DockerSettings,
    bind: &'a Path,
) -> Result<Option<&'a str>, BackendError> {
    vet(bind)?;
    let Some(path) = bind.to_str() else {
        return Err(refused(
            bind,
            "its name is not UTF-8, as container engines require",
            "use a directory elsewhere, or the backend local",
        ));
    };
    match mounted_at(settings, bind) {
        MountAt::Nothing => Ok(Some(path)),
        MountAt::Itself => Ok(None),
        MountAt::Another => Err(refused(
            bind,
            "the settings mount something else there, or the same directory read-only",
            "remove it from terminal.docker_volumes or terminal.docker_extra_args",
        )),
    }
}

fn mounted_at(settings: &DockerSettings, path: &Path) -> MountAt {
    let home = settings.user_home.as_deref();
    let of_volumes = MountAt::among(&settings.volumes, home, path);
    if of_volumes != MountAt::Nothing {
        return of_volumes;
    }
    let extra = &settings.extra_args;
    if let Some(mount) = extra.mounts.iter().find(|mount| Path::new(&mount.target) == path) {
        return match &mount.kind {
            MountKind::Bind { source, .. } => {
                MountAt::of(source.resolve(home), mount.read_only, path)
            }
            MountKind::Volume { .. } | MountKind::Tmpfs { .. } => MountAt::Another,
        };
    }
    if extra.tmpfs.iter().any(|(target, _)| Path::new(target) == path) {
        return MountAt::Another;
    }
    MountAt::Nothing
}

#[cfg(test)]
#[path = "mounts_tests.rs"]
mod tests;
