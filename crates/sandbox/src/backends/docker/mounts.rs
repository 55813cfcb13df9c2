//! Directories of the host in containers: that they are what they were.
//!
//! The engine resolves the paths itself, each time a container is started. So
//! what they lead to is looked at before, and again once the guest is there and
//! before any command is: from the host, and by asking the guest what it sees.
//! Nothing can be told of an engine on another machine.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use vestal_config::{ConfigError, Settings};
use vestal_wire::{FaultCode, Role};

use super::inspect::Seen;
use super::places::{HostDirs, io_dir};
use super::settings::DockerSettings;
use crate::backend::{BackendError, Instance, InstanceRequest};
use crate::backends::layout::{BOOT_DIR, WORKSPACE};
use crate::client::socket::{PeerExpectation, connect};
use crate::client::{CallError, Connection};
use crate::files::{FileError, Files, Links};
use crate::mounts::{self, Before, Mounts, Ours, Wanted, covers};
use crate::settings::{MountKind, VolumeSource};

/// How long the guest may take to say what it sees.
const WITHIN: Duration = Duration::from_secs(10);

/// A directory or file of the host and its place in a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Placed {
    pub(super) source: PathBuf,
    pub(super) target: PathBuf,
    pub(super) writable: bool,
}

/// Returns what of the host the settings mount.
pub(super) fn of_settings(settings: &DockerSettings) -> Vec<Placed> {
    let home = settings.user_home.as_deref();
    let mut placed = Vec::new();
    let mut put = |source: PathBuf, target: &Path, writable: bool| {
        placed.push(Placed { source, target: target.to_owned(), writable });
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
    placed
}

/// Returns what of the host is mounted in a container, whatever the settings
/// say by now.
pub(super) fn of_container(seen: &Seen, request: &InstanceRequest) -> Vec<Placed> {
    let mounts = seen.inspected.mounts.iter().flatten();
    let placed = mounts.filter_map(|mount| {
        let is_bind = mount.typ.as_deref() == Some("bind");
        Some(Placed {
            source: mount.source.clone().filter(|_| is_bind)?.into(),
            target: mount.destination.clone()?.into(),
            writable: mount.rw.unwrap_or(true),
        })
    });
    let ours = |placed: &Placed| {
        placed.source.starts_with(&request.sandbox_dir) || placed.target.starts_with("/.vestal")
    };
    placed.filter(|placed| !ours(placed)).collect()
}

/// What is mounted in a container from the host.
#[derive(Debug)]
pub(super) struct HostMounts {
    pub(super) ours: Ours,
    pub(super) placed: Vec<Placed>,
    pub(super) mounts: Mounts,
}

impl HostMounts {
    /// Looks at what is to be mounted, and notes it.
    pub(super) fn admit(
        settings: &Settings,
        placed: Vec<Placed>,
        request: &InstanceRequest,
        before: Before,
    ) -> Result<Self, BackendError> {
        let ours = Ours::of(settings)?;
        let wanted =
            |placed: &Placed| Wanted { path: placed.source.clone(), writable: placed.writable };
        let wanted: Vec<Wanted> = placed.iter().map(wanted).collect();
        let mounts = mounts::admit(&ours, &wanted, request, before)?;
        Ok(Self { ours, placed, mounts })
    }

    /// Returns what is mounted where nothing of this machine can be.
    pub(super) fn none(settings: &Settings) -> Result<Self, ConfigError> {
        Ok(Self { ours: Ours::of(settings)?, placed: Vec::new(), mounts: Mounts::default() })
    }

    /// Checks that the engine has mounted what was looked at. No command has run
    /// yet, so the guest still says what it sees.
    pub(super) async fn confirm(
        &self,
        instance: &Instance,
        dirs: &HostDirs,
    ) -> Result<(), BackendError> {
        if self.placed.is_empty() {
            return Ok(());
        }
        let swapped = self.swapped(instance, dirs).await?;
        if swapped.is_none() && mounts::are_unmoved(&self.ours, &self.mounts) {
            return Ok(());
        }
        let which = swapped.map_or_else(
            || "something that is mounted".to_owned(),
            |path| path.display().to_string(),
        );
        Err(BackendError::Advised {
            problem: format!("{which} was replaced while the container was started"),
            advice: "see which sandbox or program changes what is above it, and try again"
                .to_owned(),
        })
    }

    /// Returns what the guest sees another file in place of. Where the engine is
    /// in a virtual machine of its own, numbers tell nothing. A guest that does
    /// not say what it sees is not trusted.
    async fn swapped(
        &self,
        instance: &Instance,
        dirs: &HostDirs,
    ) -> Result<Option<&Path>, BackendError> {
        let stream = connect(&io_dir(&instance.dir), PeerExpectation::anyone()).await;
        let stream = stream.map_err(|error| untold(&error))?;
        let id = Some(instance.id.clone());
        let connection = Connection::open_within(stream, Role::Observer, id, WITHIN).await;
        let files = Files::new(connection.map_err(|error| untold(&error))?);
        let boot = std::fs::symlink_metadata(&dirs.boot).map_err(|error| untold(&error))?;
        if inside(&files, Path::new(BOOT_DIR)).await? != Some(boot.ino()) {
            return Ok(None);
        }
        for placed in &self.placed {
            let expected = self.mounts.get(&placed.source)?.inode;
            // Another mount may be on top of it.
            let last = self.placed.iter().rfind(|other| other.target == placed.target);
            if last.is_some_and(|last| last.source == placed.source)
                && inside(&files, &placed.target).await?.is_some_and(|inode| inode != expected)
            {
                return Ok(Some(&placed.source));
            }
        }
        Ok(None)
    }

    /// Refuses a container that shows a directory of ours. One that was made
    /// before that was covered, or before it was ours, is not mended by a start.
    pub(super) fn refuse_uncovered(
        &self,
        seen: &Seen,
        request: &InstanceRequest,
    ) -> Result<(), BackendError> {
        let inspected = &seen.inspected;
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
                    "its container would show {} of this machine, which is Vestal's own: it was \
                     made before that was covered",
                    dir.display()
                ),
                advice: format!(
                    "make the container anew, which keeps workspace and home: vestal rebuild {}",
                    mounts::quoted(request.key.task().as_str())
                ),
            }),
        }
    }

    /// Returns a directory of ours that is seen where something is mounted at
    /// these places only.
    fn uncovered(&self, taken: &BTreeSet<PathBuf>) -> Result<Option<PathBuf>, BackendError> {
        for placed in &self.placed {
            let admitted = self.mounts.get(&placed.source)?;
            for cover in covers(&self.ours.hidden, &admitted.path, &placed.target) {
                let fixed = cover.fixed.iter().all(|(_, target)| taken.contains(target));
                if !fixed || !taken.contains(&cover.target) {
                    let rest = cover.target.strip_prefix(&placed.target).unwrap_or(&cover.target);
                    return Ok(Some(admitted.path.join(rest)));
                }
            }
        }
        Ok(None)
    }
}

