//! The task board: what is worked on at a time, what becomes of work that
//! fails, and what is kept.

use std::borrow::Cow;
use std::ffi::OsStr;

use vestal_config::{
    ByteSize, Count, CountOrNone, DAY, EnvNames, Environment, Group, LineMode, Range, Seconds,
    SecondsOrNever, Text, TextLimits, Variable, VariableScope,
};

use super::values::{Cap, CountOrSame, DurabilityChoice, Uncapped};

/// What the cap per host is unless somebody says a number.
const MEMORY: &str = "one for each 128 MiB of memory that is available, from 2 to 64";
/// Of the number of failures that is reported to a person.
const FAILURES: (Range, &str) = (Range { min: 1, max: 1000 }, "kanban.failure_limit");

vestal_config::keys! {
    /// Time after which a dispatcher that watches a board looks at it even though nothing told it
    /// to. Changes wake it at once.
    KANBAN_DISPATCH_INTERVAL_SECONDS: Seconds = "kanban.dispatch_interval_seconds" {
        default: Seconds::new(60),
        limits: Range { min: 1, max: DAY },
        env: ["VESTAL_KANBAN_DISPATCH_INTERVAL_SECONDS"],
    }

    /// Profile that gets ready tasks which nobody is assigned to. It has to exist.
    KANBAN_DEFAULT_ASSIGNEE: Text = "kanban.default_assignee" {
        default: Text::EMPTY,
        limits: TextLimits { max_bytes: 256, lines: LineMode::One },
        env: ["VESTAL_KANBAN_DEFAULT_ASSIGNEE"],
    }

    /// Tasks that may be worked on at a time, on all boards together.
    KANBAN_MAX_IN_PROGRESS: Cap = "kanban.max_in_progress" {
        default: Cap::None,
        limits: Uncapped::None,
        env: ["VESTAL_KANBAN_MAX_IN_PROGRESS"],
    }

    /// Tasks that this host may work on at a time, on all boards together. Workers mostly wait for
    /// a model, so it is memory that bounds them.
    KANBAN_MAX_IN_PROGRESS_PER_HOST: Cap = "kanban.max_in_progress_per_host" {
        default: Cap::Auto(MEMORY),
        limits: Uncapped::Auto(MEMORY),
        env: ["VESTAL_KANBAN_MAX_IN_PROGRESS_PER_HOST"],
    }

    /// Tasks of one board that may be worked on at a time.
    KANBAN_MAX_SPAWN: Cap = "kanban.max_spawn" {
        default: Cap::None,
        limits: Uncapped::None,
        env: ["VESTAL_KANBAN_MAX_SPAWN"],
    }

    /// Tasks of one board that one profile may work on at a time.
    KANBAN_MAX_IN_PROGRESS_PER_PROFILE: Cap = "kanban.max_in_progress_per_profile" {
        default: Cap::None,
        limits: Uncapped::None,
        env: ["VESTAL_KANBAN_MAX_IN_PROGRESS_PER_PROFILE"],
    }

    /// Tasks of one board that may be worked on at a time for one tenant.
    KANBAN_MAX_IN_PROGRESS_PER_TENANT: Cap = "kanban.max_in_progress_per_tenant" {
        default: Cap::None,
        limits: Uncapped::None,
        env: ["VESTAL_KANBAN_MAX_IN_PROGRESS_PER_TENANT"],
    }

    /// Failures of one kind (a crash, a time limit, a worker that could not be started, was not heard
    /// of or was asked to end) at which a task is given up and waits for a person. This and the
    /// settings for pauses are those of the default profile, whichever profile works.
    KANBAN_FAILURE_LIMIT: Count = "kanban.failure_limit" {
        default: Count::new(2),
        limits: Range { min: 1, max: 1000 },
        env: ["VESTAL_KANBAN_FAILURE_LIMIT"],
    }

    /// Workers that ended without a word about their task, at which it is given up.
    KANBAN_NO_REPORT_LIMIT: Count = "kanban.no_report_limit" {
        default: Count::new(3),
        limits: Range { min: 1, max: 1000 },
        env: ["VESTAL_KANBAN_NO_REPORT_LIMIT"],
    }

    /// Time that a task waits after its first failure; it doubles with each further one.
    KANBAN_RETRY_BACKOFF_SECONDS: Seconds = "kanban.retry_backoff_seconds" {
        default: Seconds::new(10),
        limits: Range { min: 0, max: DAY },
        env: ["VESTAL_KANBAN_RETRY_BACKOFF_SECONDS"],
    }

    /// Time that a task waits after the model's provider let it do no more.
    KANBAN_RATE_LIMIT_COOLDOWN_SECONDS: Seconds = "kanban.rate_limit_cooldown_seconds" {
        default: Seconds::new(300),
        limits: Range { min: 0, max: DAY },
        env: ["VESTAL_KANBAN_RATE_LIMIT_COOLDOWN_SECONDS"],
    }

    /// Time that a worker holds its task without renewing its lease, which it does three times as
    /// often. After it others may take the task.
    KANBAN_CLAIM_TTL_SECONDS: Seconds = "kanban.claim_ttl_seconds" {
        default: Seconds::new(120),
        limits: Range { min: 1, max: DAY },
        env: ["VESTAL_KANBAN_CLAIM_TTL_SECONDS"],
    }

    /// Time without anything done after which a worker that lives is stopped and its task is
    /// tried again.
    KANBAN_DISPATCH_STALE_TIMEOUT_SECONDS: SecondsOrNever = "kanban.dispatch_stale_timeout_seconds" {
        default: SecondsOrNever::After(Seconds::new(14_400)),
        limits: Range { min: 1, max: 30 * DAY },
        env: ["VESTAL_KANBAN_DISPATCH_STALE_TIMEOUT_SECONDS"],
    }

    /// What a change that was reported survives: with `full` a loss of power, with `normal` the
    /// death of every process.
    KANBAN_DURABILITY: DurabilityChoice = "kanban.durability" {
        default: DurabilityChoice::Full,
        limits: (),
        env: ["VESTAL_KANBAN_DURABILITY"],
    }

    /// Name of this machine on boards that several share, in place of its own.
    KANBAN_HOST: Text = "kanban.host" {
        default: Text::EMPTY,
        limits: TextLimits { max_bytes: 128, lines: LineMode::One },
        env: ["VESTAL_KANBAN_HOST"],
        travels: false,
    }

    /// Variables of the dispatcher that workers get besides the few that every program needs. Keys
    /// and tokens are not among those: a worker has the ones in its own profile's `.env`.
    KANBAN_ENV_PASSTHROUGH: EnvNames = "kanban.env_passthrough" {
        default: EnvNames::EMPTY,
        limits: (),
        env: ["VESTAL_KANBAN_ENV_PASSTHROUGH"],
    }

    /// Size at which the log of a task's workers is put aside and a new one is begun.
    KANBAN_WORKER_LOG_ROTATE_BYTES: ByteSize = "kanban.worker_log_rotate_bytes" {
        default: ByteSize::mib(2),
        limits: Range { min: 1, max: 1 << 40 },
        env: ["VESTAL_KANBAN_WORKER_LOG_ROTATE_BYTES"],
    }

    /// Logs of a task's workers that are kept besides the newest.
    KANBAN_WORKER_LOG_BACKUP_COUNT: Count = "kanban.worker_log_backup_count" {
        default: Count::new(1),
        limits: Range { min: 0, max: 100 },
        env: ["VESTAL_KANBAN_WORKER_LOG_BACKUP_COUNT"],
    }

    /// Days that events and past runs are kept; the last ones of each task stay.
    KANBAN_EVENT_RETENTION_DAYS: CountOrNone = "kanban.event_retention_days" {
        default: CountOrNone::new(30),
        limits: Range { min: 1, max: 36_500 },
        env: ["VESTAL_KANBAN_EVENT_RETENTION_DAYS"],
    }

    /// Days that logs of workers are kept once their task is done.
    KANBAN_LOG_RETENTION_DAYS: CountOrNone = "kanban.log_retention_days" {
        default: CountOrNone::new(30),
        limits: Range { min: 1, max: 36_500 },
        env: ["VESTAL_KANBAN_LOG_RETENTION_DAYS"],
    }

    /// Failures at which `vestal kanban diagnostics` names a task.
    KANBAN_DIAGNOSTICS_FAILURE_THRESHOLD: CountOrSame = "kanban.diagnostics.failure_threshold" {
        default: CountOrSame::Same(FAILURES.1),
        limits: FAILURES,
        env: ["VESTAL_KANBAN_DIAGNOSTICS_FAILURE_THRESHOLD"],
    }

    /// Crashes at which `vestal kanban diagnostics` names a task.
    KANBAN_DIAGNOSTICS_CRASH_THRESHOLD: Count = "kanban.diagnostics.crash_threshold" {
        default: Count::new(2),
        limits: Range { min: 1, max: 1000 },
        env: ["VESTAL_KANBAN_DIAGNOSTICS_CRASH_THRESHOLD"],
    }

    /// Hours that a task may be blocked before `vestal kanban diagnostics` names it.
    KANBAN_DIAGNOSTICS_BLOCKED_STALE_HOURS: Count = "kanban.diagnostics.blocked_stale_hours" {
        default: Count::new(24),
        limits: Range { min: 1, max: 24 * 365 },
        env: ["VESTAL_KANBAN_DIAGNOSTICS_BLOCKED_STALE_HOURS"],
    }

    /// Time that a task may be ready without being worked on before `vestal kanban diagnostics`
    /// names it.
    KANBAN_DIAGNOSTICS_STRANDED_THRESHOLD_SECONDS: Seconds = "kanban.diagnostics.stranded_threshold_seconds" {
        default: Seconds::new(1800),
        limits: Range { min: 1, max: 365 * DAY },
        env: ["VESTAL_KANBAN_DIAGNOSTICS_STRANDED_THRESHOLD_SECONDS"],
    }

    /// Times that a task may be blocked and unblocked before `vestal kanban diagnostics` names it.
    KANBAN_DIAGNOSTICS_BLOCK_CYCLE_THRESHOLD: Count = "kanban.diagnostics.block_cycle_threshold" {
        default: Count::new(3),
        limits: Range { min: 1, max: 1000 },
        env: ["VESTAL_KANBAN_DIAGNOSTICS_BLOCK_CYCLE_THRESHOLD"],
    }

    /// Time within which `kanban.diagnostics.block_cycle_threshold` counts.
    KANBAN_DIAGNOSTICS_BLOCK_CYCLE_WINDOW_SECONDS: Seconds = "kanban.diagnostics.block_cycle_window_seconds" {
        default: Seconds::new(DAY),
        limits: Range { min: 1, max: 365 * DAY },
        env: ["VESTAL_KANBAN_DIAGNOSTICS_BLOCK_CYCLE_WINDOW_SECONDS"],
    }
}

