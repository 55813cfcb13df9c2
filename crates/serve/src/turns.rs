//! The turns of a session: one at a time, in the order they were asked for.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use vestal_agent::{Conversation, EventSink, TurnError, TurnOutcome, TurnResult};
use vestal_conversations::Seq;
use vestal_model::{Part, UserMessage};
use vestal_runtime::panics::caught;

use crate::admission::TurnPermit;
use crate::error::{INTERNAL, RpcError};
use crate::events::{
    EventBody, HistoryCause, MessageComplete, ReturnedPrompt, TurnStatus, TurnTrigger,
};
use crate::session::{
    HeldConversation, LiveSessionState, Prompt, STOPPING, Session, SessionPhase, SessionWork,
    takes_no_pictures,
};
use crate::views::TurnUsage;

/// Turns in a row that news of background jobs may begin: a model that starts a job in each of
/// them would go on for ever.
const MAX_JOB_TURNS: u32 = 20;

/// What comes after a turn.
struct NextWork {
    /// What is done next, with what interrupts it; nothing if the session is free now.
    work: Option<(SessionWork, CancellationToken)>,
    /// Prompts that wait, the next one included.
    queued: usize,
    /// Prompts that will not be said, and why.
    returned: (Vec<ReturnedPrompt>, &'static str),
}

/// A turn that has ended and is not told yet.
struct FinishedTurn {
    complete: MessageComplete,
    /// The last message of it in the store, if it came that far.
    last: Option<Seq>,
    /// What was said during the turn and came too late for it.
    late: Vec<String>,
    /// A prompt that was taken back, and why.
    returned: Option<(ReturnedPrompt, String)>,
}

impl Session {
    /// Begins with what waits. The state says that something is being done from now on.
    pub(super) fn start(self: &Arc<Self>, state: &mut LiveSessionState, admitted: TurnPermit) {
        let first = admitted.interrupt.child_token();
        state.phase = SessionPhase::Turn(first.clone());
        if let Some(watch) = state.job_watch.take() {
            watch.cancel();
        }
        self.idle.send_replace(false);
        let session = Arc::clone(self);
        self.tasks.spawn(async move { session.run_queue(&admitted, first).await });
    }

    async fn run_queue(self: Arc<Self>, admitted: &TurnPermit, first: CancellationToken) {
        let mut held = Arc::clone(&self.conversation).lock_owned().await;
        let mut first = Some(first);
        let mut ended: Option<FinishedTurn> = None;
        loop {
            let late = ended.as_mut().map(|ended| std::mem::take(&mut ended.late));
            let next = self.next_work(late.unwrap_or_default(), admitted, &mut first);
            // Only now: a client that learns of the end finds the session free.
            if let Some(FinishedTurn { mut complete, last, returned, .. }) = ended.take() {
                complete.queued = next.queued;
                self.hub.end_turn(&EventBody::MessageComplete(Box::new(complete)), last);
                if let Some((prompt, reason)) = returned {
                    self.send_returned(vec![prompt], &reason);
                }
            }
            self.send_returned(next.returned.0, next.returned.1);
            let Some((work, token)) = next.work else { break };
            // A bug fails this turn alone: the session and all others go on.
            let turn = caught("a turn of a session has failed", self.turn(&mut held, work, &token));
            ended = turn.await.unwrap_or_else(|| Some(turn_panicked()));
        }
        if let HeldConversation::Open(conversation) = &*held {
            self.watch_jobs(conversation);
        }
        drop(held);
        self.idle_unless_running();
    }

    /// Returns what is next, and changes the phase at once, so that an interrupt meets the turn it was
    /// meant for, and words that were said until now are not left behind: what came too late for the
    /// turn before is said first, in a turn of its own.
    fn next_work(
        &self,
        mut late: Vec<String>,
        admitted: &TurnPermit,
        first: &mut Option<CancellationToken>,
    ) -> NextWork {
        let mut state = self.lock();
        late.extend(state.take_unheard());
        let was_interrupted = std::mem::take(&mut state.is_interrupted);
        let is_ended = matches!(state.phase, SessionPhase::Ended);
        let mut returned = Vec::new();
        if was_interrupted || is_ended || self.is_closing() {
            returned.extend(late.into_iter().map(ReturnedPrompt::new));
        } else if !late.is_empty() {
            let prompt = Prompt { text: late.join("\n"), ..Prompt::default() };
            state.queue.push_front(SessionWork::Prompt(prompt));
        }
        let reason = match (self.is_closing(), is_ended) {
            (true, _) => STOPPING,
            (false, true) => "the session was closed",
            (false, false) => "the session was interrupted",
        };
        // The prompt that `first` is for was admitted before.
        if self.is_closing() && first.is_none() {
            returned.extend(state.take_waiting());
        }
        if is_ended {
            return NextWork { work: None, queued: 0, returned: (returned, reason) };
        }
        let queued = state.queue.len();
        let work = state.queue.pop_front().map(|work| {
            let token = first.take().unwrap_or_else(|| admitted.interrupt.child_token());
            (work, token)
        });
        state.phase = match &work {
            Some((_, token)) => SessionPhase::Turn(token.clone()),
            None => SessionPhase::Idle,
        };
        NextWork { work, queued, returned: (returned, reason) }
    }

