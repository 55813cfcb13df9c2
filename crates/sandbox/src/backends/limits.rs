//! Limits of a sandbox with a system of its own, as the settings have them.

use vestal_config::{AnyKey as _, ConfigError, Key, Resolved, Setting, Settings};

use crate::settings::keys;
use crate::spec::Ceiling;

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

    /// Returns the ceiling that holds where nothing is said.
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

    /// Reports whether a limit that cannot be enforced is an error. A default is
    /// what is taken where nobody asked for anything, and no requirement.
    pub(super) fn requires(&self, kind: LimitKind) -> bool {
        let limit = self.get(kind);
        self.required && limit.set_by_user && limit.value != 0
    }

    /// Returns what users should hear of limits that are left out: of those that
    /// they have set. Defaults are for `inspect` and `doctor` to show.
    pub(super) fn told(&self, unenforced: &[String]) -> Option<String> {
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

/// Returns the ceiling that holds where nothing is said; nothing for a setting
/// that is no limit.
pub(super) fn default_ceiling(key: &str) -> Option<Ceiling> {
    LimitKind::of_key(key).map(LimitKind::default_ceiling)
}

fn limit<T: Setting>(
    settings: &Settings,
    key: &Key<T>,
    value: impl Fn(&T) -> Option<u64>,
) -> Result<Limit, ConfigError> {
    let resolved: Resolved<T> = settings.get(key)?;
    let set_by_user = resolved.value != *key.default_value();
    Ok(Limit { value: value(&resolved.value).unwrap_or(0), set_by_user })
}