/// The settings of this owner.
pub static GROUP: Group = Group {
    reserved: RESERVED,
    variables: VARIABLES,
    // Workers have the directories of their tasks mounted.
    work_dirs: &[BOARDS_DIR],
    ..Group::of(KEYS)
};

/// Name of the directory of the boards, in the home of all profiles.
pub(crate) const BOARDS_DIR: &str = "kanban";

/// Names that belong to features on the way.
static RESERVED: &[&str] = &[
    "kanban.auto_decompose",
    "kanban.auto_decompose_per_tick",
    "kanban.auto_promote_children",
    "kanban.auto_subscribe_on_create",
    "kanban.orchestrator_profile",
];

/// Variables of the board. But for the first they are set for workers, which learn from them what
/// they are to do, and mean nothing elsewhere.
static VARIABLES: &[Variable] = &[
    BOARD_VARIABLE,
    Variable {
        name: "VESTAL_KANBAN_TASK",
        doc: "Set for workers: the task they work on.",
        scope: VariableScope::Environment,
    },
    Variable {
        name: "VESTAL_KANBAN_RUN",
        doc: "Set for workers: the number of the attempt, without which the board takes nothing from them.",
        scope: VariableScope::Environment,
    },
    Variable {
        name: "VESTAL_KANBAN_LEASE_SECONDS",
        doc: "Set for workers: how long they hold the task without renewing it.",
        scope: VariableScope::Environment,
    },
    Variable {
        name: "VESTAL_KANBAN_WORKSPACE",
        doc: "Set for workers: the directory of the host that they work in.",
        scope: VariableScope::Environment,
    },
    Variable {
        name: "VESTAL_KANBAN_BRANCH",
        doc: "Set for workers: the branch of the working tree that they work in.",
        scope: VariableScope::Environment,
    },
    Variable {
        name: "VESTAL_TENANT",
        doc: "Set for workers: the tenant of the task.",
        scope: VariableScope::Environment,
    },
];

/// Board to use.
const BOARD_VARIABLE: Variable = Variable {
    name: "VESTAL_KANBAN_BOARD",
    doc: "Board to use when `--board` is not given. Default: the one of `vestal kanban boards switch`, else `default`.",
    scope: VariableScope::Locates,
};

/// Returns the board that `VESTAL_KANBAN_BOARD` names, unless it is empty.
pub fn board_variable(environment: &Environment) -> Option<Cow<'_, str>> {
    environment.non_empty(BOARD_VARIABLE.name).map(OsStr::to_string_lossy)
}

#[cfg(test)]
#[path = "keys_tests.rs"]
mod tests;
