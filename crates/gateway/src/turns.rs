//! The turns that a gateway runs: how many at once, who may begin one, and how they end.

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
use vestal_agent::{Conversation, EndReason, Event, EventSink, NoHuman, TurnResult};
use vestal_conversations::ConversationId;
use vestal_model::{Message, UserMessage};
use vestal_runtime::{OpenRequest, Opened, Runtime, RuntimeError, Which};

/// Turns in a row that news of background jobs may begin: a model that starts a job in each of
/// them would go on for ever.
const MAX_JOB_TURNS: u32 = 20;

/// How long turns that were interrupted may take to end.
const INTERRUPTED_WITHIN: Duration = Duration::from_secs(15);

/// How often an interrupt is repeated for a turn that has not quite begun.
const REPEAT_INTERRUPT: Duration = Duration::from_millis(5);

/// A turn to be run.
#[derive(Debug)]
pub(crate) struct TurnRequest {
    /// Which conversation, and how.
    pub(crate) open: OpenRequest,
    /// What was said before, by the client's account; for a new conversation only.
    pub(crate) history: Vec<Message>,
    /// What is said now.
    pub(crate) message: UserMessage,
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

/// A turn that runs. Dropping it interrupts the turn.
#[derive(Debug)]
pub(crate) struct StartedTurn {
    /// Its conversation.
    pub(crate) conversation: ConversationId,
    /// Its number among the turns of this process.
    pub(crate) number: u64,
    /// What happens in it.
    pub(crate) events: UnboundedReceiver<Event>,
    result: oneshot::Receiver<TurnResult>,
    _interrupt: DropGuard,
}

impl StartedTurn {
    /// Waits for the next event; nothing once there are no more.
    pub(crate) async fn next_event(&mut self) -> Option<Event> {
        self.events.recv().await
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

    /// Begins a turn. It runs in a task of its own: a slow reader does not hold it up.
    pub(crate) async fn start(&self, request: TurnRequest) -> Result<StartedTurn, TurnRefused> {
        let shared = &self.0;
        // Before the question: a drain that begins in between waits for this turn.
        let token = shared.tasks.token();
        if shared.draining.is_cancelled() {
            return Err(TurnRefused::Draining);
        }
        let slot = Arc::clone(&shared.slots).try_acquire_owned();
        let slot = slot.map_err(|_| TurnRefused::Busy { limit: shared.limit })?;
        let running = Running::new(Arc::clone(shared), slot);
        let interrupt = shared.interrupt.child_token();
        let (opened_sender, opened) = oneshot::channel();
        let (result_sender, result) = oneshot::channel();
        let (event_sender, events) = unbounded_channel();
        let guard = interrupt.clone().drop_guard();
        let turns = self.clone();
        tokio::spawn(async move {
            let _token = token;
            let mut conversation = match turns.open(request.open, request.history).await {
                Ok(conversation) => conversation,
                Err(refused) => {
                    // If nobody listens any more, nobody is to be told.
                    opened_sender.send(Err(refused)).ok();
                    return;
                }
            };
            let id = conversation.id().clone();
            if opened_sender.send(Ok(id.clone())).is_err() {
                return Box::pin(close(conversation)).await;
            }
            let sink = EventSink::new(move |event| {
                event.log();
                if is_for_clients(&event) {
                    // A reader that is gone has interrupted the turn already.
                    event_sender.send(event).ok();
                }
            });
            let turn = Turn::Message(request.message);
            let result = run(&mut conversation, turn, &sink, &interrupt).await;
            drop(sink);
            let jobs = conversation.job_watch().filter(|_| !interrupt.is_cancelled());
            // Before the result is sent: whoever has it may go on with the session at once.
            Box::pin(close(conversation)).await;
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
        Ok(StartedTurn { conversation: opened, number, events, result, _interrupt: guard })
    }

    async fn open(
        &self,
        request: OpenRequest,
        history: Vec<Message>,
    ) -> Result<Conversation, TurnRefused> {
        let Opened { mut conversation, notices, .. } =
            Box::pin(self.0.runtime.open(request, Arc::new(NoHuman))).await?;
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
            let slot = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                slot = async {
                    jobs.changed().await;
                    Arc::clone(&self.0.slots).acquire_owned().await
                } => slot,
            };
            let Ok(slot) = slot else { return };
            let running = Running::new(Arc::clone(&self.0), slot);
            let request =
                OpenRequest { which: Which::Id(id.clone()), ..OpenRequest::new("gateway") };
            let mut conversation = match self.open(request, Vec::new()).await {
                Ok(conversation) => conversation,
                Err(error) => {
                    // Whoever uses it hears the news there.
                    tracing::info!(conversation = %id, %error, "news of background jobs waits for the next message");
                    return;
                }
            };
            let sink = EventSink::new(|event| event.log());
            let news = tokio::select! {
                biased;
                () = self.0.interrupt.cancelled() => Vec::new(),
                news = conversation.take_job_updates(&sink) => news,
            };
            let mut is_completed = true;
            if !news.is_empty() {
                let turn = Turn::JobNews(news);
                let result = run(&mut conversation, turn, &sink, &self.0.interrupt).await;
                is_completed = result.outcome.is_completed();
            }
            let more = conversation.job_watch();
            Box::pin(close(conversation)).await;
            drop(running);
            match more.filter(|_| is_completed) {
                Some(more) => jobs = more,
                None => return,
            }
        }
        tracing::warn!(conversation = %id, "background jobs began {MAX_JOB_TURNS} turns in a row; their further news waits for the next message");
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
}

/// Runs a turn to its end; `interrupt` interrupts it.
async fn run(
    conversation: &mut Conversation,
    turn: Turn,
    sink: &EventSink,
    interrupt: &CancellationToken,
) -> TurnResult {
    let control = conversation.control();
    let mut turn: std::pin::Pin<Box<dyn Future<Output = TurnResult> + Send + '_>> = match turn {
        Turn::Message(message) => Box::pin(conversation.run(message, sink)),
        Turn::JobNews(news) => Box::pin(conversation.run_job_updates(news, sink)),
    };
    let interrupted = async {
        interrupt.cancelled().await;
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
