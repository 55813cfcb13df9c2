//! Hosts the dispatcher of the boards.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use vestal_dispatcher::{Dispatcher, OpenBoards, WatchLock};

use crate::state::{ListenerPhase, StateFile};

/// The name of this part in the state.
pub(crate) const NAME: &str = "dispatcher";

/// How long after the start of the gateway workers may be started: a gateway that is started
/// briefly, or in a loop, should not start work of the board.
const START_DELAY: Duration = Duration::from_secs(5);

/// The first and the longest pause after a failure.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));

/// A dispatcher with the boards it is for.
pub struct DispatcherHost {
    /// The dispatcher, with the caps and the host lock that `vestal kanban dispatch` has.
    pub dispatcher: Dispatcher,
    /// The boards.
    pub boards: OpenBoards,
    /// Makes the lock that shows that the boards are watched.
    pub watch_lock: Box<dyn Fn() -> vestal_board::Result<WatchLock> + Send + Sync>,
}

impl fmt::Debug for DispatcherHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DispatcherHost")
    }
}

impl DispatcherHost {
    /// Dispatches until `stop`. A failure is on record and tried again; it does not end anything
    /// else of the gateway. Workers go on after this returns.
    pub(crate) async fn run(self, state: Arc<StateFile>, stop: CancellationToken) {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(START_DELAY) => {}
        }
        let mut pause = PAUSES.0;
        while !stop.is_cancelled() {
            let failed = match (self.watch_lock)() {
                Ok(_lock) => {
                    state.listener(NAME, |listener| {
                        listener.state = ListenerPhase::Connected;
                        (listener.error_code, listener.error_message) = (None, None);
                    });
                    self.dispatcher.watch(&self.boards, stop.clone().cancelled_owned()).await
                }
                Err(error) => Err(error),
            };
            let Err(error) = failed else { break };
            tracing::error!(%error, "the dispatcher failed; it is started again");
            state.listener(NAME, |listener| {
                listener.state = ListenerPhase::Failed;
                listener.error_code = Some("dispatcher_failed".to_owned());
                listener.error_message = Some(error.to_string());
            });
            tokio::select! {
                () = stop.cancelled() => break,
                () = tokio::time::sleep(pause) => pause = (pause * 2).min(PAUSES.1),
            }
        }
        state.listener(NAME, |listener| listener.state = ListenerPhase::Stopped);
    }
}
