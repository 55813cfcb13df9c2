//! The settings of schedules.

use vestal_config::{Count, DAY, Group, Range, Seconds};

vestal_config::keys! {
    /// Whether the gateway runs the schedules of its profile.
    CRON_ENABLED: bool = "cron.enabled" {
        default: true,
        limits: (),
        env: ["VESTAL_CRON_ENABLED"],
    }

    /// Scheduled runs that the gateway has in progress at once; further ones wait for their turn.
    CRON_MAX_CONCURRENT: Count = "cron.max_concurrent" {
        default: Count::new(3),
        limits: Range { min: 1, max: 1000 },
        env: ["VESTAL_CRON_MAX_CONCURRENT"],
    }

    /// Whether a scheduled run may make, change, resume and start schedules with the tool `schedule`.
    /// Without it, no schedule makes others without end.
    CRON_RUNS_MAY_SCHEDULE: bool = "cron.runs_may_schedule" {
        default: false,
        limits: (),
        env: ["VESTAL_CRON_RUNS_MAY_SCHEDULE"],
    }

    /// Time that a scheduled run may take before it is interrupted and recorded as `timed_out`.
    CRON_TIMEOUT_SECONDS: Seconds = "cron.timeout_seconds" {
        default: Seconds::new(3600),
        limits: Range { min: 1, max: 7 * DAY },
        env: ["VESTAL_CRON_TIMEOUT_SECONDS"],
    }
}

/// The settings of this owner.
pub static GROUP: Group = Group::of(KEYS);
