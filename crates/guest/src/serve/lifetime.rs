//! How long a guest lives: the idle clock, and the orderly shutdown.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use vestal_wire::{CallReply, FaultCode};

use super::connections::OpenCall;
use super::guest::Guest;
use super::jobs::{KillReason, RecordedPhase};
use super::reactor::ChannelId;
use crate::failpoint::failpoint;

/// Default time between SIGTERM and SIGKILL.
pub(super) const STOP_GRACE: Duration = Duration::from_secs(5);

/// How long to wait for killed processes before the guest ends without them.
const KILL_LIMIT: Duration = Duration::from_secs(20);

/// How long to wait until final replies are read.
const FINAL_REPLIES: Duration = Duration::from_secs(1);

/// Whether a call counts as use of the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallKind {
    /// It resets the idle clock.
    Use,
    /// It only observes.
    Observe,
}

/// The time of the last use, and how long the sandbox may stay idle.
#[derive(Debug)]
pub(super) struct IdleClock {
    started: Instant,
    last: Instant,
    last_wall_ms: u64,
    open_calls: usize,
    jobs_running: usize,
    retention: Option<Duration>,
}

impl IdleClock {
    pub(super) fn new(retention: Option<Duration>) -> Self {
        let now = Instant::now();
        Self {
            started: now,
            last: now,
            last_wall_ms: wall_ms(),
            open_calls: 0,
            jobs_running: 0,
            retention,
        }
    }

    pub(super) const fn set_retention(&mut self, retention: Option<Duration>) {
        self.retention = retention;
    }

    /// Records use at this moment.
    pub(super) fn touch(&mut self) {
        self.last = Instant::now();
        self.last_wall_ms = wall_ms();
    }

    pub(super) fn call_opened(&mut self, kind: CallKind) {
        if kind == CallKind::Use {
            self.open_calls += 1;
            self.touch();
        }
    }

    pub(super) fn call_closed(&mut self, kind: CallKind) {
        if kind == CallKind::Use {
            self.open_calls = self.open_calls.saturating_sub(1);
            self.touch();
        }
    }

    pub(super) fn job_began(&mut self) {
        self.jobs_running += 1;
        self.touch();
    }

    pub(super) fn job_ended(&mut self) {
        self.jobs_running = self.jobs_running.saturating_sub(1);
        self.touch();
    }

    /// Returns how many jobs run.
    pub(super) const fn jobs_running(&self) -> usize {
        self.jobs_running
    }

    /// Returns how long the guest has been up.
    pub(super) fn up(&self) -> Duration {
        self.started.elapsed()
    }

    /// Returns the last use in milliseconds of Unix time.
    pub(super) fn last_used_ms(&self) -> u64 {
        if self.in_use() { wall_ms() } else { self.last_wall_ms }
    }

    /// Returns how long the sandbox has been idle.
    pub(super) fn idle(&self) -> Duration {
        if self.in_use() { Duration::ZERO } else { self.last.elapsed() }
    }

    /// Returns the idle time left.
    pub(super) fn left(&self) -> Option<Duration> {
        self.retention.map(|retention| retention.saturating_sub(self.idle()))
    }

    /// Returns when the guest ends if nothing happens before.
    pub(super) fn ends_at(&self) -> Option<Instant> {
        if self.in_use() { None } else { self.last.checked_add(self.retention?) }
    }

    const fn in_use(&self) -> bool {
        self.open_calls > 0 || self.jobs_running > 0
    }
}

/// Returns the milliseconds of Unix time.
pub(super) fn wall_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// A shutdown in progress.
#[derive(Debug)]
pub(super) struct Shutdown {
    stage: ShutdownStage,
    until: Instant,
    callers: Vec<ChannelId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ShutdownStage {
    /// Jobs got SIGTERM.
    Asked,
    /// Jobs are being killed.
    Killed,
}

impl Shutdown {
    /// Returns when the next stage begins.
    pub(super) const fn next_step(&self) -> Instant {
        self.until
    }

