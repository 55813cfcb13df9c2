//! Waits for actions of another process.

use std::time::{Duration, Instant as BlockingInstant};

use tokio::time::Instant;

/// The longest time a test waits. Far more than needed: only a broken promise takes as long.
pub const TEST_TIMEOUT: Duration = Duration::from_mins(2);

const FIRST_PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// Waits until a condition holds.
pub async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    until_async(what, || std::future::ready(is_so())).await;
}

/// Waits until an asynchronous condition holds.
pub async fn until_async<F: Future<Output = bool>>(what: &str, mut is_so: impl FnMut() -> F) {
    let deadline = Instant::now() + TEST_TIMEOUT;
    let mut pause = FIRST_PAUSE;
    while !is_so().await {
        assert!(Instant::now() < deadline, "never came true: {what}");
        tokio::time::sleep(pause).await;
        pause = next(pause);
    }
}

/// Waits until a condition holds, in a test without a runtime.
#[track_caller]
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    wait_for(what, || is_so().then_some(()));
}

/// Waits until `look` finds something, and returns it.
#[track_caller]
pub fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = BlockingInstant::now() + TEST_TIMEOUT;
    let mut pause = FIRST_PAUSE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(BlockingInstant::now() < deadline, "never came true: {what}");
        std::thread::sleep(pause);
        pause = next(pause);
    }
}

/// Returns the pause after one. Checking costs time too, so a long wait checks less often.
fn next(pause: Duration) -> Duration {
    (pause * 5 / 4).min(LONGEST_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_never_comes_true_fails_with_its_name() {
        let waiting = tokio::spawn(until("the moon is cheese", || false));
        let message = waiting.await.unwrap_err().into_panic();
        let message = message.downcast_ref::<String>().unwrap();
        assert_eq!(message, "never came true: the moon is cheese");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_so_ends_the_wait() {
        let mut looks = 0;
        until("looked at three times", || {
            looks += 1;
            looks == 3
        })
        .await;
        assert_eq!(looks, 3);
    }

    #[test]
    fn what_is_found_ends_the_wait_without_a_runtime() {
        let mut looks = 0;
        let found = wait_for("looked at three times", || {
            looks += 1;
            (looks == 3).then_some("it")
        });
        assert_eq!(found, "it");
    }
}
