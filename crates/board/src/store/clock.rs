//! What a store tells the time by.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use crate::time::Time;

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
