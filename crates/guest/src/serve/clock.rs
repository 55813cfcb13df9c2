//! The idle clock: when the sandbox was last of use to someone.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Whether a call is use of the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// It resets the idle clock.
    Counts,
    /// It only looks.
    Looks,
}

/// When the sandbox was last used, and how long it may lie idle.
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

    /// Notes use at this moment.
    pub(super) fn touch(&mut self) {
        self.last = Instant::now();
        self.last_wall_ms = wall_ms();
    }

    pub(super) fn call_opened(&mut self, kind: Use) {
        if kind == Use::Counts {
            self.open_calls += 1;
            self.touch();
        }
    }

    pub(super) fn call_closed(&mut self, kind: Use) {
        if kind == Use::Counts {
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

    /// Returns for how long nothing has been of use.
    pub(super) fn idle(&self) -> Duration {
        if self.in_use() { Duration::ZERO } else { self.last.elapsed() }
    }

    /// Returns how much idleness is left.
    pub(super) fn left(&self) -> Option<Duration> {
        self.retention.map(|retention| retention.saturating_sub(self.idle()))
    }

    /// Returns the moment at which the guest ends if nothing happens before.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looking_is_not_use_and_open_calls_and_jobs_are() {
        let mut clock = IdleClock::new(Some(Duration::from_mins(1)));
        let first = clock.ends_at();
        clock.call_opened(Use::Looks);
        clock.call_closed(Use::Looks);
        assert_eq!(clock.ends_at(), first);
        clock.call_opened(Use::Counts);
        assert_eq!((clock.ends_at(), clock.idle()), (None, Duration::ZERO));
        clock.job_began();
        clock.call_closed(Use::Counts);
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
