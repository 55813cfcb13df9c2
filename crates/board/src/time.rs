//! Points in time, and the clock of a store.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use serde::Serialize;

/// A moment in milliseconds since 1970, UTC, by the store's clock. As JSON
/// it is in whole seconds, as the tools around boards expect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(i64);

impl Time {
    /// Returns the moment this many milliseconds after 1970.
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Returns this moment by the clock of this machine.
    pub fn now() -> Self {
        Self(jiff::Timestamp::now().as_millisecond())
    }

    /// Returns the milliseconds since 1970.
    pub const fn millis(self) -> i64 {
        self.0
    }

    /// Returns the whole seconds since 1970.
    pub const fn seconds(self) -> i64 {
        self.0.div_euclid(1000)
    }

    /// Returns the moment this much later.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)))
    }

    /// Returns how long before `later` this was; nothing where it was not.
    pub fn until(self, later: Self) -> Duration {
        Duration::from_millis(u64::try_from(later.0.saturating_sub(self.0)).unwrap_or(0))
    }
}

impl Serialize for Time {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_i64(self.seconds())
    }
}

/// What a store tells the time by. Clones are the same clock.
#[derive(Clone, Default)]
pub struct Clock {
    /// The moment of a clock that is moved by hand; none: the machine's clock.
    set: Option<Arc<AtomicI64>>,
}

impl Clock {
    /// Returns the clock of this machine.
    pub const fn system() -> Self {
        Self { set: None }
    }

    /// Returns a clock that stands still until it is moved by [`Self::advance`].
    pub fn at(moment: Time) -> Self {
        Self { set: Some(Arc::new(AtomicI64::new(moment.millis()))) }
    }

    /// Returns the moment.
    pub fn now(&self) -> Time {
        match &self.set {
            Some(set) => Time::from_millis(set.load(Ordering::SeqCst)),
            None => Time::now(),
        }
    }

    /// Moves a clock that is moved by hand; the machine's clock moves by itself.
    pub fn advance(&self, by: Duration) {
        if let Some(set) = &self.set {
            let millis = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
            set.fetch_add(millis, Ordering::SeqCst);
        }
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.set.is_some() { "Clock(set)" } else { "Clock(system)" })
    }
}
