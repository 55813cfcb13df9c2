//! Repairs: what to do about a run, given whether its worker is alive.

use std::time::Duration;

use super::policy::DispatchPolicy;
use super::snapshot::{Liveness, WatchedRun};
use crate::id::RunId;
use crate::run::{Outcome, Run};
use crate::time::Time;

/// What to do about a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Repair {
    /// Its lease expired, but its worker is alive: extend it once.
    Extend {
        /// The run.
        run: RunId,
    },
    /// Stop its worker; once that is gone, the run ends with this outcome.
    Stop {
        /// The run.
        run: RunId,
        /// How it ends.
        outcome: Outcome,
        /// Why, in words.
        reason: String,
    },
    /// Its worker is gone; record the end.
    End {
        /// The run.
        run: RunId,
        /// How.
        outcome: Outcome,
        /// Why, in words.
        reason: String,
    },
    /// It ended before, and now its worker is gone.
    Gone {
        /// The run.
        run: RunId,
    },
}

impl Repair {
    /// Returns the run.
    pub const fn run(&self) -> RunId {
        match self {
            Self::Extend { run }
            | Self::Stop { run, .. }
            | Self::End { run, .. }
            | Self::Gone { run } => *run,
        }
    }

    /// Reports whether the run holds nothing after this.
    pub const fn frees(&self) -> bool {
        matches!(self, Self::End { .. } | Self::Gone { .. })
    }
}

/// The outcome that an exit code means, for a worker that recorded none on the board.
mod exit {
    pub(super) const DONE: i32 = 0;
    pub(super) const BLOCKED: i32 = 10;
    pub(super) const QUOTA: i32 = 75;
    pub(super) const NO_REPORT: i32 = 76;
    pub(super) const OUT_OF_TIME: i32 = 124;
    pub(super) const INTERRUPTED: i32 = 130;
    pub(super) const TERMINATED: i32 = 143;
}

/// Returns the outcome of a run whose worker is gone without recording one.
fn outcome_of(code: Option<i32>) -> (Outcome, String) {
    match code {
        // It says that it reported, and the board knows nothing of it.
        Some(code @ (exit::DONE | exit::BLOCKED | exit::NO_REPORT)) => {
            (Outcome::NoReport, format!("the worker ended without a report (exit code {code})"))
        }
        Some(exit::QUOTA) => {
            (Outcome::RateLimited, "the model's provider let the worker do no more".to_owned())
        }
        Some(exit::OUT_OF_TIME) => {
            (Outcome::TimedOut, "the worker took longer than it had".to_owned())
        }
        Some(exit::TERMINATED | exit::INTERRUPTED) => {
            (Outcome::Terminated, "a signal terminated the worker".to_owned())
        }
        Some(code) if code > 128 => {
            (Outcome::Crashed, format!("signal {} ended the worker", code - 128))
        }
        Some(code) => (Outcome::Crashed, format!("the worker ended with exit code {code}")),
        None => (Outcome::Crashed, "the worker is gone".to_owned()),
    }
}

/// Returns what to do about a run; `None` if nothing.
pub(super) fn of(watched: &WatchedRun, now: Time, policy: &DispatchPolicy) -> Option<Repair> {
    let run = &watched.run;
    if run.is_open() {
        return of_open(run, watched.life, now, policy);
    }
    let gone = Some(Repair::Gone { run: run.id });
    match watched.life {
        _ if run.gone => None,
        // A worker that has reported exits by itself.
        Liveness::Alive if run.expires_at > now => None,
        Liveness::Alive => Some(Repair::Stop {
            run: run.id,
            outcome: run.outcome.unwrap_or(Outcome::Reclaimed),
            reason: "its run has ended".to_owned(),
        }),
        Liveness::Gone { .. } | Liveness::Person => gone,
        // Its dispatcher may be about to start it; after the lease it is not.
        Liveness::Unknown => (run.expires_at <= now).then_some(Repair::Gone { run: run.id }),
        // Only its own host can prove it.
        Liveness::Foreign => None,
    }
}

fn of_open(run: &Run, life: Liveness, now: Time, policy: &DispatchPolicy) -> Option<Repair> {
    let id = run.id;
    let stop = |outcome, reason: String| Some(Repair::Stop { run: id, outcome, reason });
    let end = |outcome, reason: String| Some(Repair::End { run: id, outcome, reason });
    let expired = run.expires_at <= now;
    match (life, run.stopping) {
        (Liveness::Alive, Some(outcome)) => stop(outcome, error_or(run, "it is being stopped")),
        (Liveness::Gone { .. }, Some(outcome)) => end(outcome, error_or(run, "it was stopped")),
        (Liveness::Gone { code }, None) => {
            let (outcome, reason) = outcome_of(code);
            end(outcome, reason)
        }
        (Liveness::Alive, None) => {
            if let Some(limit) = run.max_runtime.filter(|limit| over(run.started_at, *limit, now)) {
                stop(Outcome::TimedOut, format!("it took longer than {} s", limit.as_secs()))
            } else if let Some(limit) = quiet(run, now, policy) {
                stop(Outcome::Stale, format!("it got nothing done for {} s", limit.as_secs()))
            } else if expired && run.graced {
                stop(Outcome::Stale, "it did not renew its lease".to_owned())
            } else {
                expired.then_some(Repair::Extend { run: id })
            }
        }
        _ if !expired => None,
        (Liveness::Foreign, _) => {
            let host = run.host_name().map_or_else(String::new, |name| format!(" by {name}"));
            end(Outcome::Reclaimed, format!("its lease was not renewed{host}"))
        }
        (Liveness::Person, _) => end(Outcome::Reclaimed, "the claim ran out".to_owned()),
        (Liveness::Unknown, _) => end(Outcome::Reclaimed, "its worker never reported".to_owned()),
    }
}

fn error_or(run: &Run, otherwise: &str) -> String {
    run.error.clone().unwrap_or_else(|| otherwise.to_owned())
}

fn over(since: Time, limit: Duration, now: Time) -> bool {
    since.after(limit) <= now
}

fn quiet(run: &Run, now: Time, policy: &DispatchPolicy) -> Option<Duration> {
    let last = run.activity_at.map_or(run.started_at, |at| at.max(run.started_at));
    policy.stale_after.filter(|limit| over(last, *limit, now))
}

/// Reports whether a run counts against the caps: it continues, or something of
/// its worker may.
///
/// What another host does not prove is believed for one more lease: its worker
/// finds itself fenced by then, or the host is gone, and a host that never comes
/// back must not hold a slot for ever.
pub(super) fn counts(watched: &WatchedRun, now: Time, policy: &DispatchPolicy) -> bool {
    let run = &watched.run;
    run.is_open()
        || !run.gone
            && (watched.life != Liveness::Foreign || run.expires_at.after(policy.lease) > now)
}

/// Reports whether a run takes a slot, as far as can be seen from here. It does
/// not once it is over and only the books of its board are to be put right:
/// that may never happen, and the slot is free all the same.
pub fn takes_slot(watched: &WatchedRun, now: Time, policy: &DispatchPolicy) -> bool {
    let freed = of(watched, now, policy).is_some_and(|repair| repair.frees());
    !freed && counts(watched, now, policy)
}

#[cfg(test)]
#[path = "repair_tests.rs"]
mod tests;
