//! The settings of native sandboxes, and all that shape one.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use serde_json::json;
use vestal_config::kind::{SettingInput, ValueRefusal, expand, path};
use vestal_config::{
    AnyKey as _, ConfigError, Group, Protection, Setting, SettingValue, Settings, ValueSource,
};

use crate::backends::own_system::{self, Shaping};
use crate::backends::own_system::{ResourceLimits, start_dir};
use crate::backends::user_mounts::UserMounts;
use crate::mounts::OwnDirs;
use crate::settings::{SandboxSettings as _, Volumes, keys};
use crate::spec::Tightening;
use crate::{Overrides, Spec};

vestal_config::keys! {
    /// System of native sandboxes, in place of this machine's own: a directory or an archive (tar,
    /// as it is or compressed with gzip) that holds a root filesystem with a shell, such as
    /// `docker export` writes. Packages can be installed in it.
    NATIVE_ROOTFS: RootfsChoice = "terminal.native_rootfs" {
        default: RootfsChoice::Host,
        limits: (),
        env: ["TERMINAL_NATIVE_ROOTFS"],
        protection: Protection::Isolates,
    }
}

/// The settings of this owner.
pub(crate) static GROUP: Group = Group { prefixes: &["native_"], ..Group::of(KEYS) };

/// What native sandboxes have for a system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RootfsChoice {
    /// This machine's own.
    Host,
    /// A directory or an archive of it: absolute, or below the user's home as `~/…`.
    At(PathBuf),
}

impl RootfsChoice {
    const HOST: &str = "host";

    /// Returns the directory or archive, if it is not this machine's own.
    pub fn resolve(&self, user_home: Option<&Path>) -> Option<PathBuf> {
        match self {
            Self::Host => None,
            Self::At(path) => Some(expand(path, user_home)),
        }
    }
}

impl Setting for RootfsChoice {
    type Limits = ();

    const TILDE_IS_HOME: bool = true;

    fn read(input: SettingInput<'_>, (): &()) -> Result<Self, ValueRefusal> {
        let path = path(input)?;
        if path.as_os_str() == OsStr::new(Self::HOST) {
            return Ok(Self::Host);
        }
        if path.is_absolute() || path.starts_with("~") {
            return Ok(Self::At(path));
        }
        Err(ValueRefusal::new(
            "is a relative path, which would mean another place in every directory",
        ))
    }

    fn to_value(&self) -> SettingValue {
        SettingValue::Text(match self {
            Self::Host => Self::HOST.to_owned(),
            Self::At(path) => path.to_string_lossy().into_owned(),
        })
    }

    fn allowed((): &()) -> String {
        "host for this machine's own, an absolute path, or one that starts with ~/".to_owned()
    }

    fn examples((): &()) -> Vec<String> {
        vec!["/srv/debian".to_owned(), "~/debian.tar.gz".to_owned()]
    }

    fn schema((): &()) -> serde_json::Value {
        json!({"type": "string", "pattern": "^(host$|[/~])"})
    }
}

/// The settings that shape a native sandbox, read once for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::backends::native) struct NativeSettings {
    /// The system it has, in place of the host's.
    pub rootfs: Option<RootfsSetting>,
    /// What the user mounts.
    pub volumes: Volumes,
    /// Whether there is a network.
    pub network: bool,
    /// What it may use.
    pub limits: ResourceLimits,
    /// Whether workspace and home are kept on disk.
    pub persistent: bool,
    /// The directory of the host that is the workspace.
    pub mount: Option<PathBuf>,
    /// Directories of the host that are in the sandbox at the same path.
    pub binds: Vec<PathBuf>,
    /// Where commands start, unless that is the workspace.
    pub cwd: Option<PathBuf>,
    /// The user's home on this machine, for sources that begin with `~`.
    pub user_home: Option<PathBuf>,
    /// Directories of ours on the host, which no sandbox sees.
    pub own_dirs: Vec<PathBuf>,
    /// The same, and what else there is to know about what may be mounted.
    pub protected: OwnDirs,
    /// Those of them that hold nothing but what we make and remove.
    pub busy_dirs: Vec<PathBuf>,
}

/// A root filesystem and who named it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::backends::native) struct RootfsSetting {
    /// A directory or an archive.
    pub path: PathBuf,
    /// Where that was set.
    pub source: ValueSource,
}

impl NativeSettings {
    /// Reads the settings, with what is asked for one sandbox alone on top.
    pub(in crate::backends::native) fn read(
        settings: &Settings,
        overrides: &Overrides,
    ) -> Result<Self, ConfigError> {
        let user_home = settings.environment().user_home();
        let rootfs = settings.get(&keys::NATIVE_ROOTFS)?;
        let source = rootfs.source;
        let rootfs = rootfs.value.resolve(user_home.as_deref());
        let home = settings.home();
        let sandboxes = settings.sandboxes_dir()?.value;
        Ok(Self {
            rootfs: rootfs.map(|path| RootfsSetting { path, source }),
            volumes: settings.get(&keys::DOCKER_VOLUMES)?.value.and(&overrides.volumes),
            network: settings.get(&keys::DOCKER_NETWORK)?.value,
            limits: ResourceLimits::read(settings)?,
            persistent: settings.get(&keys::CONTAINER_PERSISTENT)?.value,
            mount: overrides.mount.clone(),
            binds: overrides.binds.clone(),
            cwd: start_dir(settings, overrides)?,
            user_home,
            own_dirs: vec![home.root().to_owned(), home.dir(), sandboxes.clone()],
            protected: OwnDirs::of(settings)?,
            busy_dirs: vec![sandboxes, home.run_dir()],
        })
    }

    /// Returns what the user mounts.
    pub(in crate::backends::native) fn user_mounts(&self) -> UserMounts<'_> {
        UserMounts {
            volumes: &self.volumes,
            binds: &self.binds,
            mount: self.mount.as_deref(),
            user_home: self.user_home.as_deref(),
            sandboxes: "native sandboxes",
        }
    }

    /// Returns what shapes a native sandbox and is not the default.
    pub(in crate::backends::native) fn spec(&self) -> Spec {
        let rootfs = self.rootfs.as_ref().map(|rootfs| shown(&rootfs.path));
        let shaping = Shaping {
            volumes: &self.volumes,
            network: self.network,
            mount: self.mount.as_deref(),
            binds: &self.binds,
            persistent: self.persistent,
            limits: self.limits,
        };
        rootfs
            .map(|path| (keys::NATIVE_ROOTFS.name(), path))
            .into_iter()
            .chain(shaping.to_spec())
            .fold(Spec::default(), |spec, (key, value)| spec.with(key, &value, tightening(key)))
    }
}

/// Returns the rule for a setting that shapes native sandboxes.
pub(in crate::backends::native) fn tightening(key: &str) -> Tightening {
    // Another root filesystem isolates neither more nor less.
    own_system::tightening(key)
}

fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
#[path = "settings_tests.rs"]
mod tests;
