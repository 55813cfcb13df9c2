//! The settings of boards and dispatchers.

pub mod keys;
mod values;

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use vestal_config::{
    AnyKey as _, ConfigError, Home, ProfileName, Resolved, Schema, SettingKey, Settings,
};

use crate::boards::Boards;
use crate::dispatch::{Backoff, Budgets, Caps, DispatchPolicy, FailurePolicy, Shown};
use crate::id::{HostId, HostName};
use crate::log::LogPolicy;
use crate::store::{Durability, Retention};
use crate::verbs::Thresholds;

pub use values::{Cap, CountOrSame, DurabilityChoice, Uncapped};

#[cfg(test)]
#[path = "settings_tests.rs"]
mod tests;

/// Returns the schema of the board.
pub fn schema() -> Schema {
    Schema::new([&keys::GROUP])
}

const DAY: Duration = Duration::from_hours(24);
/// How long things are kept that are kept for ever: longer than anybody asks.
const FOR_EVER: Duration = Duration::from_hours(24 * 36_500);
/// Tasks that a host works on at a time where nobody says, however much memory it has.
const MOST: u32 = 64;
/// Entries of each bucket of a dispatch that are shown.
const SHOWN: u32 = 100;
/// Events of each task that stay whatever their age.
const EVENTS_PER_TASK: u32 = 50;
/// Runs of each task that stay whatever their age.
const RUNS_PER_TASK: u32 = 20;
/// The longest wait between two attempts, unless the first is longer.
const LONGEST_BACKOFF: Duration = Duration::from_mins(10);

/// Why it is not known which host this is.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The settings cannot be read.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The system does not say.
    #[error("cannot identify this host: {0}")]
    Unknown(io::Error),
}

/// Returns what a commit survives.
pub fn durability(settings: &Settings) -> Result<Durability, ConfigError> {
    Ok(match settings.get(&keys::KANBAN_DURABILITY)?.value {
        DurabilityChoice::Full => Durability::Full,
        DurabilityChoice::Normal => Durability::Normal,
    })
}

/// Returns the name of this host on boards.
pub fn host_name(settings: &Settings) -> Result<HostName, ConfigError> {
    let named = settings.get(&keys::KANBAN_HOST)?.value;
    Ok(named.get().map_or_else(HostName::of_this_machine, HostName::new))
}

/// Returns this host, as boards know it.
pub fn host(settings: &Settings) -> Result<HostId, HostError> {
    HostId::this(host_name(settings)?).map_err(HostError::Unknown)
}

/// Returns the boards of the home that the settings belong to.
pub fn boards(settings: &Settings) -> Result<Boards, HostError> {
    let (host, durability) = (host(settings)?, durability(settings)?);
    Ok(Boards::at(boards_dir(settings.home()), host, durability))
}

/// Returns the directory of the boards, which all profiles share.
pub fn boards_dir(home: &Home) -> PathBuf {
    home.root().join(keys::BOARDS_DIR)
}

/// Returns the policy of a dispatcher on a host, and warnings about the settings to
/// show once: an invalid cap must not keep work from being done.
pub fn policy(
    settings: &Settings,
    host: HostId,
) -> Result<(DispatchPolicy, Vec<String>), ConfigError> {
    let mut warnings = Vec::new();
    let caps = caps(settings, &mut warnings)?;
    let default_assignee = default_assignee(settings, &mut warnings)?;
    let policy = DispatchPolicy {
        host,
        caps,
        default_assignee,
        lease: settings.get(&keys::KANBAN_CLAIM_TTL_SECONDS)?.value.duration(),
        stale_after: settings.get(&keys::KANBAN_DISPATCH_STALE_TIMEOUT_SECONDS)?.value.duration(),
        failures: failures(settings)?,
        shown: Shown::First(SHOWN),
    };
    Ok((policy, warnings))
}

fn caps(settings: &Settings, warnings: &mut Vec<String>) -> Result<Caps, ConfigError> {
    let mut cap = |key| cap(settings, key, warnings);
    Ok(Caps {
        global: cap(&keys::KANBAN_MAX_IN_PROGRESS)?,
        host: cap(&keys::KANBAN_MAX_IN_PROGRESS_PER_HOST)?,
        board: cap(&keys::KANBAN_MAX_SPAWN)?,
        profile: cap(&keys::KANBAN_MAX_IN_PROGRESS_PER_PROFILE)?,
        tenant: cap(&keys::KANBAN_MAX_IN_PROGRESS_PER_TENANT)?,
    })
}

fn cap(
    settings: &Settings,
    key: &SettingKey<Cap>,
    warnings: &mut Vec<String>,
) -> Result<Option<u32>, ConfigError> {
    let Resolved { value, source } = settings.get(key)?;
    if let Some(text) = value.invalid() {
        warnings.push(format!(
            "{} is {text} ({source}); it must be a whole number ≥ 1; cap ignored",
            key.name()
        ));
    }
    Ok(if value.is_auto() { Some(MOST) } else { value.get() })
}

