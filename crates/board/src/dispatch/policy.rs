//! What a dispatcher may do, as configured.

use std::time::Duration;

use vestal_config::ProfileName;

use crate::id::HostId;
use crate::run::{Outcome, Run};

/// Everything that decides about a plan besides the board itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DispatchPolicy {
    /// The host that dispatches.
    pub host: HostId,
    /// How many tasks may be worked on at the same time.
    pub caps: Caps,
    /// Who gets tasks that nobody is assigned to.
    pub default_assignee: Option<ProfileName>,
    /// How long a lease lasts without being renewed.
    pub lease: Duration,
    /// How long a worker may get nothing done; none: for ever.
    pub stale_after: Option<Duration>,
    /// What becomes of tasks that fail.
    pub failures: FailurePolicy,
    /// How much of each bucket is shown.
    pub shown: Shown,
}

/// How many tasks may be worked on at the same time. None: no such cap.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Caps {
    /// On all boards, by all hosts as far as the boards know them.
    pub global: Option<u32>,
    /// On all boards, by this host.
    pub host: Option<u32>,
    /// On this board.
    pub board: Option<u32>,
    /// On this board, for each profile.
    pub profile: Option<u32>,
    /// On this board, for each tenant.
    pub tenant: Option<u32>,
}

/// How much of each bucket is shown; counts are always whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// So many entries.
    First(u32),
    /// All.
    All,
}

impl Shown {
    /// Returns how many entries that is at most.
    pub fn limit(self) -> usize {
        match self {
            Self::First(limit) => usize::try_from(limit).unwrap_or(usize::MAX),
            Self::All => usize::MAX,
        }
    }
}

/// What becomes of a task whose run failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailurePolicy {
    /// Failures at which a task is given up, by cause.
    pub budgets: Budgets,
    /// How long a task waits before it is tried again.
    pub backoff: Backoff,
    /// How long a task waits after its provider let it do no more.
    pub rate_limit_cooldown: Duration,
}

impl FailurePolicy {
    /// Returns the failures at which a task is given up whose run ended so; none:
    /// it is not a failure. Every end of a worker is one that did not bring the task
    /// on; a claim that ran out is none where there was no worker.
    pub fn limit(&self, run: &Run, outcome: Outcome) -> Option<u32> {
        self.budgets.of(outcome).filter(|_| run.process.is_some() || outcome != Outcome::Reclaimed)
    }
}

/// Failures at which a task is given up. A task's own `max_retries` takes the
/// place of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budgets {
    /// Crashes.
    pub crashed: u32,
    /// Runs that took too long.
    pub timed_out: u32,
    /// Workers that could not be started.
    pub spawn_failed: u32,
    /// Workers that ended without a word.
    pub no_report: u32,
    /// Workers of which nothing was heard.
    pub stale: u32,
    /// Runs that a provider stopped.
    pub rate_limited: u32,
    /// Workers that were stopped from outside, for an unknown reason.
    pub terminated: u32,
    /// Workers of other hosts whose lease was not renewed.
    pub reclaimed: u32,
}

impl Budgets {
    /// Returns the failures at which a task is given up for this cause; none:
    /// it is not a failure, however often it happens.
    pub const fn of(&self, cause: Outcome) -> Option<u32> {
        match cause {
            Outcome::Crashed => Some(self.crashed),
            Outcome::TimedOut => Some(self.timed_out),
            Outcome::SpawnFailed => Some(self.spawn_failed),
            Outcome::NoReport => Some(self.no_report),
            Outcome::Stale => Some(self.stale),
            Outcome::RateLimited => Some(self.rate_limited),
            Outcome::Terminated => Some(self.terminated),
            Outcome::Reclaimed => Some(self.reclaimed),
            Outcome::Completed
            | Outcome::Submitted
            | Outcome::ChangesRequested
            | Outcome::Blocked
            | Outcome::Scheduled => None,
        }
    }
}

/// How long a task waits before it is tried again: it doubles with each failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// After the first.
    pub first: Duration,
    /// At most.
    pub most: Duration,
}

impl Backoff {
    /// Returns how long it waits after so many failures.
    pub fn after(&self, failures: u32) -> Duration {
        let doubled = 1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
        self.first.saturating_mul(doubled).min(self.most)
    }
}

impl Default for FailurePolicy {
    fn default() -> Self {
        Self {
            budgets: Budgets {
                crashed: 2,
                timed_out: 2,
                spawn_failed: 2,
                no_report: 3,
                stale: 2,
                rate_limited: 20,
                terminated: 2,
                reclaimed: 2,
            },
            backoff: Backoff { first: Duration::from_secs(10), most: Duration::from_mins(10) },
            rate_limit_cooldown: Duration::from_mins(5),
        }
    }
}
