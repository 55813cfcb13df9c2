//! News of background jobs: conversations that watch jobs go on by themselves.

use std::collections::HashMap;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use vestal_agent::tools::JobWatch;
use vestal_agent::{Conversation, EventSink, Human, NoHuman};
use vestal_conversations::ConversationId;
use vestal_runtime::{ConversationChoice, OpenRequest};

use super::Turns;
use super::admission::{AdmittedWork, InProgress, TurnRefused};
use super::running::{RecordedTurn, TurnStart, Watching};
use crate::failpoint;
use crate::panics::caught;
use crate::unfinished::{Commitment, TurnOwner, UnfinishedTurn};

/// Turns in a row that news of background jobs may begin: a model that starts a job in each of
/// them would go on for ever.
const MAX_JOB_TURNS: u32 = 20;

/// The first and the longest pause before a conversation is tried again that somebody else has open.
const BUSY_PAUSES: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(30));

/// Why a conversation was not opened.
#[derive(Debug)]
pub(super) enum Unclaimed {
    /// It is not wanted any more.
    Stopped,
    /// It cannot be opened.
    Refused(TurnRefused),
}

impl Turns {
    /// Lets the model hear of news of background jobs as it comes. The conversation is not held
    /// meanwhile: a person can continue it, and then the news comes with what they say.
    pub(super) fn watch_jobs(&self, id: ConversationId, jobs: JobWatch) {
        let number = self.next_number();
        let stop = self.admission().draining().child_token();
        // One that still waits knows only the jobs of earlier turns.
        if let Some((_, earlier)) = self.watching().insert(id.clone(), (number, stop.clone())) {
            earlier.cancel();
        }
        let turns = self.clone();
        self.spawn(async move {
            let following = Box::pin(turns.follow_jobs(&id, jobs, &stop));
            caught("background jobs of a conversation are not waited for any more", following)
                .await;
            let mut watching = turns.watching();
            if watching.get(&id).is_some_and(|(own, _)| *own == number) {
                watching.remove(&id);
            }
        });
    }

    async fn follow_jobs(&self, id: &ConversationId, mut jobs: JobWatch, stop: &CancellationToken) {
        for number in 1..=MAX_JOB_TURNS {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = jobs.changed() => {}
            }
            let watching = if number < MAX_JOB_TURNS { Watching::GoesOn } else { Watching::Goes };
            match self.run_news_turn(id, stop, watching).await {
                Some(more) => jobs = more,
                None if watching == Watching::Goes => {
                    tracing::warn!(conversation = %id, "background jobs began {MAX_JOB_TURNS} turns in a row; their further news waits for the next message");
                    return;
                }
                None => return,
            }
        }
    }

    /// Runs the turn that news begins. Returns the background jobs to wait for.
    async fn run_news_turn(
        &self,
        id: &ConversationId,
        stop: &CancellationToken,
        watching: Watching,
    ) -> Option<JobWatch> {
        let claimed = self.claim(id, AdmittedWork::Client, Arc::new(NoHuman), stop).await;
        let (in_progress, mut conversation) = claimed.map_err(|error| error.log(id)).ok()?;
        let sink = EventSink::new(|event| event.log());
        let news = tokio::select! {
            biased;
            () = self.admission().interrupt().cancelled() => Vec::new(),
            news = conversation.take_job_updates(&sink) => news,
        };
        failpoint::reach("jobs.news-taken");
        if news.is_empty() {
            return self.leave(conversation, watching).await;
        }
        let unfinished = UnfinishedTurn::new(TurnOwner::JobNews, conversation.last_seq());
        // Not closed on failure: that would store that the news has been delivered.
        if let Err(error) = Commitment::store(self.store(), id, Some(&unfinished)).await {
            tracing::error!(conversation = %id, %error, "news of background jobs waits for the next message");
            return None;
        }
        failpoint::reach("turn.recorded");
        let begun = RecordedTurn { conversation, unfinished, in_progress };
        self.run_own(begun, TurnStart::JobNews(news), watching).await
    }

    /// Opens a conversation for a turn as soon as one more may run and nobody else has it open.
    pub(super) async fn claim(
        &self,
        id: &ConversationId,
        work: AdmittedWork,
        human: Arc<dyn Human>,
        stop: &CancellationToken,
    ) -> Result<(InProgress, Conversation), Unclaimed> {
        let mut pause = BUSY_PAUSES.0;
        loop {
            let in_progress = tokio::select! {
                biased;
                () = stop.cancelled() => return Err(Unclaimed::Stopped),
                slot = self.admission().slot(work) => slot.ok_or(Unclaimed::Stopped)?,
            };
            let request = OpenRequest {
                which: ConversationChoice::Id(id.clone()),
                ..OpenRequest::new("gateway")
            };
            match self.open(request, Vec::new(), Arc::clone(&human)).await {
                Ok(conversation) => return Ok((in_progress, conversation)),
                Err(refused) if refused.is_in_use() => drop(in_progress),
                Err(refused) => return Err(Unclaimed::Refused(refused)),
            }
            // Its holder may deliver the news, or continue with it, meanwhile.
            tokio::select! {
                biased;
                () = stop.cancelled() => return Err(Unclaimed::Stopped),
                () = tokio::time::sleep(pause) => pause = (pause * 2).min(BUSY_PAUSES.1),
            }
        }
    }

    fn watching(&self) -> MutexGuard<'_, HashMap<ConversationId, (u64, CancellationToken)>> {
        self.0.watching.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Unclaimed {
    pub(super) fn log(&self, id: &ConversationId) {
        if let Self::Refused(error) = self {
            tracing::warn!(conversation = %id, %error, "a conversation cannot be opened; it continues with the next message or the next start");
        }
    }
}
