//! Settings that shape every sandbox with a system of its own, whatever makes
//! it.

use std::path::{Path, PathBuf};

use vestal_config::{AnyKey as _, ConfigError, Settings};

use super::limits::{ResourceLimits, default_ceiling};
use crate::Overrides;
use crate::binds::{self, BINDS};
use crate::settings::{StartDir, Volume, Volumes, keys};
use crate::spec::{Tightening, UNKNOWN_SETTINGS};

/// The settings that such sandboxes have in common.
#[derive(Debug)]
pub(super) struct Shaping<'a> {
    /// What the user mounts.
    pub(super) volumes: &'a Volumes,
    /// Whether there is a network.
    pub(super) network: bool,
    /// The directory of the host that is the workspace.
    pub(super) mount: Option<&'a Path>,
    /// Directories of the host that are in the sandbox at the same path.
    pub(super) binds: &'a [PathBuf],
    /// Whether workspace and home are kept on disk.
    pub(super) persistent: bool,
    /// What it may use.
    pub(super) limits: ResourceLimits,
}

impl Shaping<'_> {
    /// Returns those that are not the default, as they are written among the
    /// settings that shape an instance.
    pub(super) fn to_spec(&self) -> impl Iterator<Item = (&'static str, String)> {
        let mut volumes: Vec<String> = self.volumes.iter().map(Volume::spec).collect();
        // Their order makes no difference: each has a place of its own.
        volumes.sort();
        let volumes = (!volumes.is_empty()).then(|| serde_json::Value::from(volumes).to_string());
        let mount = self.mount.map(|path| path.to_string_lossy().into_owned());
        let network = flag(self.network, *keys::DOCKER_NETWORK.default_value());
        let persistent = flag(self.persistent, *keys::CONTAINER_PERSISTENT.default_value());
        let values = [
            (keys::DOCKER_VOLUMES.name(), volumes),
            (keys::DOCKER_NETWORK.name(), network),
            (keys::DOCKER_MOUNT_CWD_TO_WORKSPACE.name(), mount),
            (BINDS, binds::to_spec(self.binds)),
            (keys::CONTAINER_PERSISTENT.name(), persistent),
        ];
        let values = values.into_iter().filter_map(|(key, value)| value.map(|value| (key, value)));
        values.chain(self.limits.to_spec())
    }
}

/// Returns a flag as it is written, unless it is the default.
pub(super) fn flag(value: bool, default: bool) -> Option<String> {
    (value != default).then(|| value.to_string())
}

/// Returns the rule for a setting that shapes such sandboxes.
pub(super) fn tightening(key: &str) -> Tightening {
    if let Some(default) = default_ceiling(key) {
        return Tightening::Lower { default };
    }
    // A directory that is missing is as wrong as one too many: work is to be
    // done there.
    let any = [UNKNOWN_SETTINGS, keys::DOCKER_MOUNT_CWD_TO_WORKSPACE.name(), BINDS];
    if any.contains(&key) {
        Tightening::Any
    } else if key == keys::DOCKER_VOLUMES.name() {
        Tightening::Fewer
    } else if key == keys::DOCKER_NETWORK.name() {
        Tightening::Off
    } else {
        Tightening::Never
    }
}

/// Returns where commands start, unless that is the workspace. A directory of
/// the host means nothing in such a sandbox.
pub(super) fn start_dir(
    settings: &Settings,
    overrides: &Overrides,
) -> Result<Option<PathBuf>, ConfigError> {
    let configured = match settings.get(&keys::CWD)?.value {
        StartDir::Launch => None,
        StartDir::At(path) => {
            let home = settings.environment().user_home();
            Some(path).filter(|path| home.is_none_or(|home| !path.starts_with(home)))
        }
    };
    Ok(overrides.cwd.clone().or(configured).filter(|path| path.is_absolute()))
}
