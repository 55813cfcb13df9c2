//! What schedules tell the time by.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use jiff::Timestamp;

/// The wall clock, or one that tests set. Clones are the same clock.
#[derive(Debug, Clone, Default)]
pub struct ScheduleClock {
    /// Milliseconds since 1970 of a clock that is set by hand; none: the machine's clock.
    set: Option<Arc<AtomicI64>>,
}

impl ScheduleClock {
    /// Returns the clock of this machine.
    pub const fn system() -> Self {
        Self { set: None }
    }

    /// Returns a clock that stands still until it is [set](Self::set).
    pub fn at(now: Timestamp) -> Self {
        Self { set: Some(Arc::new(AtomicI64::new(now.as_millisecond()))) }
    }

    /// Returns the time.
    pub fn now(&self) -> Timestamp {
        match &self.set {
            Some(set) => Timestamp::from_millisecond(set.load(Ordering::SeqCst))
                .unwrap_or(Timestamp::UNIX_EPOCH),
            None => Timestamp::now(),
        }
    }

    /// Sets a clock that is set by hand; the machine's clock goes by itself.
    pub fn set(&self, now: Timestamp) {
        if let Some(set) = &self.set {
            set.store(now.as_millisecond(), Ordering::SeqCst);
        }
    }
}
