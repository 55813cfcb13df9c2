//! The turns of a session: one at a time, in the order they were asked for.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use vestal_agent::{Control, Conversation, EventSink, Outcome, TurnError, TurnResult};
use vestal_model::{Part, UserMessage};

use crate::admission::Admitted;
use crate::error::RpcError;
use crate::events::{EventBody, MessageComplete, TurnStatus, TurnTrigger};
use crate::session::{Held, Phase, Prompt, Session, SessionState, Work};
use crate::views::TurnUsage;

/// Turns in a row that news of background jobs may begin: a model that starts a job in each of
/// them would go on for ever.
const MAX_JOB_TURNS: u32 = 20;

impl Session {
    /// Begins with what waits. The state says that something is being done from now on.
    pub(super) fn start(self: &Arc<Self>, state: &mut SessionState, admitted: Admitted) {
        let first = admitted.interrupt.child_token();
        state.phase = Phase::Running(first.clone());
        if let Some(watch) = state.job_watch.take() {
            watch.cancel();
        }
        self.idle.send_replace(false);
        let session = Arc::clone(self);
        self.tasks.spawn(async move { session.run_queue(&admitted, first).await });
    }

    async fn run_queue(self: Arc<Self>, admitted: &Admitted, first: CancellationToken) {
        let mut held = Arc::clone(&self.conversation).lock_owned().await;
        let mut first = Some(first);
        let mut ended = None;
        loop {
            let next = self.next_work(admitted, &mut first);
            // Only now: whoever hears of the end finds the session free.
            if let Some(body) = ended.take() {
                self.hub.emit(&body);
            }
            let Some((work, token)) = next else { break };
            ended = Box::pin(self.turn(&mut held, work, &token)).await;
        }
        if let Held::Open(conversation) = &*held {
            self.watch_jobs(conversation);
        }
        drop(held);
        self.idle_unless_running();
    }

    /// Returns what is next, with what interrupts it; without anything, nothing is being done any
    /// more. Both are changed at once, so that an interrupt meets the turn it was meant for.
    fn next_work(
        &self,
        admitted: &Admitted,
        first: &mut Option<CancellationToken>,
    ) -> Option<(Work, CancellationToken)> {
        let mut state = self.lock();
        if matches!(state.phase, Phase::Ended) {
            return None;
        }
        match state.queue.pop_front() {
            Some(work) => {
                let token = first.take().unwrap_or_else(|| admitted.interrupt.child_token());
                state.phase = Phase::Running(token.clone());
                Some((work, token))
            }
            None => {
                state.phase = Phase::Idle;
                None
            }
        }
    }

    /// Goes on with what came while the conversation was held for other work.
    pub(super) fn exclusive_ended(self: &Arc<Self>) {
        let refused = {
            let mut state = self.lock();
            if !matches!(state.phase, Phase::Running(_)) {
                return;
            }
            state.phase = Phase::Idle;
            if state.queue.is_empty() {
                None
            } else {
                match self.admit() {
                    Ok(admitted) => {
                        self.start(&mut state, admitted);
                        None
                    }
                    Err(error) => {
                        state.queue.clear();
                        Some(error)
                    }
                }
            }
        };
        self.idle_unless_running();
        if let Some(RpcError { message, .. }) = refused {
            let message = format!("prompts that waited were dropped: {message}");
            self.hub.emit(&EventBody::Error { message });
        }
    }

    fn idle_unless_running(&self) {
        let state = self.lock();
        let is_idle = !matches!(state.phase, Phase::Running(_));
        self.idle.send_replace(is_idle);
    }

    /// Runs a turn, and returns what is to be told of its end; nothing if there was nothing to do.
    async fn turn(
        &self,
        held: &mut Held,
        work: Work,
        token: &CancellationToken,
    ) -> Option<EventBody> {
        self.hub.begin_turn();
        let hub = Arc::clone(&self.hub);
        let sink = EventSink::new(move |event| hub.agent_event(event));
        let result = match work {
            Work::Prompt(prompt) => {
                let (trigger, text) = (TurnTrigger::Prompt, Some(prompt.text.clone()));
                self.hub.emit(&EventBody::MessageStart { trigger, text });
                match self.prompt(held, prompt, &sink, token).await {
                    Ok(Some(result)) => result,
                    Ok(None) => return Some(self.not_begun(TurnStatus::Interrupted, None)),
                    Err(error) => return Some(self.not_begun(TurnStatus::Error, Some(error))),
                }
            }
            Work::JobNews => {
                let Held::Open(conversation) = held else { return None };
                let control = conversation.control();
                let news = conversation.take_job_updates(&sink);
                let news = interruptible(&control, token, news).await;
                if news.is_empty() {
                    return None;
                }
                self.lock().job_turns += 1;
                let trigger = TurnTrigger::Jobs;
                self.hub.emit(&EventBody::MessageStart { trigger, text: None });
                let turn = conversation.run_job_updates(news, &sink);
                interruptible(&control, token, turn).await
            }
        };
        self.turn_ended(held, &result).await
    }

