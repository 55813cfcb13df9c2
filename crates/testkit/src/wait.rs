//! Waits for actions of another process.

use std::time::Duration;

use tokio::time::Instant;

/// The longest time a test waits. Far more than needed: only a broken promise takes as long.
pub const PATIENCE: Duration = Duration::from_mins(2);

const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// Waits until a condition holds.
pub async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    until_async(what, || std::future::ready(is_so())).await;
}

/// Waits until an asynchronous condition holds.
pub async fn until_async<F: Future<Output = bool>>(what: &str, mut is_so: impl FnMut() -> F) {
    let deadline = Instant::now() + PATIENCE;
    let mut pause = FIRST_PAUSE;
    while !is_so().await {
        assert!(Instant::now() < deadline, "never came true: {what}");
        tokio::time::sleep(pause).await;
        // Checking costs time too, so a long wait checks less often.
        pause = (pause * 5 / 4).min(LONGEST_PAUSE);
    }
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
}
