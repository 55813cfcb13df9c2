//! The turns that a gateway runs: how many at once, who may begin one, and how they end.

mod resume;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;
use vestal_agent::tools::JobWatch;
use vestal_agent::{
    Conversation, EndReason, Event, EventSink, Human, NoHuman, OpenError, Outcome, TurnResult,
};
use vestal_conversations::{ConversationId, Store};
use vestal_model::{Message, UserMessage};
use vestal_runtime::{OpenRequest, Opened, Runtime, RuntimeError, Which};

use crate::failpoint;
use crate::unfinished::{Commitment, TurnOwner, UnfinishedTurn};

/// Turns in a row that news of background jobs may begin: a model that starts a job in each of
/// them would go on for ever.
const MAX_JOB_TURNS: u32 = 20;

/// How long turns that were interrupted may take to end.
const INTERRUPTED_WITHIN: Duration = Duration::from_secs(15);

/// How often an interrupt is repeated for a turn that has not quite begun.
const REPEAT_INTERRUPT: Duration = Duration::from_millis(5);

/// The first and the longest pause before a conversation is tried again that somebody else has open.
const BUSY_PAUSES: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(30));

/// A turn to be run.
pub(crate) struct TurnRequest {
    /// Which conversation, and how.
    pub(crate) open: OpenRequest,
    /// What was said before, by the client's account; for a new conversation only.
    pub(crate) history: Vec<Message>,
    /// What is said now.
    pub(crate) message: UserMessage,
    /// Who can be asked during the turn.
    pub(crate) human: Arc<dyn Human>,
}

impl TurnRequest {
    /// Returns a turn without a history, and with nobody to ask.
    pub(crate) fn new(open: OpenRequest, message: UserMessage) -> Self {
        Self { open, history: Vec::new(), message, human: Arc::new(NoHuman) }
    }
}

impl std::fmt::Debug for TurnRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TurnRequest").field("open", &self.open).finish_non_exhaustive()
    }
}

/// Why a turn was not begun.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TurnRefused {
    /// As many run as may.
    #[error("{limit} runs are in progress, which is the limit")]
    Busy {
        /// How many may.
        limit: usize,
    },
    /// The gateway is about to stop.
    #[error("the gateway is stopping and takes no new work")]
    Draining,
    /// The conversation cannot be opened.
    #[error(transparent)]
    Open(#[from] RuntimeError),
    /// The conversation cannot be stored.
    #[error(transparent)]
    Store(#[from] vestal_conversations::Error),
}

impl TurnRefused {
    /// Reports whether somebody else has the conversation open.
    fn is_busy(&self) -> bool {
        use vestal_conversations::Error::Busy;
        matches!(
            self,
            Self::Store(Busy { .. })
                | Self::Open(
                    RuntimeError::Store(Busy { .. })
                        | RuntimeError::Open(OpenError::Store(Busy { .. }))
                )
        )
    }
}

/// What interrupts a turn.
#[derive(Debug, Clone)]
struct Interrupt {
    /// Whoever began the turn does not want it any more.
    by_owner: CancellationToken,
    /// The gateway ends.
    by_drain: CancellationToken,
}

impl Interrupt {
    async fn requested(&self) {
        tokio::select! {
            () = self.by_owner.cancelled() => {}
            () = self.by_drain.cancelled() => {}
        }
    }

    /// Reports whether the end of the gateway is the only reason.
    fn is_by_drain_alone(&self) -> bool {
        self.by_drain.is_cancelled() && !self.by_owner.is_cancelled()
    }
}

/// A turn that runs. Dropping it interrupts the turn, and says that nobody wants it any more.
#[derive(Debug)]
pub(crate) struct StartedTurn {
    /// Its conversation.
    pub(crate) conversation: ConversationId,
    /// Its number among the turns of this process.
    pub(crate) number: u64,
    /// What happens in it.
    pub(crate) events: UnboundedReceiver<Event>,
    result: oneshot::Receiver<TurnResult>,
    interrupt: CancellationToken,
    _interrupt_on_drop: DropGuard,
}

impl StartedTurn {
    /// Waits for the next event; nothing once there are no more.
    pub(crate) async fn next_event(&mut self) -> Option<Event> {
        self.events.recv().await
    }

    /// Interrupts the turn and its commands. Its last events and its result still come.
    pub(crate) fn interrupt(&self) {
        self.interrupt.cancel();
    }

    /// Waits for the result; nothing if the turn's task was lost.
    pub(crate) async fn result(&mut self) -> Option<TurnResult> {
        (&mut self.result).await.ok()
    }
}

/// How a drain ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Drained {
    /// Turns that had to be interrupted.
    pub(crate) interrupted: usize,
    /// Turns that did not end even so.
    pub(crate) stuck: usize,
}

