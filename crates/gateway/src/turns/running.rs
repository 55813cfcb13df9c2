//! One turn from its request to its end: opened, put on record, run and closed in a task of its own.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::task_tracker::TaskTrackerToken;
use vestal_agent::tools::JobWatch;
use vestal_agent::{Conversation, EndReason, EventSink, Human, TurnEvent, TurnOutcome, TurnResult};
use vestal_conversations::ConversationId;
use vestal_model::{Message, UserMessage};
use vestal_runtime::{ConversationChoice, OpenRequest, Opened};

use super::Turns;
use super::admission::{InProgress, TurnRefused};
use super::handle::{EndedTurn, PreparedTurn, Settlement, StartedTurn, TurnRequest};
use crate::failpoint;
use crate::panics::caught;
use crate::unfinished::{Commitment, TurnOwner, UnfinishedTurn};

/// How long the owner of a turn may take to store that it has ended. After that the record of the
/// turn stays, and the next process finds out.
const STORED_WITHIN: Duration = Duration::from_secs(5);

/// What interrupts a turn.
#[derive(Debug, Clone)]
pub(super) struct TurnInterrupt {
    /// The caller of the turn cancelled it.
    by_owner: CancellationToken,
    /// The gateway ends.
    by_drain: CancellationToken,
}

impl TurnInterrupt {
    /// Reports whether the end of the gateway is the only reason.
    fn is_by_drain_alone(&self) -> bool {
        self.by_drain.is_cancelled() && !self.by_owner.is_cancelled()
    }
}

/// What a turn begins with.
pub(super) enum TurnStart {
    Message(UserMessage),
    JobNews(Vec<String>),
    /// The rest of an earlier one; the model reads this first.
    Resume(&'static str),
    /// Nothing: an earlier process came to this answer, and not to recording it.
    Answered(String),
}

/// What of a turn stays on record when its conversation is closed.
enum Rest {
    Nothing,
    Turn(UnfinishedTurn),
    /// What is there.
    Unchanged,
}

/// A turn that is on record, in a conversation that is open.
pub(super) struct RecordedTurn {
    pub(super) conversation: Conversation,
    pub(super) unfinished: UnfinishedTurn,
    pub(super) in_progress: InProgress,
}

/// The side of a turn that its task has.
pub(super) struct TurnTask {
    pub(super) interrupt: TurnInterrupt,
    events: UnboundedSender<TurnEvent>,
    end: oneshot::Sender<EndedTurn>,
}

impl Turns {
    /// Opens a conversation for a turn and puts on record that it runs, in a task of its own: a slow
    /// reader does not hold it up. One whose owner outlives this process is resumed by the next one,
    /// unless it was dropped.
    pub(crate) async fn prepare(
        &self,
        owner: TurnOwner,
        request: TurnRequest,
    ) -> Result<PreparedTurn, TurnRefused> {
        let token = self.admission().enter()?;
        let in_progress = self.admission().try_slot()?;
        let (opened_sender, opened) = oneshot::channel();
        let (begin, begin_receiver) = oneshot::channel();
        // Before the conversation is open: a caller that stops waiting for that interrupts it.
        let (task, started) = self.turn_task();
        let turns = self.clone();
        let working = async move {
            let message = request.message.clone();
            let begun = match turns.begin(owner, request, in_progress).await {
                Ok(begun) => begun,
                Err(refused) => {
                    // If nobody listens any more, nobody is notified.
                    opened_sender.send(Err(refused)).ok();
                    return;
                }
            };
            let id = begun.conversation.id().clone();
            if opened_sender.send(Ok(id)).is_err() || begin_receiver.await.is_err() {
                turns.leave(begun.conversation, Watching::GoesOn).await;
                return;
            }
            turns.drive(begun, TurnStart::Message(message), task).await;
        };
        spawn_caught(token, working);
        // The task sends before it ends, unless it panics.
        let conversation = opened.await.unwrap_or(Err(TurnRefused::Lost))?;
        Ok(PreparedTurn { turn: started(conversation), begin })
    }