    /// Goes on with what came while the conversation was held for other work.
    pub(super) fn exclusive_ended(self: &Arc<Self>) {
        let mut returned = (Vec::new(), String::new());
        {
            let mut state = self.lock();
            if !matches!(state.phase, SessionPhase::Exclusive(_)) {
                return;
            }
            state.phase = SessionPhase::Idle;
            state.is_interrupted = false;
            if self.is_closing() {
                returned = (state.take_waiting(), STOPPING.to_owned());
            } else if !state.queue.is_empty() {
                match self.admit() {
                    Ok(admitted) => self.start(&mut state, admitted),
                    Err(error) => returned = (state.take_waiting(), error.message),
                }
            }
        }
        self.idle_unless_running();
        if !returned.0.is_empty() {
            let message = format!("queued prompts are not sent: {}", returned.1);
            self.hub.emit(&EventBody::Error { message });
        }
        self.send_returned(returned.0, &returned.1);
    }

    fn idle_unless_running(&self) {
        let state = self.lock();
        let is_idle = !matches!(state.phase, SessionPhase::Turn(_) | SessionPhase::Exclusive(_));
        self.idle.send_replace(is_idle);
    }

    /// Runs a turn, and returns the report of its end; nothing if there was nothing to do.
    async fn turn(
        &self,
        held: &mut HeldConversation,
        work: SessionWork,
        token: &CancellationToken,
    ) -> Option<FinishedTurn> {
        let hub = Arc::clone(&self.hub);
        let sink = EventSink::new(move |event| hub.agent_event(event));
        match work {
            SessionWork::Prompt(prompt) => {
                let (text, images) = (prompt.text.clone(), prompt.images.len());
                self.hub.begin_turn(TurnTrigger::Prompt, Some(text.clone()), images);
                let result = match self.prompt(held, prompt, &sink, token).await {
                    Ok(Some(result)) => result,
                    Ok(None) => return Some(not_begun(TurnStatus::Interrupted, None)),
                    Err(error) => return Some(not_begun(TurnStatus::Error, Some(error))),
                };
                if images > 0 && is_blind(&result.outcome) {
                    return Some(self.without_pictures(held, &result, text, images).await);
                }
                self.turn_ended(held, &result).await
            }
            SessionWork::JobNews => {
                let HeldConversation::Open(conversation) = held else { return None };
                let control = conversation.control();
                let news = conversation.take_job_updates(&sink);
                let news = control.interruptible(token, news).await;
                if news.is_empty() {
                    return None;
                }
                self.lock().job_turns += 1;
                self.hub.begin_turn(TurnTrigger::Jobs, None, 0);
                let turn = conversation.run_job_updates(news, &sink);
                let result = control.interruptible(token, turn).await;
                self.turn_ended(held, &result).await
            }
        }
    }

    /// Runs the turn of a prompt; nothing if it was interrupted before it began.
    async fn prompt(
        &self,
        held: &mut HeldConversation,
        prompt: Prompt,
        sink: &EventSink,
        token: &CancellationToken,
    ) -> Result<Option<TurnResult>, RpcError> {
        let conversation = self.open(held).await?;
        if prompt.undo > 0 {
            conversation.undo(prompt.undo).await?;
            self.hub.emit(&EventBody::HistoryChanged { cause: HistoryCause::Undo });
        }
        if token.is_cancelled() {
            return Ok(None);
        }
        let control = conversation.control();
        let mut parts = Vec::new();
        if !prompt.text.trim().is_empty() {
            parts.push(Part::Text { text: prompt.text });
        }
        parts.extend(prompt.images.into_iter().map(Part::Image));
        let turn = conversation.run(UserMessage { parts }, sink);
        Ok(Some(control.interruptible(token, turn).await))
    }

    /// Learns what the conversation became, and returns what is to be reported.
    async fn turn_ended(
        &self,
        held: &mut HeldConversation,
        result: &TurnResult,
    ) -> Option<FinishedTurn> {
        let HeldConversation::Open(conversation) = held else { return None };
        self.refresh(conversation).await;
        let (last, late) = (conversation.last_seq(), result.pending_steer.clone());
        Some(FinishedTurn { complete: completed(result), last, late, returned: None })
    }