/// Runs turns. Cheap to clone; clones share everything.
#[derive(Debug, Clone)]
pub(crate) struct Turns(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    runtime: Runtime,
    limit: usize,
    slots: Arc<Semaphore>,
    /// How many run.
    active: watch::Sender<usize>,
    /// Cancelled when no new work is taken.
    draining: CancellationToken,
    /// Cancelled when what still runs must end.
    interrupt: CancellationToken,
    tasks: TaskTracker,
    /// How many were ever begun.
    begun: AtomicU64,
    /// Who waits for news of background jobs, by conversation: a number and what ends it.
    watching: Mutex<HashMap<ConversationId, (u64, CancellationToken)>>,
}

impl Turns {
    pub(crate) fn new(runtime: Runtime, limit: usize) -> Self {
        Self(Arc::new(Shared {
            runtime,
            limit,
            slots: Arc::new(Semaphore::new(limit)),
            active: watch::Sender::new(0),
            draining: CancellationToken::new(),
            interrupt: CancellationToken::new(),
            tasks: TaskTracker::new(),
            begun: AtomicU64::new(0),
            watching: Mutex::default(),
        }))
    }

    /// Returns the agent that they are turns of.
    pub(crate) fn runtime(&self) -> &Runtime {
        &self.0.runtime
    }

    /// Returns how many may run at once.
    pub(crate) fn limit(&self) -> usize {
        self.0.limit
    }

    /// Returns how many run, and learns of changes.
    pub(crate) fn active(&self) -> watch::Receiver<usize> {
        self.0.active.subscribe()
    }

    /// Begins a turn for a client that waits for it. It runs in a task of its own: a slow reader
    /// does not hold it up.
    pub(crate) async fn start(&self, request: TurnRequest) -> Result<StartedTurn, TurnRefused> {
        self.start_for(TurnOwner::Client, request).await
    }

    /// Begins a turn for somebody. When this returns, it is on record: one whose owner outlives this
    /// process is resumed by the next one, unless it was dropped.
    pub(crate) async fn start_for(
        &self,
        owner: TurnOwner,
        request: TurnRequest,
    ) -> Result<StartedTurn, TurnRefused> {
        let shared = &self.0;
        // Before the question: a drain that begins in between waits for this turn.
        let token = shared.tasks.token();
        if shared.draining.is_cancelled() {
            return Err(TurnRefused::Draining);
        }
        let slot = Arc::clone(&shared.slots).try_acquire_owned();
        let slot = slot.map_err(|_| TurnRefused::Busy { limit: shared.limit })?;
        let running = Running::new(Arc::clone(shared), slot);
        let interrupt = self.interrupt();
        let (opened_sender, opened) = oneshot::channel();
        let (result_sender, result) = oneshot::channel();
        let (event_sender, events) = unbounded_channel();
        let handle = interrupt.by_owner.clone();
        // Also when nobody waits for the conversation to be opened any more.
        let on_drop = handle.clone().drop_guard();
        let turns = self.clone();
        tokio::spawn(async move {
            let _token = token;
            let TurnRequest { open, history, message, human } = request;
            let begun = turns.begin(owner, open, history, human).await;
            let (mut conversation, unfinished) = match begun {
                Ok(begun) => begun,
                Err(refused) => {
                    // If nobody listens any more, nobody is to be told.
                    opened_sender.send(Err(refused)).ok();
                    return;
                }
            };
            let id = conversation.id().clone();
            if opened_sender.send(Ok(id.clone())).is_err() {
                turns.leave(conversation).await;
                return;
            }
            let sink = EventSink::new(move |event| {
                event.log();
                if is_for_clients(&event) {
                    // A reader that is gone has interrupted the turn already.
                    event_sender.send(event).ok();
                }
            });
            let turn = Turn::Message(message);
            let result = run(&mut conversation, turn, &sink, &interrupt).await;
            drop(sink);
            // Before the result is sent: whoever has it may go on with the session at once.
            let jobs = turns.conclude(conversation, unfinished, &result, &interrupt).await;
            drop(running);
            if result_sender.send(result).is_ok()
                && let Some(jobs) = jobs
            {
                turns.watch_jobs(id, jobs);
            }
        });
        // The task sends before it ends, unless it panics.
        let opened = opened.await.unwrap_or(Err(TurnRefused::Draining))?;
        let number = shared.begun.fetch_add(1, Ordering::Relaxed);
        Ok(StartedTurn {
            conversation: opened,
            number,
            events,
            result,
            interrupt: handle,
            _interrupt_on_drop: on_drop,
        })
    }

