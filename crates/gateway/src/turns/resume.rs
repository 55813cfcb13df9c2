//! Takes up what earlier processes left: turns that were cut off or interrupted, and background
//! jobs that conversations wait for.

use std::sync::Arc;
use std::time::Duration;

use vestal_agent::EventSink;
use vestal_conversations::ConversationId;

use super::{Turn, Turns, run};
use crate::failpoint;
use crate::state::{ListenerPhase, StateFile};
use crate::unfinished::{Commitment, Leftover, UnfinishedTurn};

/// The name of this part in the state. It is there only when it has something to tell.
const NAME: &str = "resume";

impl Turns {
    /// Takes up what earlier processes left, in the background: nothing that is served waits for it.
    pub(crate) fn take_up(&self, state: Arc<StateFile>) {
        let turns = self.clone();
        self.0.tasks.spawn(async move { turns.take_up_all(&state).await });
    }

    async fn take_up_all(&self, state: &StateFile) {
        let left = match Commitment::all(self.store()).await {
            Ok(left) => left,
            Err(error) => {
                tracing::error!(%error, "cannot look for turns that were not finished");
                report(state, "resume_failed", error.to_string());
                return;
            }
        };
        let mut alone = Vec::new();
        for (id, Commitment { turn, .. }) in left {
            let decision = turn.as_ref().map_or(Leftover::Unwanted, UnfinishedTurn::leftover);
            match (decision, turn) {
                (Leftover::LeaveAlone, _) => alone.push(id.to_string()),
                (Leftover::Resume { after }, Some(turn)) => {
                    let turns = self.clone();
                    self.0.tasks.spawn(async move {
                        Box::pin(turns.resume(id, turn, after)).await;
                    });
                }
                (Leftover::Unwanted | Leftover::Resume { .. }, _) => {
                    let turns = self.clone();
                    self.0.tasks.spawn(async move { Box::pin(turns.watch_again(id)).await });
                }
            }
        }
        if !alone.is_empty() {
            let text = format!(
                "the gateway died three times over a turn, which is not resumed again; say something in the conversation to go on: {}",
                alone.join(", ")
            );
            tracing::error!("{text}");
            report(state, "turn_left_alone", text);
        }
    }

    /// Waits for the background jobs of a conversation as an earlier process did.
    async fn watch_again(&self, id: ConversationId) {
        let stop = self.0.draining.child_token();
        let Some((running, conversation)) = self.claim(&id, &stop).await else { return };
        let jobs = self.leave(conversation).await;
        drop(running);
        if let Some(jobs) = jobs {
            self.watch_jobs(id, jobs);
        }
    }

    /// Goes on with a turn, unless somebody else has done so, or has said something else since.
    async fn resume(&self, id: ConversationId, turn: UnfinishedTurn, after: Duration) {
        let stop = self.0.draining.child_token();
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = tokio::time::sleep(after) => {}
        }
        let Some((running, mut conversation)) = self.claim(&id, &stop).await else { return };
        let messages = match self.store().messages(&id).await {
            Ok(messages) => messages,
            Err(error) => {
                tracing::error!(conversation = %id, %error, "a turn cannot be resumed");
                return;
            }
        };
        let jobs = if turn.is_open(&messages) {
            let (note, turn) = (turn.note(), turn.resumed());
            if let Err(error) = Commitment::store(self.store(), &id, Some(&turn)).await {
                tracing::error!(conversation = %id, %error, "a turn cannot be resumed");
                return;
            }
            failpoint::reach("turn.recorded");
            tracing::info!(conversation = %id, "a turn that was not finished is resumed");
            let (sink, interrupt) = (EventSink::new(|event| event.log()), self.interrupt());
            let result = run(&mut conversation, Turn::Resume(note), &sink, &interrupt).await;
            self.conclude(conversation, turn, &result, &interrupt).await
        } else {
            self.leave(conversation).await
        };
        drop(running);
        if let Some(jobs) = jobs {
            self.watch_jobs(id, jobs);
        }
    }
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
