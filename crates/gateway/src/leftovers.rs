//! Takes up what earlier processes left: turns that were cut off or interrupted, runs, and background
//! jobs that conversations wait for. Each is decided about once, here.

use std::sync::Arc;
use std::time::Duration;

use vestal_conversations::ConversationId;

use crate::panics::caught;
use crate::runs::Runs;
use crate::state::{ListenerPhase, StateFile};
use crate::turns::Turns;
use crate::unfinished::{Commitment, Leftover, UnfinishedTurn};

/// The name of this part in the state. It is there only when it has something to tell.
const NAME: &str = "resume";

/// The first and the longest pause before conversations that cannot be read are tried again.
const READ_PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));

/// Takes up what earlier processes left, in the background: nothing that is served waits for it.
/// Without `runs`, turns of runs stay as they are: nobody could ask about them.
pub(crate) fn take_up(turns: &Turns, runs: Option<Runs>, state: Arc<StateFile>) {
    let own = turns.clone();
    turns.spawn(async move { take_up_all(own, runs, &state).await });
}

async fn take_up_all(turns: Turns, runs: Option<Runs>, state: &StateFile) {
    let Some(left) = read_all(&turns, state).await else { return };
    let mut alone = Vec::new();
    for (id, Commitment { turn, .. }) in left {
        let decision = turn.as_ref().map_or(Leftover::Unwanted, UnfinishedTurn::leftover);
        match (decision, turn) {
            (Leftover::LeaveAlone, turn) => {
                let run = turn.as_ref().and_then(UnfinishedTurn::run);
                if let (Some(runs), Some(run)) = (&runs, run) {
                    runs.give_up(run).await;
                }
                alone.push(id.to_string());
            }
            (Leftover::Resume { after }, Some(turn)) if turn.run().is_none() => {
                spawn(&turns, |turns| async move { turns.resume(id, turn, after).await });
            }
            (Leftover::Resume { after }, Some(turn)) => {
                if let Some(runs) = &runs
                    && let Err(id) = runs.resume(id, turn, after)
                {
                    watch_again(&turns, id);
                }
            }
            (Leftover::Unwanted | Leftover::Resume { .. }, _) => watch_again(&turns, id),
        }
    }
    if let Some(runs) = &runs {
        runs.end_lost().await;
    }
    if !alone.is_empty() {
        let text = format!(
            "the gateway died three times over a turn, which is not resumed again; send a message in the conversation to go on: {}",
            alone.join(", ")
        );
        tracing::error!("{text}");
        report(state, "turn_left_alone", text);
    }
}

/// Reads what is on record, as soon as that is possible; nothing if the gateway ends first.
async fn read_all(turns: &Turns, state: &StateFile) -> Option<Vec<(ConversationId, Commitment)>> {
    let mut pause = READ_PAUSES.0;
    loop {
        match Commitment::all(turns.store()).await {
            Ok(left) => {
                if pause > READ_PAUSES.0 {
                    state.remove_listener(NAME);
                }
                return Some(left);
            }
            Err(error) => {
                tracing::error!(%error, "cannot look for turns that were not finished");
                report(state, "resume_failed", format!("{error}; it is tried again"));
            }
        }
        tokio::select! {
            biased;
            () = turns.draining() => return None,
            () = tokio::time::sleep(pause) => pause = (pause * 2).min(READ_PAUSES.1),
        }
    }
}

fn watch_again(turns: &Turns, id: ConversationId) {
    spawn(turns, |turns| async move { turns.watch_again(id).await });
}

fn spawn<F: Future<Output = ()> + Send + 'static>(turns: &Turns, work: impl FnOnce(Turns) -> F) {
    let work = Box::pin(work(turns.clone()));
    turns.spawn(async move {
        caught("unfinished work of an earlier process is not continued", work).await;
    });
}

/// Says in the state what an operator should know. It does not make the gateway degraded: all that
/// is asked of it from now on is served.
fn report(state: &StateFile, code: &str, message: String) {
    state.listener(NAME, |part| {
        part.state = ListenerPhase::Stopped;
        part.error_code = Some(code.to_owned());
        part.error_message = Some(message);
    });
}
