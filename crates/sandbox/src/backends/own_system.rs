//! What all sandboxes with a system of their own have in common, whatever makes them: the
//! settings that shape them, paths in them, which directories of the host cannot be there
//! at the same path, and limits.

use std::path::{Path, PathBuf};

use vestal_config::{AnyKey as _, ConfigError, Resolved, Setting, SettingKey, Settings};

use crate::Overrides;
use crate::backend::BackendError;
use crate::overrides::{self, BINDS};
use crate::settings::{StartDir, Volume, VolumeSource, Volumes, keys};
use crate::spec::{Ceiling, Tightening, UNKNOWN_SETTINGS};

pub(super) use crate::backend::WORKSPACE;

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
            (BINDS, overrides::binds_to_spec(self.binds)),
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
    // A missing directory is as wrong as one too many: commands work there.
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

/// The guest's program and settings, which the sandbox may only read.
pub(super) const BOOT_DIR: &str = "/.vestal/boot";
/// The guest's program.
pub(super) const GUEST_FILE: &str = "/.vestal/boot/guest";
/// The guest's settings.
pub(super) const SETTINGS_FILE: &str = "/.vestal/boot/settings";
/// The guest's socket.
pub(super) const IO_DIR: &str = "/.vestal/io";
/// The guest's journal, logs and sessions.
pub(super) const STATE_DIR: &str = "/.vestal/state";

/// Directories of the kernel and of Vestal, with everything below them.
pub(super) const NEVER: [&str; 4] = ["/.vestal", "/dev", "/proc", "/sys"];

/// System directories that must not be hidden. Directories below them may be.
const OF_THE_SYSTEM: [&str; 12] = [
    "/", "/bin", "/boot", "/etc", "/lib", "/lib32", "/lib64", "/opt", "/run", "/sbin", "/usr",
    "/var",
];

/// Refuses a directory that would hide a part of the sandbox's system.
pub(super) fn vet(bind: &Path) -> Result<(), BackendError> {
    let other = "use a directory elsewhere, or the backend local";
    if NEVER.iter().any(|never| bind.starts_with(never)) {
        return Err(refused(bind, "a sandbox needs that path for itself", other));
    }
    if OF_THE_SYSTEM.iter().any(|place| bind == Path::new(place)) {
        return Err(refused(bind, "it would hide the sandbox's own directory", other));
    }
    Ok(())
}

/// What the settings mount at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MountAt {
    /// Nothing.
    Nothing,
    /// The host's directory with the same path, writable.
    Itself,
    /// Something else, or the same directory read-only.
    Another,
}

impl MountAt {
    pub(super) fn of(source: Option<String>, read_only: bool, path: &Path) -> Self {
        let same = source.is_some_and(|source| Path::new(&source) == path);
        if same && !read_only { Self::Itself } else { Self::Another }
    }

    /// Returns what the volumes mount at a path.
    pub(super) fn among(volumes: &Volumes, user_home: Option<&Path>, path: &Path) -> Self {
        match volumes.iter().find(|volume| Path::new(&volume.target) == path) {
            None => Self::Nothing,
            Some(volume) => match &volume.source {
                VolumeSource::Host(source) => {
                    Self::of(source.resolve(user_home), volume.read_only, path)
                }
                VolumeSource::Named(_) => Self::Another,
            },
        }
    }
}

/// Returns the error for a directory that is refused.
pub(super) fn refused(bind: &Path, problem: &str, advice: &str) -> BackendError {
    BackendError::Advised {
        problem: format!("{} cannot be in the sandbox at the same path: {problem}", bind.display()),
        advice: advice.to_owned(),
    }
}

/// What a limit is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LimitKind {
    /// Processor time.
    Cpu,
    /// Memory.
    Memory,
    /// The sandbox's own filesystem.
    Disk,
    /// Processes.
    Pids,
}

impl LimitKind {
    /// All there are.
    pub(super) const ALL: [Self; 4] = [Self::Cpu, Self::Memory, Self::Disk, Self::Pids];