    fn interrupt(&self) -> Interrupt {
        Interrupt { by_owner: CancellationToken::new(), by_drain: self.0.interrupt.clone() }
    }

    fn store(&self) -> &Store {
        self.0.runtime.agent().store()
    }

    /// Opens a conversation and puts on record that a turn runs in it.
    async fn begin(
        &self,
        owner: TurnOwner,
        request: OpenRequest,
        history: Vec<Message>,
        human: Arc<dyn Human>,
    ) -> Result<(Conversation, UnfinishedTurn), TurnRefused> {
        let conversation = self.open(request, history, human).await?;
        let turn = UnfinishedTurn::new(owner, conversation.last_seq());
        if let Err(error) = Commitment::store(self.store(), conversation.id(), Some(&turn)).await {
            Box::pin(close(conversation)).await;
            return Err(error.into());
        }
        failpoint::reach("turn.recorded");
        Ok((conversation, turn))
    }

    /// Closes a conversation after a turn and stores what is left to do in it. Returns the
    /// background jobs to wait for.
    async fn conclude(
        &self,
        conversation: Conversation,
        turn: UnfinishedTurn,
        result: &TurnResult,
        interrupt: &Interrupt,
    ) -> Option<JobWatch> {
        failpoint::reach("turn.ended");
        let was_drained =
            matches!(result.outcome, Outcome::Interrupted) && interrupt.is_by_drain_alone();
        let rest = if was_drained { turn.interrupted() } else { None };
        let jobs = conversation.job_watch();
        // Also when the client is gone: jobs of earlier turns are still watched.
        self.record(conversation.id(), rest.as_ref(), jobs.as_ref()).await;
        failpoint::reach("turn.settled");
        Box::pin(close(conversation)).await;
        jobs.filter(|_| rest.is_none() && !interrupt.by_owner.is_cancelled())
    }

    /// Closes a conversation in which no turn was run. Returns the background jobs to wait for.
    async fn leave(&self, conversation: Conversation) -> Option<JobWatch> {
        let jobs = conversation.job_watch();
        self.record(conversation.id(), None, jobs.as_ref()).await;
        Box::pin(close(conversation)).await;
        jobs
    }

    /// Stores what is left to do in a conversation. Where that fails the next process looks, and
    /// finds that nothing is.
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

    async fn open(
        &self,
        request: OpenRequest,
        history: Vec<Message>,
        human: Arc<dyn Human>,
    ) -> Result<Conversation, TurnRefused> {
        let Opened { mut conversation, notices, .. } =
            Box::pin(self.0.runtime.open(request, human)).await?;
        for notice in notices {
            tracing::warn!(conversation = %conversation.id(), notice, "a conversation was opened with a notice");
        }
        if !history.is_empty() {
            conversation.take_over(history).await?;
        }
        Ok(conversation)
    }

    /// Lets the model hear of news of background jobs as it comes. The conversation is not held
    /// meanwhile: a person can go on with it, and then the news comes with what they say.
    fn watch_jobs(&self, id: ConversationId, jobs: JobWatch) {
        let number = self.0.begun.fetch_add(1, Ordering::Relaxed);
        let stop = self.0.draining.child_token();
        // One that still waits knows only the jobs of earlier turns.
        if let Some((_, earlier)) = self.watching().insert(id.clone(), (number, stop.clone())) {
            earlier.cancel();
        }
        let turns = self.clone();
        self.0.tasks.spawn(async move {
            Box::pin(turns.follow_jobs(&id, jobs, &stop)).await;
            let mut watching = turns.watching();
            if watching.get(&id).is_some_and(|(own, _)| *own == number) {
                watching.remove(&id);
            }
        });
    }

