//! Directories of the host in containers: that they are what they were.
//!
//! The engine resolves the paths itself, each time a container is started. So
//! what they lead to is looked at before, and again once the guest is there and
//! before any command is: from the host, and by asking the guest what it sees.
//! Nothing can be told of an engine on another machine.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use vestal_config::{ConfigError, MountKind, Settings, VolumeSource};
use vestal_wire::Role;

use super::inspect::Seen;
use super::places::{HostDirs, io_dir};
use super::settings::DockerSettings;
use crate::backend::{BackendError, Instance, Order};
use crate::backends::layout::{BOOT_DIR, WORKSPACE};
use crate::client::Connection;
use crate::client::socket::{PeerExpectation, connect};
use crate::files::{Files, Links};
use crate::mounts::{self, Before, Mounts, Ours, Wanted};

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
pub(super) fn of_container(seen: &Seen, order: &Order) -> Vec<Placed> {
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
        placed.source.starts_with(&order.sandbox_dir) || placed.target.starts_with("/.vestal")
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
        order: &Order,
        before: Before,
    ) -> Result<Self, BackendError> {
        let ours = Ours::of(settings)?;
        let wanted =
            |placed: &Placed| Wanted { path: placed.source.clone(), writable: placed.writable };
        let wanted: Vec<Wanted> = placed.iter().map(wanted).collect();
        let mounts = mounts::admit(&ours, &wanted, order, before)?;
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
        let swapped = self.swapped(instance, dirs).await;
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
    /// in a virtual machine of its own, numbers tell nothing.
    async fn swapped(&self, instance: &Instance, dirs: &HostDirs) -> Option<&Path> {
        let stream = connect(&io_dir(&instance.dir), PeerExpectation::anyone()).await.ok()?;
        let id = Some(instance.id.clone());
        let connection = Connection::open_within(stream, Role::Observer, id, WITHIN).await.ok()?;
        let files = Files::new(connection);
        let inside = async |path: &Path| {
            let asked = tokio::time::timeout(WITHIN, files.stat(path, Links::Keep)).await;
            Some(asked.ok()?.ok()?.version.inode)
        };
        let known = std::fs::symlink_metadata(&dirs.boot).ok()?.ino();
        if inside(Path::new(BOOT_DIR)).await? != known {
            return None;
        }
        for placed in &self.placed {
            let expected = self.mounts.get(&placed.source).ok()?.inode;
            // Another mount may be on top of it.
            let last = self.placed.iter().rfind(|other| other.target == placed.target)?;
            if last.source == placed.source
                && inside(&placed.target).await.is_some_and(|inode| inode != expected)
            {
                return Some(&placed.source);
            }
        }
        None
    }
}
