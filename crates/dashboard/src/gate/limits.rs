//! How often somebody may try.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Callers that are remembered. Beyond that the oldest windows are forgotten first, so that a flood
/// of addresses takes no memory.
const MAX_CALLERS: usize = 4096;

/// Counts attempts per caller in windows of a fixed length.
#[derive(Debug)]
pub(crate) struct Limiter<K> {
    max: u32,
    window: Duration,
    callers: Mutex<HashMap<K, (Instant, u32)>>,
}

impl<K: Eq + Hash + Clone> Limiter<K> {
    pub(crate) fn new(max: u32, window: Duration) -> Self {
        Self { max, window, callers: Mutex::new(HashMap::new()) }
    }

    /// Counts an attempt. Returns how long to wait where there were too many.
    pub(crate) fn attempt(&self, caller: K, now: Instant) -> Result<(), Duration> {
        let mut callers = self.lock();
        if callers.len() >= MAX_CALLERS && !callers.contains_key(&caller) {
            let window = self.window;
            callers.retain(|_, (began, _)| now.duration_since(*began) < window);
            if callers.len() >= MAX_CALLERS
                && let Some(oldest) = callers.iter().min_by_key(|(_, (began, _))| *began)
            {
                let oldest = oldest.0.clone();
                callers.remove(&oldest);
            }
        }
        let (began, count) = callers.entry(caller).or_insert((now, 0));
        if now.duration_since(*began) >= self.window {
            (*began, *count) = (now, 0);
        }
        if *count >= self.max {
            return Err(self.window.saturating_sub(now.duration_since(*began)));
        }
        *count += 1;
        Ok(())
    }

    /// Forgets the attempts of a caller: one of them succeeded.
    pub(crate) fn forgive(&self, caller: &K) {
        self.lock().remove(caller);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<K, (Instant, u32)>> {
        self.callers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_are_counted_per_caller_and_window() {
        let limiter = Limiter::new(2, Duration::from_mins(1));
        let start = Instant::now();
        assert_eq!(limiter.attempt("a", start), Ok(()));
        assert_eq!(limiter.attempt("a", start), Ok(()));
        assert_eq!(limiter.attempt("a", start), Err(Duration::from_mins(1)));
        assert_eq!(limiter.attempt("b", start), Ok(()), "another caller is not concerned");
        let later = start + Duration::from_mins(1);
        assert_eq!(limiter.attempt("a", later), Ok(()), "the next window begins anew");
        limiter.forgive(&"a");
        assert_eq!(limiter.attempt("a", later), Ok(()));
    }

    #[test]
    fn a_flood_of_callers_takes_bounded_memory() {
        let limiter = Limiter::new(1, Duration::from_mins(1));
        let start = Instant::now();
        for caller in 0..2 * MAX_CALLERS {
            assert_eq!(limiter.attempt(caller, start), Ok(()));
        }
        assert_eq!(limiter.lock().len(), MAX_CALLERS);
    }
}
