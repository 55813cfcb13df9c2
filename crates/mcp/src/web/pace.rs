//! How often a server's stream of news is opened again.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// The first wait, and the longest.
const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(30);

/// A stream that lasted so long was none that ends at once.
const LASTED: Duration = Duration::from_mins(1);

/// Slows down who opens a stream again and again. A server decides when its
/// stream ends and how soon the transport comes back: without this, one that
/// ends it at once would be asked as fast as the network allows.
#[derive(Debug, Clone, Default)]
pub(super) struct Pace(Arc<Mutex<Option<Last>>>);

#[derive(Debug)]
struct Last {
    opened: Instant,
    /// How often in a row it was opened again at once.
    quick: u32,
}

impl Pace {
    /// Waits until the stream may be opened.
    pub(super) async fn keep(&self) {
        let when = self.next(Instant::now());
        sleep_until(when).await;
    }

    fn next(&self, now: Instant) -> Instant {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (when, quick) = match &*last {
            Some(last) if now.saturating_duration_since(last.opened) < LASTED => {
                let wait = FIRST.saturating_mul(1 << last.quick.min(16)).min(LONGEST);
                (now + wait, last.quick + 1)
            }
            _ => (now, 0),
        };
        *last = Some(Last { opened: when, quick });
        when
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_that_ends_at_once_is_opened_less_and_less_often_and_one_that_lasts_at_once() {
        let pace = Pace::default();
        let mut now = Instant::now();
        let mut waits = Vec::new();
        for _ in 0..12 {
            let when = pace.next(now);
            waits.push((when - now).as_millis());
            now = when;
        }
        let expected = [0, 100, 200, 400, 800, 1600, 3200, 6400, 12800, 25600, 30000, 30000];
        assert_eq!(waits, expected);
        now += LASTED;
        assert_eq!(pace.next(now), now);
    }
}