    async fn follow_jobs(&self, id: &ConversationId, mut jobs: JobWatch, stop: &CancellationToken) {
        for _ in 0..MAX_JOB_TURNS {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = jobs.changed() => {}
            }
            let Some((running, mut conversation)) = self.claim(id, stop).await else { return };
            let sink = EventSink::new(|event| event.log());
            let news = tokio::select! {
                biased;
                () = self.0.interrupt.cancelled() => Vec::new(),
                news = conversation.take_job_updates(&sink) => news,
            };
            failpoint::reach("jobs.news-taken");
            let more = if news.is_empty() {
                self.leave(conversation).await
            } else {
                let turn = UnfinishedTurn::new(TurnOwner::JobNews, conversation.last_seq());
                // Not closed on failure: that would store that the news has been told.
                if let Err(error) = Commitment::store(self.store(), id, Some(&turn)).await {
                    tracing::error!(conversation = %id, %error, "news of background jobs waits for the next message");
                    return;
                }
                failpoint::reach("turn.recorded");
                let interrupt = self.interrupt();
                let result = run(&mut conversation, Turn::JobNews(news), &sink, &interrupt).await;
                self.conclude(conversation, turn, &result, &interrupt).await
            };
            drop(running);
            match more {
                Some(more) => jobs = more,
                None => return,
            }
        }
        tracing::warn!(conversation = %id, "background jobs began {MAX_JOB_TURNS} turns in a row; their further news waits for the next message");
        self.record(id, None, None).await;
    }

    /// Opens a conversation for a turn as soon as one more may run and nobody else has it open;
    /// nothing if that cannot be, or the gateway ends first.
    async fn claim(
        &self,
        id: &ConversationId,
        stop: &CancellationToken,
    ) -> Option<(Running, Conversation)> {
        let mut pause = BUSY_PAUSES.0;
        loop {
            let slot = tokio::select! {
                biased;
                () = stop.cancelled() => return None,
                slot = Arc::clone(&self.0.slots).acquire_owned() => slot.ok()?,
            };
            let running = Running::new(Arc::clone(&self.0), slot);
            let request =
                OpenRequest { which: Which::Id(id.clone()), ..OpenRequest::new("gateway") };
            match self.open(request, Vec::new(), Arc::new(NoHuman)).await {
                Ok(conversation) => return Some((running, conversation)),
                Err(refused) if refused.is_busy() => drop(running),
                Err(error) => {
                    tracing::warn!(conversation = %id, %error, "a conversation cannot be opened; it goes on with the next message or the next start");
                    return None;
                }
            }
            // Whoever has it may tell the news, or go on with it, meanwhile.
            tokio::select! {
                biased;
                () = stop.cancelled() => return None,
                () = tokio::time::sleep(pause) => pause = (pause * 2).min(BUSY_PAUSES.1),
            }
        }
    }

    /// Lets a turn begin that somebody else runs. It counts as all others do, and a drain waits
    /// for it, until the value is dropped.
    pub(crate) fn admit(&self) -> Result<AdmittedTurn, TurnRefused> {
        let shared = &self.0;
        // Before the question, as in [`Turns::start`].
        let token = shared.tasks.token();
        if shared.draining.is_cancelled() {
            return Err(TurnRefused::Draining);
        }
        let slot = Arc::clone(&shared.slots).try_acquire_owned();
        let slot = slot.map_err(|_| TurnRefused::Busy { limit: shared.limit })?;
        let interrupt = shared.interrupt.child_token();
        Ok(AdmittedTurn {
            interrupt,
            _running: Running::new(Arc::clone(shared), slot),
            _token: token,
        })
    }

    /// Does something when no new work is taken any more; a drain waits for its end.
    pub(crate) fn when_draining<F>(&self, work: impl FnOnce() -> F + Send + 'static)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let draining = self.0.draining.clone();
        self.0.tasks.spawn(async move {
            draining.cancelled().await;
            work().await;
        });
    }

    /// Takes no new work from now on.
    pub(crate) fn stop_taking(&self) {
        self.0.draining.cancel();
        self.0.tasks.close();
    }

    /// Waits for what runs, interrupts what does not end in time or when `hurry` resolves, and
    /// waits for that.
    pub(crate) async fn drain(
        &self,
        patience: Duration,
        hurry: impl Future<Output = ()>,
    ) -> Drained {
        self.stop_taking();
        tokio::select! {
            () = self.0.tasks.wait() => return Drained { interrupted: 0, stuck: 0 },
            () = tokio::time::sleep(patience) => {}
            () = hurry => {}
        }
        let interrupted = *self.0.active.borrow();
        self.0.interrupt.cancel();
        let ended = tokio::time::timeout(INTERRUPTED_WITHIN, self.0.tasks.wait()).await;
        Drained { interrupted, stuck: if ended.is_ok() { 0 } else { *self.0.active.borrow() } }
    }

    fn watching(&self) -> MutexGuard<'_, HashMap<ConversationId, (u64, CancellationToken)>> {
        self.0.watching.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A turn that another part of the gateway runs: counted, waited for and interrupted by a drain like