    /// Returns the key of the setting.
    pub(super) fn key(self) -> &'static str {
        match self {
            Self::Cpu => keys::CONTAINER_CPU.name(),
            Self::Memory => keys::CONTAINER_MEMORY.name(),
            Self::Disk => keys::CONTAINER_DISK.name(),
            Self::Pids => keys::CONTAINER_PIDS.name(),
        }
    }

    /// Returns the limit on which a setting is, if it is on any.
    fn of_key(key: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.key() == key)
    }

    /// Returns a value as a ceiling; 0 is none.
    fn ceiling(self, value: u64) -> Ceiling {
        match (self, value) {
            (_, 0) => Ceiling::NONE,
            (Self::Cpu, value) => Ceiling::thousandths(value),
            (Self::Memory | Self::Disk | Self::Pids, value) => Ceiling::whole(value),
        }
    }

    /// Returns the ceiling where none is set.
    fn default_ceiling(self) -> Ceiling {
        let value = match self {
            Self::Cpu => keys::CONTAINER_CPU.default_value().thousandths(),
            Self::Memory => keys::CONTAINER_MEMORY.default_value().get(),
            Self::Disk => keys::CONTAINER_DISK.default_value().get(),
            Self::Pids => keys::CONTAINER_PIDS.default_value().get().map(u64::from),
        };
        self.ceiling(value.unwrap_or(0))
    }
}

/// A limit and who set it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limit {
    /// The limit; 0 for none.
    pub(super) value: u64,
    /// Whether the user has set it to something else than the default.
    pub(super) set_by_user: bool,
}

/// The limits of a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ResourceLimits {
    /// Thousandths of a processor.
    pub(super) cpu: Limit,
    /// Megabytes of memory.
    pub(super) memory_mb: Limit,
    /// Megabytes of the sandbox's own filesystem.
    pub(super) disk_mb: Limit,
    /// Processes and threads.
    pub(super) pids: Limit,
    /// Whether one that the user has set and that cannot be enforced is an error.
    pub(super) required: bool,
}

impl ResourceLimits {
    /// Reads the limits.
    pub(super) fn read(settings: &Settings) -> Result<Self, ConfigError> {
        Ok(Self {
            cpu: limit(settings, &keys::CONTAINER_CPU, |cpus| cpus.thousandths())?,
            memory_mb: limit(settings, &keys::CONTAINER_MEMORY, |memory| memory.get())?,
            disk_mb: limit(settings, &keys::CONTAINER_DISK, |disk| disk.get())?,
            pids: limit(settings, &keys::CONTAINER_PIDS, |pids| pids.get().map(u64::from))?,
            required: settings.get(&keys::REQUIRE_LIMITS)?.value,
        })
    }

    /// Returns a limit.
    pub(super) fn get(&self, kind: LimitKind) -> Limit {
        match kind {
            LimitKind::Cpu => self.cpu,
            LimitKind::Memory => self.memory_mb,
            LimitKind::Disk => self.disk_mb,
            LimitKind::Pids => self.pids,
        }
    }

    /// Reports whether a limit that cannot be enforced is an error. Defaults are not
    /// requirements.
    pub(super) fn requires(&self, kind: LimitKind) -> bool {
        let limit = self.get(kind);
        self.required && limit.set_by_user && limit.value != 0
    }

    /// Returns a warning about limits that are left out, as far as the user has set
    /// them. `inspect` and `doctor` show the others.
    pub(super) fn warning(&self, unenforced: &[String]) -> Option<String> {
        let set = |key: &&String| {
            let kind = LimitKind::of_key(key);
            kind.is_some_and(|kind| self.get(kind).set_by_user)
        };
        let set: Vec<&str> = unenforced.iter().filter(set).map(String::as_str).collect();
        (!set.is_empty()).then(|| {
            format!(
                "{} cannot be enforced here, and the sandbox goes without; `vestal doctor` says \
                 why, and terminal.require_limits makes it an error",
                set.join(", ")
            )
        })
    }

    /// Returns the limits that are not the default, as they are written among
    /// the settings that shape an instance.
    pub(super) fn to_spec(self) -> impl Iterator<Item = (&'static str, String)> {
        LimitKind::ALL.into_iter().filter_map(move |kind| {
            let ceiling = kind.ceiling(self.get(kind).value);
            (ceiling != kind.default_ceiling()).then(|| (kind.key(), ceiling.to_string()))
        })
    }
}

/// Returns the ceiling that holds by default; nothing for a setting that is not a
/// limit.
pub(super) fn default_ceiling(key: &str) -> Option<Ceiling> {
    LimitKind::of_key(key).map(LimitKind::default_ceiling)
}

fn limit<T: Setting>(
    settings: &Settings,
    key: &SettingKey<T>,
    value: impl Fn(&T) -> Option<u64>,
) -> Result<Limit, ConfigError> {
    let resolved: Resolved<T> = settings.get(key)?;
    let set_by_user = resolved.value != *key.default_value();
    Ok(Limit { value: value(&resolved.value).unwrap_or(0), set_by_user })
}