/// Returns which file the guest sees at a path; nothing where its user may not
/// look, as no command may either.
async fn inside(files: &Files, path: &Path) -> Result<Option<u64>, BackendError> {
    match tokio::time::timeout(WITHIN, files.stat(path, Links::Keep)).await {
        Ok(Ok(found)) => Ok(Some(found.version.inode)),
        Ok(Err(FileError::Call(CallError::Fault(fault)))) if fault.code == FaultCode::Denied => {
            Ok(None)
        }
        Ok(Err(error)) => Err(untold(&error)),
        Err(late) => Err(untold(&late)),
    }
}

fn untold(why: &dyn std::fmt::Display) -> BackendError {
    BackendError::GuestFailed {
        reason: format!("it does not say what is mounted in its container: {why}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_without_its_covers_is_noticed() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let home = root.join("user/vestal");
        std::fs::create_dir_all(&home).unwrap();
        let env = vestal_config::Environment::from_pairs([("HOME", "/nonexistent")]);
        let settings =
            Settings::load(&crate::schema(), vestal_config::Home::at(&home), env, Vec::new());
        let placed =
            |target: &str| Placed { source: root.clone(), target: target.into(), writable: true };
        let wanted = [Wanted { path: root.clone(), writable: true }];
        let mounts = HostMounts {
            ours: Ours::of(&settings).unwrap(),
            placed: vec![placed("/all")],
            mounts: Mounts::untried(&wanted),
        };
        let uncovered = |taken: &[&str]| {
            let taken = taken.iter().map(PathBuf::from).collect();
            mounts.uncovered(&taken).unwrap()
        };
        assert_eq!(uncovered(&["/all"]), Some(home.clone()));
        assert_eq!(uncovered(&["/all", "/all/user/vestal"]), Some(home.clone()), "it can be moved");
        assert_eq!(uncovered(&["/all", "/all/user", "/all/user/vestal"]), None);
    }
}