    /// Returns both sides of a turn: its task's, and, once its conversation is known, its owner's.
    pub(super) fn turn_task(
        &self,
    ) -> (TurnTask, impl FnOnce(ConversationId) -> StartedTurn + Send + use<>) {
        let interrupt = self.interrupt();
        let (event_sender, events) = unbounded_channel();
        let (end_sender, end) = oneshot::channel();
        let handle = interrupt.by_owner.clone();
        let on_drop = handle.clone().drop_guard();
        let number = self.next_number();
        let task = TurnTask { interrupt, events: event_sender, end: end_sender };
        let started = move |conversation| StartedTurn {
            conversation,
            number,
            events,
            end,
            interrupt: handle,
            _interrupt_on_drop: on_drop,
        };
        (task, started)
    }

    pub(super) fn interrupt(&self) -> TurnInterrupt {
        let by_drain = self.admission().interrupt().clone();
        TurnInterrupt { by_owner: CancellationToken::new(), by_drain }
    }

    async fn begin(
        &self,
        owner: TurnOwner,
        request: TurnRequest,
        in_progress: InProgress,
    ) -> Result<RecordedTurn, TurnRefused> {
        let TurnRequest { mut open, history, message, human, follows } = request;
        let redactor = self.runtime().agent().redactor();
        let recorded = |unfinished: UnfinishedTurn| {
            unfinished.with_input(message.clone(), |text| redactor.redact(text).into_owned())
        };
        if matches!(open.which, ConversationChoice::New) && history.is_empty() && follows.is_none()
        {
            // The first turn of a conversation is on record with the conversation itself: many that
            // begin at one instant wait for one another as rarely as can be.
            let unfinished = recorded(UnfinishedTurn::new(owner, None));
            open.state.push(Commitment::entry(Some(&unfinished)));
            let conversation = self.open(open, history, human).await?;
            failpoint::reach("turn.recorded");
            return Ok(RecordedTurn { conversation, unfinished, in_progress });
        }
        let conversation = self.open(open, history, human).await?;
        let last = conversation.last_seq();
        if follows.is_some() && follows != last {
            Box::pin(close(conversation, None)).await;
            return Err(TurnRefused::MovedOn);
        }
        let unfinished = recorded(UnfinishedTurn::new(owner, last));
        let stored = Commitment::store(self.store(), conversation.id(), Some(&unfinished)).await;
        if let Err(error) = stored {
            Box::pin(close(conversation, None)).await;
            return Err(error.into());
        }
        failpoint::reach("turn.recorded");
        Ok(RecordedTurn { conversation, unfinished, in_progress })
    }

    /// Runs a turn to its end and closes its conversation.
    pub(super) async fn drive(&self, begun: RecordedTurn, input: TurnStart, task: TurnTask) {
        let RecordedTurn { mut conversation, unfinished, in_progress } = begun;
        let TurnTask { interrupt, events, end } = task;
        let id = conversation.id().clone();
        let sink = EventSink::new(move |event| {
            event.log();
            if is_for_clients(&event) {
                // A reader that is gone has interrupted the turn already.
                events.send(event).ok();
            }
        });
        let result = run(&mut conversation, input, &sink, &interrupt).await;
        drop(sink);
        let is_suspended = unfinished.outlives_the_process()
            && interrupt.is_by_drain_alone()
            && result.as_ref().is_some_and(is_interrupted);
        if unfinished.run().is_none() {
            let rest =
                if is_suspended { Rest::Turn(unfinished.interrupted()) } else { Rest::Nothing };
            // Before the result is sent: its receiver may continue the session at once.
            let jobs = self.conclude(conversation, rest, &interrupt, Watching::GoesOn).await;
            drop(in_progress);
            let ended = EndedTurn { result, is_suspended, settlement: None };
            if end.send(ended).is_ok()
                && let Some(jobs) = jobs
            {
                self.watch_jobs(id, jobs);
            }
            return;
        }
        let (stored_sender, stored) = oneshot::channel();
        let (closed, closed_receiver) = oneshot::channel();
        let settlement = Some(Settlement { is_stored: stored_sender, closed: closed_receiver });
        end.send(EndedTurn { result, is_suspended, settlement }).ok();
        let stored = tokio::time::timeout(STORED_WITHIN, stored).await;
        let rest = match stored {
            Ok(Ok(true)) if is_suspended => Rest::Turn(unfinished.interrupted()),
            Ok(Ok(true)) => Rest::Nothing,
            Ok(Ok(false) | Err(_)) | Err(_) => Rest::Unchanged,
        };
        let jobs = self.conclude(conversation, rest, &interrupt, Watching::GoesOn).await;
        drop(in_progress);
        // If nobody waits for it, nobody is notified.
        closed.send(()).ok();
        if let Some(jobs) = jobs {
            self.watch_jobs(id, jobs);
        }
    }

