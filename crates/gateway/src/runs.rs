//! Runs: turns that do not depend on whoever started them. What happens in one is stored before
//! anybody sees it, so that a reader who comes back misses nothing and sees nothing twice.

mod recorder;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use vestal_runtime::{AnswerError, RemoteAnswer, RemoteHuman, RemoteQuestion};

use crate::store::{
    EventWriter, GatewayStore, NewRun, RunRecord, RunStatus, StoreResult, StoredEvent,
};
use crate::turns::{TurnRefused, TurnRequest, Turns};
use recorder::Recorder;

/// Events of a run in progress that are kept in memory for its readers.
const TAIL_EVENTS: usize = 512;

/// How much these may be.
const TAIL_BYTES: usize = 256 << 10;

/// Events that a reader takes at once.
const PAGE: u32 = 256;

/// How often what is too old is removed.
const PRUNE_EVERY: Duration = Duration::from_hours(1);

/// Runs turns as runs. Clones share everything.
#[derive(Debug, Clone)]
pub(crate) struct Runs(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    turns: Turns,
    store: GatewayStore,
    writer: EventWriter,
    live: Mutex<HashMap<String, Arc<LiveRun>>>,
    tasks: TaskTracker,
}

/// Why a run was not begun.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunRefused {
    /// Its turn was not begun.
    #[error(transparent)]
    Turn(#[from] TurnRefused),
    /// It could not be stored.
    #[error(transparent)]
    Store(#[from] vestal_database::Error),
    /// There is no randomness for its id.
    #[error("no id for a run: {0}")]
    Id(std::io::Error),
}

/// A run in progress.
pub(crate) struct LiveRun {
    key: i64,
    /// Cancelled when it is to end.
    stop: CancellationToken,
    human: Arc<RemoteHuman>,
    tail: Mutex<Tail>,
    /// The number of its last event, and whether that is the last of all.
    position: watch::Sender<Position>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Position {
    last: i64,
    is_ended: bool,
}

/// The newest events of a run.
#[derive(Debug, Default)]
struct Tail {
    events: VecDeque<StoredEvent>,
    bytes: usize,
}

impl Runs {
    /// Takes over the store. Runs that the gateway before left in progress are ended as
    /// interrupted: nobody goes on with them, and nobody waits for them in vain.
    pub(crate) async fn start(turns: Turns, store: GatewayStore) -> StoreResult<Self> {
        for lost in store.end_lost_runs().await? {
            tracing::warn!(
                run = lost.id,
                session = lost.session,
                "a run was in progress when the gateway ended; it ends as interrupted"
            );
        }
        let writer = EventWriter::start(store.clone());
        let (live, tasks) = (Mutex::default(), TaskTracker::new());
        let runs = Self(Arc::new(Shared { turns, store, writer, live, tasks }));
        tokio::spawn(prune(Arc::downgrade(&runs.0)));
        Ok(runs)
    }

    /// Begins a run. It goes on whoever reads its events, and ends with its turn.
    pub(crate) async fn begin(
        &self,
        request: TurnRequest,
        model: String,
    ) -> Result<RunRecord, RunRefused> {
        let (asked, questions) = tokio::sync::mpsc::unbounded_channel();
        let human = RemoteHuman::new(move |event| {
            // A run that has ended asks nobody.
            asked.send(event).ok();
        });
        let request = TurnRequest { human: Arc::clone(&human) as _, ..request };
        let turn = self.0.turns.start(request).await?;
        let id = new_id("run").map_err(RunRefused::Id)?;
        let session = turn.conversation.to_string();
        let new = NewRun { id: id.clone(), session: session.clone(), model: model.clone() };
        // If it cannot be stored, the turn is dropped, which interrupts it.
        let key = self.0.store.create_run(&new).await?;
        let live = Arc::new(LiveRun {
            key,
            stop: CancellationToken::new(),
            human,
            tail: Mutex::default(),
            position: watch::Sender::default(),
        });
        self.live().insert(id.clone(), Arc::clone(&live));
        let recorder = Recorder::new(Arc::clone(&live), self.0.writer.clone(), session.clone());
        let (runs, name) = (self.clone(), id.clone());
        self.0.tasks.spawn(async move {
            recorder.record(turn, questions).await;
            runs.live().remove(&name);
        });
        Ok(RunRecord {
            key,
            id,
            session,
            model,
            status: RunStatus::Started,
            created_at: Timestamp::now(),
            ended_at: None,
            output: None,
            usage: None,
            error: None,
            last_event: 0,
        })
    }

    /// Returns a run as it is now, with its open questions.
    pub(crate) async fn get(
        &self,
        id: &str,
    ) -> StoreResult<Option<(RunRecord, Vec<RemoteQuestion>)>> {
        let live = self.live_run(id);
        let Some(mut record) = self.0.store.run(id).await? else { return Ok(None) };
        let questions = match live {
            Some(live) if record.ended_at.is_none() => live.human.open_questions(),
            _ => Vec::new(),
        };
        if !questions.is_empty() {
            record.status = RunStatus::Waiting;
        }
        Ok(Some((record, questions)))
    }

    /// Returns the newest runs.
    pub(crate) async fn list(&self, limit: u32) -> StoreResult<Vec<RunRecord>> {
        self.0.store.runs(limit).await
    }

    /// Stops a run and its commands; reports whether it was in progress. It has ended when its
    /// last event says so.
    pub(crate) fn stop(&self, id: &str) -> bool {
        let live = self.live_run(id);
        if let Some(live) = &live {
            live.stop.cancel();
        }
        live.is_some()
    }

    /// Answers a question of a run in progress.
    pub(crate) fn answer(
        &self,
        id: &str,
        question: &str,
        answer: RemoteAnswer,
    ) -> Result<(), AnswerError> {
        let live = self.live_run(id).ok_or(AnswerError::NotOpen)?;
        live.human.answer(question, answer)
    }

    /// Returns a reader of the events of a run, after the one with this number.
    pub(crate) fn read(&self, run: &RunRecord, after: i64) -> EventReader {
        let live = self.live_run(&run.id);
        let position = live.as_ref().map(|live| live.position.subscribe());
        let store = self.0.store.clone();
        EventReader {
            key: run.key,
            store,
            live,
            position,
            cursor: after.max(0),
            ready: VecDeque::new(),
        }
    }

    /// Waits until every run has ended and its events are stored. Their turns must have ended.
    pub(crate) async fn finish(&self) {
        self.0.tasks.close();
        self.0.tasks.wait().await;
    }

    fn live_run(&self, id: &str) -> Option<Arc<LiveRun>> {
        self.live().get(id).cloned()
    }

    fn live(&self) -> MutexGuard<'_, HashMap<String, Arc<LiveRun>>> {
        self.0.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LiveRun {
    /// Shows stored events to readers.
    fn publish(&self, events: Vec<StoredEvent>, is_ended: bool) {
        let last = events.last().map(|event| event.seq);
        {
            let mut tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
            for event in events {
                tail.bytes += event.bytes();
                tail.events.push_back(event);
            }
            while tail.events.len() > TAIL_EVENTS || tail.bytes > TAIL_BYTES {
                let Some(gone) = tail.events.pop_front() else { break };
                tail.bytes -= gone.bytes();
            }
        }
        self.position.send_modify(|position| {
            position.last = last.unwrap_or(position.last);
            position.is_ended |= is_ended;
        });
    }

    /// Returns the events after a number, if all of them are in memory.
    fn after(&self, cursor: i64) -> Option<Vec<StoredEvent>> {
        let tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        let first = tail.events.front()?.seq;
        (first <= cursor.saturating_add(1))
            .then(|| tail.events.iter().filter(|event| event.seq > cursor).cloned().collect())
    }
}

impl std::fmt::Debug for LiveRun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LiveRun").field("key", &self.key).finish_non_exhaustive()
    }
}

/// Reads the events of a run in order, from the store and, while it is in progress, as they come.
/// A slow reader costs nothing: it reads where it is.
#[derive(Debug)]
pub(crate) struct EventReader {
    key: i64,
    store: GatewayStore,
    live: Option<Arc<LiveRun>>,
    position: Option<watch::Receiver<Position>>,
    cursor: i64,
    ready: VecDeque<StoredEvent>,
}

impl EventReader {
    /// Waits for the next event; nothing after the last.
    pub(crate) async fn next(&mut self) -> StoreResult<Option<StoredEvent>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                self.cursor = event.seq;
                return Ok(Some(event));
            }
            let position = self.position.as_mut().map(|position| *position.borrow_and_update());
            if position.is_none_or(|position| position.last > self.cursor) {
                let recent = self.live.as_ref().and_then(|live| live.after(self.cursor));
                self.ready = match recent {
                    Some(events) => events.into(),
                    None => self.store.events(self.key, self.cursor, PAGE).await?.into(),
                };
                if !self.ready.is_empty() {
                    continue;
                }
            }
            match (&mut self.position, position) {
                (Some(_), Some(Position { is_ended: true, .. })) | (None, _) | (_, None) => {
                    return Ok(None);
                }
                (Some(changes), Some(_)) => {
                    if changes.changed().await.is_err() {
                        return Ok(None);
                    }
                }
            }
        }
    }
}

/// Removes what is too old, now and then, until the runs are gone.
async fn prune(runs: std::sync::Weak<Shared>) {
    loop {
        let Some(store) = runs.upgrade().map(|shared| shared.store.clone()) else { return };
        if let Err(error) = store.prune(Timestamp::now()).await {
            tracing::warn!(%error, "old runs and responses were not removed");
        }
        drop(store);
        tokio::time::sleep(PRUNE_EVERY).await;
    }
}

/// Returns an id that was never used: a word, and 120 random bits.
pub(crate) fn new_id(word: &str) -> std::io::Result<String> {
    let mut bytes = [0_u8; 15];
    getrandom::fill(&mut bytes).map_err(std::io::Error::from)?;
    let digit = |half: u8| char::from(b"0123456789abcdef"[usize::from(half & 15)]);
    let hex: String = bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(*byte)]).collect();
    Ok(format!("{word}_{hex}"))
}