    /// Runs the turn of a prompt; nothing if it was interrupted before it began.
    async fn prompt(
        &self,
        held: &mut Held,
        prompt: Prompt,
        sink: &EventSink,
        token: &CancellationToken,
    ) -> Result<Option<TurnResult>, RpcError> {
        let conversation = self.open(held).await?;
        if prompt.undo > 0 {
            conversation.undo(prompt.undo).await?;
        }
        if token.is_cancelled() {
            return Ok(None);
        }
        let control = conversation.control();
        let message = UserMessage { parts: vec![Part::Text { text: prompt.text }] };
        let turn = conversation.run(message, sink);
        Ok(Some(interruptible(&control, token, turn).await))
    }

    /// Learns what the conversation became, has said in the next turn what came too late for this
    /// one, and returns what is to be told.
    async fn turn_ended(&self, held: &mut Held, result: &TurnResult) -> Option<EventBody> {
        let Held::Open(conversation) = held else { return None };
        let mut late = result.pending_steer.clone();
        late.extend(conversation.control().take_steer());
        if !late.is_empty() && !matches!(result.outcome, Outcome::Interrupted) {
            let prompt = Prompt { text: late.join("\n"), undo: 0 };
            self.lock().queue.push_front(Work::Prompt(prompt));
        }
        self.refresh(conversation).await;
        Some(self.completed(result))
    }

    fn completed(&self, result: &TurnResult) -> EventBody {
        let advice = match &result.outcome {
            Outcome::Failed(TurnError::Model(error)) => vec![error.advice()],
            _ => Vec::new(),
        };
        let reasoning = result.reasoning.trim();
        EventBody::MessageComplete(Box::new(MessageComplete {
            text: result.text.trim().to_owned(),
            status: status_of(&result.outcome),
            outcome: result.outcome.word().to_owned(),
            reasoning: (!reasoning.is_empty()).then(|| reasoning.to_owned()),
            error: result.outcome.error(),
            advice,
            usage: TurnUsage::from(result),
            queued: self.queued(),
        }))
    }

    /// Returns the end of a turn that never began.
    fn not_begun(&self, status: TurnStatus, error: Option<RpcError>) -> EventBody {
        let advice = error.as_ref().and_then(|error| error.data.as_ref()?.get("advice").cloned());
        EventBody::MessageComplete(Box::new(MessageComplete {
            text: String::new(),
            status,
            outcome: if error.is_some() { "failed" } else { "interrupted" }.to_owned(),
            reasoning: None,
            advice: advice
                .and_then(|advice| serde_json::from_value(advice).ok())
                .unwrap_or_default(),
            error: error.map(|error| error.message),
            usage: TurnUsage::default(),
            queued: self.queued(),
        }))
    }

    /// Lets the model hear of its background jobs when there is news and nothing else to do.
    fn watch_jobs(self: &Arc<Self>, conversation: &Conversation) {
        let Some(jobs) = conversation.job_watch() else { return };
        let stop = self.life.child_token();
        {
            let mut state = self.lock();
            if !matches!(state.phase, Phase::Idle) || state.job_turns >= MAX_JOB_TURNS {
                return;
            }
            state.job_watch = Some(stop.clone());
        }
        let session = Arc::clone(self);
        self.tasks.spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = jobs.changed() => session.tell_job_news(&stop),
            }
        });
    }

    fn tell_job_news(self: &Arc<Self>, watch: &CancellationToken) {
        let mut state = self.lock();
        // Whoever has begun something since lets the model hear of it there.
        if watch.is_cancelled() || !matches!(state.phase, Phase::Idle) {
            return;
        }
        match self.admit() {
            Ok(admitted) => {
                state.queue.push_back(Work::JobNews);
                self.start(&mut state, admitted);
            }
            // It comes with the next prompt.
            Err(error) => {
                tracing::info!(session = %self.id, error = error.message, "news of background jobs waits");
            }
        }
    }
}

pub(crate) fn status_of(outcome: &Outcome) -> TurnStatus {
    match outcome {
        Outcome::Completed => TurnStatus::Complete,
        Outcome::Interrupted => TurnStatus::Interrupted,
        Outcome::BudgetExhausted
        | Outcome::Refused
        | Outcome::Looping { .. }
        | Outcome::Failed(_) => TurnStatus::Error,
    }
}

/// Runs work of a conversation to its end; `token` interrupts it.
pub(crate) async fn interruptible<T>(
    control: &Control,
    token: &CancellationToken,
    work: impl Future<Output = T>,
) -> T {
    let mut work = Box::pin(work);
    tokio::select! {
        biased;
        done = &mut work => return done,
        () = control.interrupt_when(token) => {}
    }
    work.await
}