    /// Closes a conversation after a turn and stores what is left to do in it. Returns the
    /// background jobs to wait for.
    async fn conclude(
        &self,
        conversation: Conversation,
        rest: Rest,
        interrupt: &TurnInterrupt,
        watching: Watching,
    ) -> Option<JobWatch> {
        let jobs = conversation.job_watch().filter(|_| watching == Watching::GoesOn);
        let is_done = matches!(rest, Rest::Nothing);
        // Also when the client is gone: jobs of earlier turns are still watched.
        match rest {
            Rest::Nothing if jobs.is_none() => {
                // The most usual end. A crash before it leaves a turn that has its answer.
                failpoint::reach("turn.settled");
                Box::pin(close(conversation, Some(Commitment::STATE))).await;
                return None;
            }
            Rest::Nothing => self.record(conversation.id(), None, jobs.as_ref()).await,
            Rest::Turn(turn) => self.record(conversation.id(), Some(&turn), jobs.as_ref()).await,
            Rest::Unchanged => {}
        }
        failpoint::reach("turn.settled");
        Box::pin(close(conversation, None)).await;
        jobs.filter(|_| is_done && !interrupt.by_owner.is_cancelled())
    }

    /// Closes a conversation in which no turn was run. Returns the background jobs to wait for.
    pub(super) async fn leave(
        &self,
        conversation: Conversation,
        watching: Watching,
    ) -> Option<JobWatch> {
        let jobs = conversation.job_watch().filter(|_| watching == Watching::GoesOn);
        self.record(conversation.id(), None, jobs.as_ref()).await;
        Box::pin(close(conversation, None)).await;
        jobs
    }

    /// Runs a turn of the gateway's own in a conversation that is open, and closes it. Returns the
    /// background jobs to wait for.
    pub(super) async fn run_own(
        &self,
        begun: RecordedTurn,
        input: TurnStart,
        watching: Watching,
    ) -> Option<JobWatch> {
        let RecordedTurn { mut conversation, unfinished, in_progress } = begun;
        let (sink, interrupt) = (EventSink::new(|event| event.log()), self.interrupt());
        let result = run(&mut conversation, input, &sink, &interrupt).await;
        let is_suspended =
            interrupt.is_by_drain_alone() && result.as_ref().is_some_and(is_interrupted);
        let rest = if is_suspended { Rest::Turn(unfinished.interrupted()) } else { Rest::Nothing };
        let jobs = self.conclude(conversation, rest, &interrupt, watching).await;
        drop(in_progress);
        jobs
    }

    /// Stores what is left to do in a conversation, which must be open: nobody else changes the
    /// record then. Where that fails the next process looks, and finds that nothing is.
    async fn record(
        &self,
        id: &ConversationId,
        turn: Option<&UnfinishedTurn>,
        jobs: Option<&JobWatch>,
    ) {
        let stored = if turn.is_some() || jobs.is_some() {
            Commitment::store(self.store(), id, turn).await
        } else {
            Commitment::remove(self.store(), id).await
        };
        if let Err(error) = stored {
            tracing::warn!(conversation = %id, %error, "the record of unfinished work was not updated");
        }
    }

