//! Continues what an earlier process left in a conversation.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use vestal_agent::{Conversation, Human, NoHuman};
use vestal_conversations::{ConversationId, Seq};

use super::Turns;
use super::admission::{AdmittedWork, InProgress};
use super::handle::StartedTurn;
use super::job_news::Unclaimed;
use super::running::{RecordedTurn, TurnStart, Watching, spawn_caught};
use crate::failpoint;
use crate::unfinished::{Commitment, TurnStanding, UnfinishedTurn};

/// The outcome of a turn that was to be resumed for its owner.
#[derive(Debug)]
pub(crate) enum Resumption {
    /// It goes on.
    Started(StartedTurn),
    /// It was not wanted any more before it could go on; its record is as it was.
    Stopped,
    /// It cannot go on, for this reason.
    Impossible(String),
}

/// What a conversation that was opened again has to continue.
enum FoundTurn {
    Turn(Box<RecordedTurn>, TurnStart),
    /// Nothing; it is closed.
    Nothing,
}

impl Turns {
    /// Waits for the background jobs of a conversation as an earlier process did.
    pub(crate) async fn watch_again(&self, id: ConversationId) {
        let stop = self.admission().draining().child_token();
        let claimed = self.claim(&id, AdmittedWork::Leftover, Arc::new(NoHuman), &stop).await;
        let (in_progress, conversation) = match claimed {
            Ok(claimed) => claimed,
            Err(error) => return error.log(&id),
        };
        let jobs = self.leave(conversation, Watching::GoesOn).await;
        drop(in_progress);
        if let Some(jobs) = jobs {
            self.watch_jobs(id, jobs);
        }
    }

    /// Continues a turn of the gateway's own, unless somebody has said something else since.
    pub(crate) async fn resume(&self, id: ConversationId, turn: UnfinishedTurn, after: Duration) {
        let stop = self.admission().draining().child_token();
        if !pause(after, &stop).await {
            return;
        }
        let claimed = self.claim(&id, AdmittedWork::Leftover, Arc::new(NoHuman), &stop).await;
        let (in_progress, conversation) = match claimed {
            Ok(claimed) => claimed,
            Err(error) => return error.log(&id),
        };
        let found = match self.find(conversation, in_progress, turn).await {
            Ok(found) => found,
            Err(error) => {
                return tracing::error!(conversation = %id, %error, "a turn cannot be resumed");
            }
        };
        let FoundTurn::Turn(begun, input) = found else { return };
        tracing::info!(conversation = %id, "a turn that was not finished is resumed");
        if let Some(jobs) = self.run_own(*begun, input, Watching::GoesOn).await {
            self.watch_jobs(id, jobs);
        }
    }

    /// Continues a turn whose owner is not this process, unless the conversation went on without
    /// it. `stop` is cancelled when the owner does not want it any more.
    pub(crate) async fn resume_for_owner(
        &self,
        id: &ConversationId,
        turn: UnfinishedTurn,
        after: Duration,
        human: Arc<dyn Human>,
        stop: &CancellationToken,
    ) -> Resumption {
        let waiting = async {
            if !pause(after, self.admission().draining()).await {
                return Err(Unclaimed::Stopped);
            }
            self.claim(id, AdmittedWork::Leftover, human, self.admission().draining()).await
        };
        let claimed = tokio::select! {
            biased;
            () = stop.cancelled() => return Resumption::Stopped,
            claimed = waiting => claimed,
        };
        let (in_progress, conversation) = match claimed {
            Ok(claimed) => claimed,
            Err(Unclaimed::Stopped) => return Resumption::Stopped,
            Err(Unclaimed::Refused(refused)) => {
                return Resumption::Impossible(format!("its session cannot be opened: {refused}"));
            }
        };
        let Ok(token) = self.admission().enter() else { return Resumption::Stopped };
        let (begun, input) = match self.find(conversation, in_progress, turn).await {
            Ok(FoundTurn::Turn(begun, input)) => (begun, input),
            Ok(FoundTurn::Nothing) => {
                return Resumption::Impossible("its session went on without it".to_owned());
            }
            Err(error) => return Resumption::Impossible(error.to_string()),
        };
        let (task, started) = self.turn_task();
        let turns = self.clone();
        spawn_caught(token, async move { turns.drive(*begun, input, task).await });
        Resumption::Started(started(id.clone()))
    }

    /// Finds out what there is to continue, and puts on record that this process does. What was
    /// read before the conversation was opened may be out of date.
    async fn find(
        &self,
        conversation: Conversation,
        in_progress: InProgress,
        turn: UnfinishedTurn,
    ) -> Result<FoundTurn, vestal_conversations::Error> {
        let id = conversation.id().clone();
        let is_current = Commitment::of(self.store(), &id).await? == Some(turn.clone());
        let standing = if is_current {
            let every = (turn.first_message(), Seq(i64::MAX));
            turn.standing(&self.store().history_between(&id, every.0, every.1).await?)
        } else {
            TurnStanding::MovedOn
        };
        let note = turn.note();
        let (input, unfinished) = match standing {
            TurnStanding::NotBegun(message) => (TurnStart::Message(message), turn.resumed()),
            TurnStanding::Open => (TurnStart::Resume(note), turn.resumed()),
            TurnStanding::Answered(text) if turn.run().is_some() => {
                // Nothing runs, so nothing can die over it.
                let begun = RecordedTurn { conversation, unfinished: turn, in_progress };
                return Ok(FoundTurn::Turn(Box::new(begun), TurnStart::Answered(text)));
            }
            TurnStanding::Answered(_) | TurnStanding::MovedOn => {
                let jobs = self.leave(conversation, Watching::GoesOn).await;
                drop(in_progress);
                if let Some(jobs) = jobs {
                    self.watch_jobs(id, jobs);
                }
                return Ok(FoundTurn::Nothing);
            }
        };
        Commitment::store(self.store(), &id, Some(&unfinished)).await?;
        failpoint::reach("turn.recorded");
        Ok(FoundTurn::Turn(Box::new(RecordedTurn { conversation, unfinished, in_progress }), input))
    }
}

/// Waits; reports whether that was not stopped.
async fn pause(time: Duration, stop: &CancellationToken) -> bool {
    tokio::select! {
        biased;
        () = stop.cancelled() => false,
        () = tokio::time::sleep(time) => true,
    }
}