/// the others, but not one of those that clients share.
#[derive(Debug)]
pub(crate) struct EnlistedTurn {
    shared: Arc<Shared>,
    _token: TaskTrackerToken,
}

impl Turns {
    /// Enlists a turn of another part; refused while the gateway stops.
    pub(crate) fn enlist(&self) -> Result<EnlistedTurn, TurnRefused> {
        let token = self.0.tasks.token();
        if self.0.draining.is_cancelled() {
            return Err(TurnRefused::Draining);
        }
        self.0.active.send_modify(|active| *active += 1);
        Ok(EnlistedTurn { shared: Arc::clone(&self.0), _token: token })
    }
}

impl EnlistedTurn {
    /// Returns when the turn must end.
    pub(crate) async fn interrupted(&self) {
        self.shared.interrupt.cancelled().await;
    }
}

impl Drop for EnlistedTurn {
    fn drop(&mut self) {
        self.shared.active.send_modify(|active| *active -= 1);
    }
}

/// A turn that somebody else runs.
#[derive(Debug)]
pub(crate) struct AdmittedTurn {
    /// Cancelled when it must end.
    pub(crate) interrupt: CancellationToken,
    _running: Running,
    _token: TaskTrackerToken,
}

/// Counts a turn while it runs, and holds its slot.
#[derive(Debug)]
struct Running {
    shared: Arc<Shared>,
    _slot: OwnedSemaphorePermit,
}

impl Running {
    fn new(shared: Arc<Shared>, slot: OwnedSemaphorePermit) -> Self {
        shared.active.send_modify(|active| *active += 1);
        Self { shared, _slot: slot }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.shared.active.send_modify(|active| *active -= 1);
    }
}

/// Reports whether clients are shown an event. The others are not queued for them: a tool may
/// print without end.
fn is_for_clients(event: &Event) -> bool {
    matches!(
        event,
        Event::Text { .. }
            | Event::Reasoning { .. }
            | Event::Discarded { .. }
            | Event::ModelCalled { .. }
            | Event::ToolStarted { .. }
            | Event::ToolEnded { .. }
    )
}

/// What a turn begins with.
enum Turn {
    Message(UserMessage),
    JobNews(Vec<String>),
    /// The rest of an earlier one; the model reads this first.
    Resume(&'static str),
}

/// Runs a turn to its end; `interrupt` interrupts it.
async fn run(
    conversation: &mut Conversation,
    turn: Turn,
    sink: &EventSink,
    interrupt: &Interrupt,
) -> TurnResult {
    let control = conversation.control();
    let mut turn: std::pin::Pin<Box<dyn Future<Output = TurnResult> + Send + '_>> = match turn {
        Turn::Message(message) => Box::pin(conversation.run(message, sink)),
        Turn::JobNews(news) => Box::pin(conversation.run_job_updates(news, sink)),
        Turn::Resume(why) => Box::pin(conversation.resume_turn(why, sink)),
    };
    let interrupted = async {
        interrupt.requested().await;
        // A turn that has not quite begun cannot be interrupted yet.
        while !control.interrupt() {
            tokio::time::sleep(REPEAT_INTERRUPT).await;
        }
    };
    tokio::select! {
        biased;
        result = &mut turn => return result,
        () = interrupted => {}
    }
    turn.await
}

async fn close(conversation: Conversation) {
    let id = conversation.id().clone();
    if let Err(error) = conversation.close(EndReason::OneShot).await {
        tracing::warn!(conversation = %id, %error, "a conversation was not closed");
    }
}
