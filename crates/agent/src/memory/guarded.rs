//! Calls somebody else's code so that nothing it does reaches further.

use std::time::Duration;

use tokio::task::JoinSet;

/// Why a call came to nothing.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Trouble {
    /// It took too long.
    #[error("no answer within {}", seconds(*.0))]
    Late(Duration),
    /// It panicked.
    #[error("it panicked")]
    Panicked,
    /// It said so itself.
    #[error("{0}")]
    Failed(String),
}

/// Waits for a call, in a task of its own: where panics unwind, one ends that
/// task alone, and a call that takes too long, or that nobody waits for any more,
/// is dropped.
pub(super) async fn guarded<T: Send + 'static>(
    patience: Duration,
    call: impl Future<Output = Result<T, String>> + Send + 'static,
) -> Result<T, Trouble> {
    let mut task = JoinSet::new();
    task.spawn(call);
    match tokio::time::timeout(patience, task.join_next()).await {
        Err(_) => Err(Trouble::Late(patience)),
        Ok(Some(Ok(said))) => said.map_err(Trouble::Failed),
        Ok(Some(Err(_)) | None) => Err(Trouble::Panicked),
    }
}

fn seconds(time: Duration) -> String {
    format!("{} s", time.as_secs_f64())
}