    pub(super) async fn open(
        &self,
        request: OpenRequest,
        history: Vec<Message>,
        human: Arc<dyn Human>,
    ) -> Result<Conversation, TurnRefused> {
        let Opened { mut conversation, notices, .. } =
            Box::pin(self.runtime().open(request, human)).await?;
        for notice in notices {
            tracing::warn!(conversation = %conversation.id(), notice, "a conversation was opened with a notice");
        }
        if !history.is_empty() {
            conversation.take_over(history).await?;
        }
        Ok(conversation)
    }
}

/// Whether background jobs are waited for when a conversation is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Watching {
    GoesOn,
    /// Their news waits for the next message.
    Goes,
}

/// Runs the task of a turn. A drain waits for it, and a panic ends nobody else's work.
pub(super) fn spawn_caught(
    token: TaskTrackerToken,
    work: impl Future<Output = ()> + Send + 'static,
) {
    tokio::spawn(async move {
        caught("a turn was lost", work).await;
        drop(token);
    });
}

fn is_interrupted(result: &TurnResult) -> bool {
    matches!(result.outcome, TurnOutcome::Interrupted)
}

/// Reports whether clients are shown an event. The others are not queued for them: a tool may
/// print without end.
fn is_for_clients(event: &TurnEvent) -> bool {
    matches!(
        event,
        TurnEvent::Text { .. }
            | TurnEvent::Reasoning { .. }
            | TurnEvent::Discarded { .. }
            | TurnEvent::ModelCalled { .. }
            | TurnEvent::ToolStarted { .. }
            | TurnEvent::ToolEnded { .. }
    )
}

/// Runs a turn to its end; `interrupt` interrupts it. Nothing if it panics: what was said until then
/// is stored, and the conversation can be closed and continued.
async fn run(
    conversation: &mut Conversation,
    input: TurnStart,
    sink: &EventSink,
    interrupt: &TurnInterrupt,
) -> Option<TurnResult> {
    let id = conversation.id().clone();
    let what = format!("the turn of conversation {id} has failed: it met a bug");
    let control = conversation.control();
    let turn: std::pin::Pin<Box<dyn Future<Output = TurnResult> + Send + '_>> = match input {
        TurnStart::Message(message) => Box::pin(conversation.run(message, sink)),
        TurnStart::JobNews(news) => Box::pin(conversation.run_job_updates(news, sink)),
        TurnStart::Resume(why) => Box::pin(conversation.resume_turn(why, sink)),
        TurnStart::Answered(text) => return Some(answered(id, text)),
    };
    let mut turn = std::pin::pin!(caught(&what, turn));
    let interrupted = async {
        tokio::select! {
            () = control.interrupt_when(&interrupt.by_owner) => {}
            () = control.interrupt_when(&interrupt.by_drain) => {}
        }
    };
    let result = tokio::select! {
        biased;
        result = &mut turn => Some(result),
        () = interrupted => None,
    };
    let result = match result {
        Some(result) => result,
        None => turn.await,
    };
    failpoint::reach("turn.ended");
    result
}

/// Returns the result of a turn of which only the answer is known.
fn answered(conversation: ConversationId, text: String) -> TurnResult {
    TurnResult {
        conversation,
        outcome: TurnOutcome::Completed,
        text,
        reasoning: String::new(),
        model_calls: 0,
        tool_calls: 0,
        usage: vestal_model::TokenUsage::default(),
        cost: vestal_agent::CostSum::default(),
        provider: String::new(),
        model: String::new(),
        last_prompt_tokens: 0,
        pending_steer: Vec::new(),
        took: Duration::ZERO,
    }
}

#[cfg(test)]
pub(crate) fn answered_for_tests(text: &str) -> TurnResult {
    answered("20260131-100000-k3v9qd".parse().unwrap(), text.to_owned())
}

/// Closes a conversation; an entry of its state goes with the record of its end.
async fn close(conversation: Conversation, settled: Option<&str>) {
    let id = conversation.id().clone();
    if let Err(error) = conversation.close_without(EndReason::OneShot, settled).await {
        tracing::warn!(conversation = %id, %error, "a conversation was not closed");
    }
}
