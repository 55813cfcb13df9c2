//! Work that several requests ask for at the same time, done once for all of them.
//!
//! Every open page is told of a change at once, and each asks for the same list. Whoever asks gets what was
//! found out after they asked, never before: a page that has just changed something sees the change.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Mutex;

/// What was found out last, and by which turn.
#[derive(Debug)]
struct Found<T> {
    turn: u64,
    value: Option<Arc<T>>,
}

/// Work that is done one turn after the other.
#[derive(Debug)]
pub(crate) struct SharedWork<T> {
    /// Turns that were begun.
    begun: AtomicU64,
    /// Locked while a turn runs.
    last: Mutex<Found<T>>,
}

impl<T> Default for SharedWork<T> {
    fn default() -> Self {
        Self { begun: AtomicU64::new(0), last: Mutex::new(Found { turn: 0, value: None }) }
    }
}

impl<T> SharedWork<T> {
    /// Returns what a turn has found out that began after this call: this caller's own, or that of
    /// another who waited as well. One that fails is the caller's own failure.
    pub(crate) async fn done<E>(
        &self,
        work: impl AsyncFnOnce() -> Result<T, E>,
    ) -> Result<Arc<T>, E> {
        let asked = self.begun.load(Ordering::SeqCst);
        let mut last = self.last.lock().await;
        if last.turn > asked
            && let Some(value) = &last.value
        {
            return Ok(Arc::clone(value));
        }
        let turn = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
        let value = Arc::new(work().await?);
        *last = Found { turn, value: Some(Arc::clone(&value)) };
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use tokio::sync::Semaphore;

    use super::*;

    #[tokio::test]
    async fn who_asks_meanwhile_shares_the_next_turn_and_gets_nothing_older() {
        let (work, gate) = (Arc::new(SharedWork::default()), Arc::new(Semaphore::new(0)));
        let count = Arc::new(AtomicU64::new(0));
        let ask = || {
            let (work, gate, count) = (Arc::clone(&work), Arc::clone(&gate), Arc::clone(&count));
            tokio::spawn(async move {
                let turn = async || {
                    let number = count.fetch_add(1, Ordering::SeqCst) + 1;
                    gate.acquire().await.unwrap().forget();
                    Ok::<_, Infallible>(number)
                };
                let Ok(value) = work.done(turn).await;
                *value
            })
        };
        let first = ask();
        vestal_testkit::until("the first turn runs", || count.load(Ordering::SeqCst) == 1).await;
        let others = [ask(), ask(), ask()];
        // They have all asked once they wait for the lock.
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        gate.add_permits(1);
        assert_eq!(first.await.unwrap(), 1);
        gate.add_permits(1);
        for other in others {
            assert_eq!(other.await.unwrap(), 2, "one turn for all who waited");
        }
        gate.add_permits(1);
        assert_eq!(ask().await.unwrap(), 3, "what was found out before is not told again");
    }

    #[tokio::test]
    async fn a_turn_that_fails_is_the_failure_of_its_caller_alone() {
        let work = SharedWork::<u64>::default();
        assert_eq!(work.done(async || Err("no")).await, Err("no"));
        assert_eq!(work.done(async || Ok::<_, &str>(7)).await, Ok(Arc::new(7)));
    }
}