/// Returns the profile that unassigned tasks go to. An invalid name must not keep
/// other tasks from being done.
fn default_assignee(
    settings: &Settings,
    warnings: &mut Vec<String>,
) -> Result<Option<ProfileName>, ConfigError> {
    let key = &keys::KANBAN_DEFAULT_ASSIGNEE;
    let found = match settings.get(key) {
        Ok(found) => found,
        Err(ConfigError::Invalid(invalid)) => {
            warnings.push(format!("{invalid}; unassigned tasks stay unassigned"));
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    let Some(name) = found.value.get() else { return Ok(None) };
    match ProfileName::new(name) {
        Ok(name) => Ok(Some(name)),
        Err(error) => {
            warnings.push(format!(
                "{} ({}): {error}; unassigned tasks stay unassigned",
                key.name(),
                found.source
            ));
            Ok(None)
        }
    }
}

/// Returns what becomes of tasks that fail.
pub fn failures(settings: &Settings) -> Result<FailurePolicy, ConfigError> {
    let limit = settings.get(&keys::KANBAN_FAILURE_LIMIT)?.value.get();
    let no_report = settings.get(&keys::KANBAN_NO_REPORT_LIMIT)?.value.get();
    let first = settings.get(&keys::KANBAN_RETRY_BACKOFF_SECONDS)?.value.duration();
    let cooldown = settings.get(&keys::KANBAN_RATE_LIMIT_COOLDOWN_SECONDS)?.value.duration();
    let default = FailurePolicy::default();
    Ok(FailurePolicy {
        budgets: Budgets {
            crashed: limit,
            timed_out: limit,
            spawn_failed: limit,
            no_report,
            stale: limit,
            rate_limited: default.budgets.rate_limited,
            terminated: limit,
            reclaimed: limit,
        },
        backoff: Backoff { first, most: LONGEST_BACKOFF.max(first) },
        rate_limit_cooldown: cooldown,
    })
}

/// Returns how often a dispatcher looks although nothing tells it to.
pub fn dispatch_interval(settings: &Settings) -> Result<Duration, ConfigError> {
    Ok(settings.get(&keys::KANBAN_DISPATCH_INTERVAL_SECONDS)?.value.duration())
}

/// Returns how much of the logs of workers is kept.
pub fn worker_log(settings: &Settings) -> Result<LogPolicy, ConfigError> {
    Ok(LogPolicy {
        rotate_at: settings.get(&keys::KANBAN_WORKER_LOG_ROTATE_BYTES)?.value.get(),
        backups: settings.get(&keys::KANBAN_WORKER_LOG_BACKUP_COUNT)?.value.get(),
    })
}

/// Returns which variables of the dispatcher workers get besides the common ones.
pub fn env_passthrough(settings: &Settings) -> Result<Vec<String>, ConfigError> {
    let names = settings.get(&keys::KANBAN_ENV_PASSTHROUGH)?.value;
    Ok(names.iter().map(|name| name.as_str().to_owned()).collect())
}

/// Returns what of a board's past is kept.
pub fn retention(settings: &Settings) -> Result<Retention, ConfigError> {
    let days = settings.get(&keys::KANBAN_EVENT_RETENTION_DAYS)?.value.get();
    Ok(Retention {
        events: days.map_or(FOR_EVER, |days| DAY * days),
        events_per_task: EVENTS_PER_TASK,
        runs_per_task: RUNS_PER_TASK,
    })
}

/// Returns how long logs of workers are kept once their task is done; none: for ever.
pub fn log_retention(settings: &Settings) -> Result<Option<Duration>, ConfigError> {
    let days = settings.get(&keys::KANBAN_LOG_RETENTION_DAYS)?.value.get();
    Ok(days.map(|days| DAY * days))
}

/// Returns when `diagnostics` names a task.
pub fn thresholds(settings: &Settings) -> Result<Thresholds, ConfigError> {
    let failures = settings.get(&keys::KANBAN_DIAGNOSTICS_FAILURE_THRESHOLD)?.value.get();
    let failures = match failures {
        Some(failures) => failures,
        None => settings.get(&keys::KANBAN_FAILURE_LIMIT)?.value.get(),
    };
    let hours = settings.get(&keys::KANBAN_DIAGNOSTICS_BLOCKED_STALE_HOURS)?.value.get();
    let stranded = &keys::KANBAN_DIAGNOSTICS_STRANDED_THRESHOLD_SECONDS;
    let window = &keys::KANBAN_DIAGNOSTICS_BLOCK_CYCLE_WINDOW_SECONDS;
    Ok(Thresholds {
        failures,
        crashes: settings.get(&keys::KANBAN_DIAGNOSTICS_CRASH_THRESHOLD)?.value.get(),
        blocked: Duration::from_hours(u64::from(hours)),
        stranded: settings.get(stranded)?.value.duration(),
        block_cycles: settings.get(&keys::KANBAN_DIAGNOSTICS_BLOCK_CYCLE_THRESHOLD)?.value.get(),
        block_cycle_window: settings.get(window)?.value.duration(),
        ..Thresholds::default()
    })
}