    pub(super) fn forget(&mut self, caller: ChannelId) {
        self.callers.retain(|at| *at != caller);
    }
}

impl Guest {
    /// Handles a shutdown request.
    pub(super) fn shutdown(&mut self, at: ChannelId, kind: CallKind, grace_ms: u64, if_idle: bool) {
        if if_idle && self.shutdown.is_none() {
            let running = self.connections.clock.jobs_running();
            if running > 0 {
                let what = if running == 1 { "job runs" } else { "jobs run" };
                return self.connections.fault(at, FaultCode::Busy, format!("{running} {what}"));
            }
            if self.connections.others_busy(at.conn) {
                return self.connections.fault(
                    at,
                    FaultCode::Busy,
                    "another client's call is open",
                );
            }
        }
        self.connections.open(at, OpenCall::Shutdown, kind);
        self.begin_shutdown(Duration::from_millis(grace_ms));
        if let Some(ending) = &mut self.shutdown {
            ending.callers.push(at);
        }
    }

    /// Begins the shutdown: no job starts any more, and running jobs get SIGTERM.
    /// A second call can only shorten the grace period.
    pub(super) fn begin_shutdown(&mut self, grace: Duration) {
        let now = Instant::now();
        let until = now.checked_add(grace).unwrap_or(now);
        if let Some(ending) = &mut self.shutdown {
            if ending.stage == ShutdownStage::Asked {
                ending.until = ending.until.min(until);
            }
            return;
        }
        failpoint!("guest.shutdown.begin");
        self.shutdown = Some(Shutdown { stage: ShutdownStage::Asked, until, callers: Vec::new() });
        for key in self.jobs.live_keys() {
            let Some(live) = self.jobs.get(key).and_then(|job| job.live.as_deref()) else {
                continue;
            };
            if live.phase == RecordedPhase::Waiting {
                self.kill_job(key, KillReason::Caller, Duration::ZERO);
            } else if let Some(supervisor) = live.supervisor.and_then(|id| self.pool.get_mut(id)) {
                // A job that cannot be signalled is killed later.
                supervisor.signal(libc::SIGTERM).ok();
            }
        }
    }

    /// Advances the shutdown. Returns whether the loop is done.
    pub(super) fn shutdown_step(&mut self) -> bool {
        let Some(ending) = &mut self.shutdown else {
            return false;
        };
        let now = Instant::now();
        let keys = self.jobs.live_keys();
        let left: Vec<_> = keys
            .into_iter()
            .filter(|key| self.jobs.get(*key).is_some_and(|job| !job.is_gone()))
            .collect();
        if left.is_empty() {
            failpoint!("guest.shutdown.after-kill");
            return true;
        }
        if now < ending.until {
            return false;
        }
        if ending.stage == ShutdownStage::Killed {
            crate::diagnostics::note("some processes survived SIGKILL; shutting down without them");
            return true;
        }
        ending.stage = ShutdownStage::Killed;
        ending.until = now + KILL_LIMIT;
        for key in left {
            self.kill_job(key, KillReason::Caller, Duration::ZERO);
        }
        false
    }

    /// Replies to the callers that requested the shutdown, and waits a moment for
    /// them to read.
    pub(super) fn send_final_replies(&mut self) {
        let callers = self.shutdown.take().map_or_else(Vec::new, |ending| ending.callers);
        for key in self.jobs.live_keys() {
            self.pump(key);
        }
        for caller in callers {
            self.connections.reply(caller, &CallReply::Done);
        }
        let deadline = Instant::now() + FINAL_REPLIES;
        for id in self.connections.ids() {
            self.connections.mark_dirty(id);
        }
        self.flush();
        while Instant::now() < deadline && self.connections.is_unread() {
            std::thread::sleep(Duration::from_millis(2));
            for id in self.connections.ids() {
                self.connections.mark_dirty(id);
            }
            self.flush();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looking_is_not_use_and_open_calls_and_jobs_are() {
        let mut clock = IdleClock::new(Some(Duration::from_mins(1)));
        let first = clock.ends_at();
        clock.call_opened(CallKind::Observe);
        clock.call_closed(CallKind::Observe);
        assert_eq!(clock.ends_at(), first);
        clock.call_opened(CallKind::Use);
        assert_eq!((clock.ends_at(), clock.idle()), (None, Duration::ZERO));
        clock.job_began();
        clock.call_closed(CallKind::Use);
        assert_eq!(clock.ends_at(), None);
        clock.job_ended();
        assert!(clock.ends_at() > first);
    }

    #[test]
    fn without_retention_it_never_ends() {
        let mut clock = IdleClock::new(None);
        assert_eq!((clock.ends_at(), clock.left()), (None, None));
        clock.set_retention(Some(Duration::ZERO));
        assert!(clock.ends_at() <= Some(Instant::now()));
    }
}
