//! Deadlines on the monotonic clock.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::ids::{Address, JobKey};

/// What a deadline is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Timer {
    /// The job's time is up.
    JobTimeout(JobKey),
    /// A caller has waited long enough.
    WaitOver(Address),
    /// A spare supervisor is worth having.
    Spare,
    /// Orphans are to be looked for again.
    Sweep,
    /// New connections can be tried again.
    Accept,
    /// Whether anybody can still find the guest is to be looked at.
    Door,
}

/// A deadline that can be called off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TimerId(Instant, u64);

/// All deadlines.
#[derive(Debug, Default)]
pub(super) struct Timers {
    queue: BTreeMap<TimerId, Timer>,
    next: u64,
}

impl Timers {
    /// Sets a deadline. One too far away for the clock is none.
    pub(super) fn set(&mut self, after: Duration, timer: Timer) -> Option<TimerId> {
        let id = TimerId(Instant::now().checked_add(after)?, self.next);
        self.next += 1;
        self.queue.insert(id, timer);
        Some(id)
    }

    pub(super) fn cancel(&mut self, id: TimerId) {
        self.queue.remove(&id);
    }

    /// Returns the next deadline.
    pub(super) fn next_at(&self) -> Option<Instant> {
        self.queue.first_key_value().map(|(id, _)| id.0)
    }

    /// Takes one deadline that is over.
    pub(super) fn pop(&mut self, now: Instant) -> Option<Timer> {
        let entry = self.queue.first_entry()?;
        (entry.key().0 <= now).then(|| entry.remove())
    }
}