    /// Takes a prompt back whose pictures the model does not take: left in the conversation, it would
    /// have every later turn fail.
    async fn without_pictures(
        &self,
        held: &mut HeldConversation,
        result: &TurnResult,
        text: String,
        images: usize,
    ) -> FinishedTurn {
        self.set_blind_model();
        let model = self.facts().model_name().unwrap_or_else(|| "the model".to_owned());
        let refusal = takes_no_pictures(&model);
        let mut last = None;
        if let HeldConversation::Open(conversation) = held {
            match conversation.undo(1).await {
                Ok(_) => self.hub.emit(&EventBody::HistoryChanged { cause: HistoryCause::Undo }),
                Err(error) => tracing::warn!(%error, "a prompt with pictures was not taken back"),
            }
            self.refresh(conversation).await;
            last = conversation.last_seq();
        }
        let ended = not_begun(TurnStatus::Error, Some(refusal));
        let complete = MessageComplete { usage: TurnUsage::from(result), ..ended.complete };
        let returned =
            Some((ReturnedPrompt { text, images }, format!("{model} takes no pictures")));
        FinishedTurn { complete, last, late: result.pending_steer.clone(), returned }
    }

    /// Lets the model hear of its background jobs when there is news and nothing else to do.
    fn watch_jobs(self: &Arc<Self>, conversation: &Conversation) {
        let Some(jobs) = conversation.job_watch() else { return };
        let stop = self.life.child_token();
        {
            let mut state = self.lock();
            if !matches!(state.phase, SessionPhase::Idle) || state.job_turns >= MAX_JOB_TURNS {
                return;
            }
            state.job_watch = Some(stop.clone());
        }
        let session = Arc::clone(self);
        self.tasks.spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = jobs.changed() => session.send_job_news(&stop),
            }
        });
    }

    fn send_job_news(self: &Arc<Self>, watch: &CancellationToken) {
        let mut state = self.lock();
        // Work that has begun since passes the news on to the model.
        if watch.is_cancelled() || !matches!(state.phase, SessionPhase::Idle) || self.is_closing() {
            return;
        }
        match self.admit() {
            Ok(admitted) => {
                state.queue.push_back(SessionWork::JobNews);
                self.start(&mut state, admitted);
            }
            // It comes with the next prompt.
            Err(error) => {
                tracing::info!(session = %self.id, error = error.message, "news of background jobs waits");
            }
        }
    }
}

fn completed(result: &TurnResult) -> MessageComplete {
    let advice = match &result.outcome {
        TurnOutcome::Failed(TurnError::Model(error)) => vec![error.advice()],
        _ => Vec::new(),
    };
    let reasoning = result.reasoning.trim();
    MessageComplete {
        text: result.text.trim().to_owned(),
        status: status_of(&result.outcome),
        outcome: result.outcome.word().to_owned(),
        reasoning: (!reasoning.is_empty()).then(|| reasoning.to_owned()),
        error: result.outcome.error(),
        advice,
        usage: TurnUsage::from(result),
        queued: 0,
    }
}

/// Returns the end of a turn that never began.
fn not_begun(status: TurnStatus, error: Option<RpcError>) -> FinishedTurn {
    let advice = error.as_ref().and_then(|error| error.data.as_ref()?.get("advice").cloned());
    let complete = MessageComplete {
        text: String::new(),
        status,
        outcome: if error.is_some() { "failed" } else { "interrupted" }.to_owned(),
        reasoning: None,
        advice: advice.and_then(|advice| serde_json::from_value(advice).ok()).unwrap_or_default(),
        error: error.map(|error| error.message),
        usage: TurnUsage::default(),
        queued: 0,
    };
    FinishedTurn { complete, last: None, late: Vec::new(), returned: None }
}

/// Returns the end of a turn that panicked.
fn turn_panicked() -> FinishedTurn {
    let error = RpcError::new(INTERNAL, "the turn met a bug in vestal; the log says which")
        .advise("the messages until then are stored; a new message continues from there");
    not_begun(TurnStatus::Error, Some(error))
}

/// Reports whether a turn failed because the model takes no pictures.
fn is_blind(outcome: &TurnOutcome) -> bool {
    matches!(outcome, TurnOutcome::Failed(TurnError::Model(error)) if error.refuses_images())
}

pub(crate) fn status_of(outcome: &TurnOutcome) -> TurnStatus {
    match outcome {
        TurnOutcome::Completed => TurnStatus::Complete,
        TurnOutcome::Interrupted => TurnStatus::Interrupted,
        TurnOutcome::BudgetExhausted
        | TurnOutcome::Refused
        | TurnOutcome::Looping { .. }
        | TurnOutcome::Failed(_) => TurnStatus::Error,
    }
}

#[cfg(test)]
#[path = "turns_tests.rs"]
mod tests;
