//! Runs: turns that do not depend on the client that started them. Each event is stored before
//! anybody sees it, so that a reader that reconnects misses nothing and sees nothing twice.

mod live;
mod recorder;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::oneshot;
use tokio_util::task::TaskTracker;
use vestal_conversations::ConversationId;
use vestal_runtime::{
    AnswerError, ApprovalReach, QuestionEvent, RemoteAnswer, RemoteHuman, RemoteQuestion,
};

use crate::failpoint;
use crate::http::ApiError;
use crate::panics::caught;
use crate::questions::QuestionChanges;
use crate::store::{
    AgentRunEnd, EventWriter, GatewayStore, NewAgentRun, NewRunEvent, RunRecord, RunStatus,
    StoreResult,
};
use crate::turns::{Resumption, TurnRefused, TurnRequest, Turns};
use crate::unfinished::{TurnOwner, UnfinishedTurn};
pub(crate) use live::EventReader;
use live::{LiveRun, record_as_shown};
use recorder::Recorder;

/// How often what is too old is removed.
const PRUNE_EVERY: Duration = Duration::from_hours(1);

/// How far the numbers of questions of a resumed run are beyond those of its events. A question may
/// have been shown whose event was not stored; none is ever numbered twice.
const QUESTIONS_BEYOND: u64 = 100;

/// Runs turns as runs. Clones share everything.
#[derive(Debug, Clone)]
pub(crate) struct Runs(Arc<RunsState>);

#[derive(Debug)]
struct RunsState {
    turns: Turns,
    store: GatewayStore,
    writer: EventWriter,
    live: Mutex<HashMap<String, Arc<LiveRun>>>,
    /// Runs that an earlier process left in progress. The caller that takes one out decides about it.
    left: Mutex<HashMap<String, LeftRun>>,
    tasks: TaskTracker,
    /// Whom to tell of questions.
    changes: QuestionChanges,
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

/// A run that an earlier process left in progress. It can be read, stopped and waited for.
struct LeftRun {
    record: RunRecord,
    live: Arc<LiveRun>,
    questions: UnboundedReceiver<QuestionEvent>,
}

impl Runs {
    /// Takes over the store. Runs that the gateway before left in progress are in progress: they are
    /// [resumed](Self::resume), [given up](Self::give_up) or [ended](Self::end_lost).
    pub(crate) async fn start(
        turns: Turns,
        store: GatewayStore,
        changes: QuestionChanges,
    ) -> StoreResult<Self> {
        let (mut live, mut left) = (HashMap::new(), HashMap::new());
        for record in store.open_runs().await? {
            let first = record.last_event.unsigned_abs() + QUESTIONS_BEYOND;
            let (human, questions) = ask_from(first, changes.clone());
            let run = Arc::new(LiveRun::new(&record, human));
            live.insert(record.id.clone(), Arc::clone(&run));
            left.insert(record.id.clone(), LeftRun { record, live: run, questions });
        }
        let writer = EventWriter::start(store.clone());
        let (live, left, tasks) = (Mutex::new(live), Mutex::new(left), TaskTracker::new());
        let runs = Self(Arc::new(RunsState { turns, store, writer, live, left, tasks, changes }));
        tokio::spawn(prune(Arc::downgrade(&runs.0)));
        Ok(runs)
    }

    /// Begins a run. It continues without readers of its events, and ends with its turn. A caller
    /// that stops waiting for its beginning does not prevent it. `claim` is the `Idempotency-Key`
    /// that it was asked for with.
    pub(crate) async fn begin(
        &self,
        request: TurnRequest,
        model: String,
        claim: Option<i64>,
    ) -> Result<RunRecord, RunRefused> {
        let (begun_sender, begun) = oneshot::channel();
        let runs = self.clone();
        let running = async move {
            let (record, recording) = match runs.prepare(request, model, claim).await {
                Ok(begun) => begun,
                Err(refused) => {
                    // If nobody waits for it, nobody is notified.
                    begun_sender.send(Err(refused)).ok();
                    return;
                }
            };
            let id = record.id.clone();
            begun_sender.send(Ok(record)).ok();
            recording.await;
            runs.live().remove(&id);
        };
        self.spawn(running);
        begun.await.unwrap_or(Err(RunRefused::Turn(TurnRefused::Lost)))
    }

    /// Puts a run on record and lets its turn begin. The turn's record comes first: without a run it
    /// means nothing. Then that of the run, which is acknowledged by that, and the turn last.
    async fn prepare(
        &self,
        request: TurnRequest,
        model: String,
        claim: Option<i64>,
    ) -> Result<(RunRecord, impl Future<Output = ()> + Send + use<>), RunRefused> {
        let id = new_id("run").map_err(RunRefused::Id)?;
        let (human, questions) = ask_from(1, self.0.changes.clone());
        let request = TurnRequest { human: Arc::clone(&human) as _, ..request };
        let owner = TurnOwner::Run { id: id.clone() };
        let prepared = self.0.turns.prepare(owner, request).await?;
        let session = prepared.conversation().to_string();
        // If it cannot be stored, the turn is dropped and never begins.
        let record = self.0.store.create_run(&NewAgentRun { id, session, model, claim }).await?;
        failpoint::reach("run.recorded");
        let live = Arc::new(LiveRun::new(&record, human));
        self.live().insert(record.id.clone(), Arc::clone(&live));
        let recorder = Recorder::new(live, self.0.writer.clone(), &record);
        let turn = prepared.begin();
        let started =
            NewRunEvent { name: "run.started", data: json!({ "session_id": record.session }) };
        Ok((record, recorder.record(turn, questions, vec![started])))
    }

    /// Continues a run that an earlier process left, under the same id. Returns the conversation
    /// if there is no such run any more.
    pub(crate) fn resume(
        &self,
        conversation: ConversationId,
        turn: UnfinishedTurn,
        after: Duration,
    ) -> Result<(), ConversationId> {
        let left = turn.run().and_then(|run| self.take_left(run));
        let Some(left) = left.filter(|left| left.record.session == conversation.as_str()) else {
            return Err(conversation);
        };
        let runs = self.clone();
        self.spawn(async move { runs.go_on(left, conversation, turn, after).await });
        Ok(())
    }

    async fn go_on(
        &self,
        left: LeftRun,
        conversation: ConversationId,
        turn: UnfinishedTurn,
        after: Duration,
    ) {
        let LeftRun { record, live, questions } = left;
        let reason = if turn.was_interrupted() { "restart" } else { "crash" };
        let human = Arc::clone(&live.human) as _;
        let turns = &self.0.turns;
        let resumed = turns.resume_for_owner(&conversation, turn, after, human, &live.stop).await;
        match resumed {
            Resumption::Started(turn) => {
                tracing::info!(run = record.id, session = record.session, "a run is resumed");
                let first = self.first_of_resumed(&record, reason).await;
                let recorder = Recorder::new(live, self.0.writer.clone(), &record);
                recorder.record(turn, questions, first).await;
            }
            Resumption::Stopped if live.stop.is_cancelled() => {
                self.end(&record, &live, RunStatus::Cancelled, None).await;
                // The record of its turn goes, and its background jobs are waited for.
                turns.watch_again(conversation).await;
            }
            // The gateway ends; the next one goes on.
            Resumption::Stopped => live.close(),
            Resumption::Impossible(reason) => {
                let error = ApiError::run_lost(&reason);
                self.end(&record, &live, RunStatus::Interrupted, Some(error)).await;
            }
        }
        self.live().remove(&record.id);
    }

    /// Returns the events with which a resumed run continues: questions that nobody answers any more are
    /// closed, and then it says that it was resumed.
    async fn first_of_resumed(&self, record: &RunRecord, reason: &str) -> Vec<NewRunEvent> {
        let open = self.0.store.open_questions(record.key).await.unwrap_or_else(|error| {
            tracing::warn!(run = record.id, %error, "its open questions are not known");
            Vec::new()
        });
        let closed = |id| NewRunEvent { name: "approval.closed", data: json!({ "id": id }) };
        let resumed = json!({ "session_id": record.session, "reason": reason });
        let resumed = NewRunEvent { name: "run.resumed", data: resumed };
        open.into_iter().map(closed).chain([resumed]).collect()
    }

    /// Ends a run over which too many processes have died.
    pub(crate) async fn give_up(&self, id: &str) {
        let Some(LeftRun { record, live, .. }) = self.take_left(id) else { return };
        tracing::error!(run = record.id, session = record.session, "a run is given up");
        self.end(&record, &live, RunStatus::Failed, Some(ApiError::run_given_up())).await;
        self.live().remove(&record.id);
    }

    /// Ends every run that an earlier process left and that nobody has taken up: the record of its
    /// turn is gone.
    pub(crate) async fn end_lost(&self) {
        let left: Vec<LeftRun> = self.left().drain().map(|(_, left)| left).collect();
        for LeftRun { record, live, .. } in left {
            tracing::warn!(
                run = record.id,
                session = record.session,
                "a run was in progress when the gateway ended and cannot be resumed; it ends as interrupted"
            );
            let error = ApiError::run_lost("nothing is on record of its turn");
            self.end(&record, &live, RunStatus::Interrupted, Some(error)).await;
            self.live().remove(&record.id);
        }
    }

    /// Ends a run that has no turn, with what there is of it.
    async fn end(
        &self,
        record: &RunRecord,
        live: &Arc<LiveRun>,
        status: RunStatus,
        error: Option<ApiError>,
    ) {
        let output = self.0.store.output_so_far(record.key).await.unwrap_or_else(|error| {
            tracing::warn!(run = record.id, %error, "its messages so far are unknown");
            None
        });
        let error = error.map(|error| error.body()["error"].clone());
        let end = AgentRunEnd { status, output, usage: record.usage, error };
        Recorder::new(Arc::clone(live), self.0.writer.clone(), record).end_without_turn(end).await;
    }

    /// Returns a run as it is now, with its open questions.
    pub(crate) async fn get(
        &self,
        id: &str,
    ) -> StoreResult<Option<(RunRecord, Vec<RemoteQuestion>)>> {
        let live = self.live_run(id);
        let Some(record) = self.0.store.run(id).await? else { return Ok(None) };
        let mut record = record_as_shown(record, live.as_deref());
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
        let runs = self.0.store.runs(limit).await?;
        let shown = |record: RunRecord| {
            let live = self.live_run(&record.id);
            record_as_shown(record, live.as_deref())
        };
        Ok(runs.into_iter().map(shown).collect())
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

    /// Returns the questions of all runs in progress, each with its run and conversation.
    pub(crate) fn waiting_questions(&self) -> Vec<(String, String, RemoteQuestion)> {
        let live: Vec<_> = self.live().iter().map(|(id, run)| (id.clone(), run.clone())).collect();
        let of_run = |(id, run): (String, Arc<LiveRun>)| {
            let open = run.human.open_questions().into_iter();
            open.map(move |question| (id.clone(), run.session.clone(), question))
        };
        live.into_iter().flat_map(of_run).collect()
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
        EventReader::new(run.key, self.0.store.clone(), self.live_run(&run.id), after)
    }

    /// Waits until what happened in every run is stored. Their turns must have ended.
    pub(crate) async fn finish(&self) {
        self.0.tasks.close();
        self.0.tasks.wait().await;
        // A remaining reader reconnects to the next gateway.
        for live in self.live().values() {
            live.close();
        }
    }

    fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let work = Box::pin(work);
        self.0.tasks.spawn(async move {
            caught("what happens in a run is not recorded any more", work).await;
        });
    }

    fn take_left(&self, id: &str) -> Option<LeftRun> {
        self.left().remove(id)
    }

    fn left(&self) -> MutexGuard<'_, HashMap<String, LeftRun>> {
        self.0.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn live_run(&self, id: &str) -> Option<Arc<LiveRun>> {
        self.live().get(id).cloned()
    }

    fn live(&self) -> MutexGuard<'_, HashMap<String, Arc<LiveRun>>> {
        self.0.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns somebody who can be asked, and what becomes of the questions.
fn ask_from(
    first: u64,
    changes: QuestionChanges,
) -> (Arc<RemoteHuman>, UnboundedReceiver<QuestionEvent>) {
    let (asked, questions) = unbounded_channel();
    let human = RemoteHuman::numbered_from(first, ApprovalReach::Conversation, move |event| {
        // A run that has ended asks nobody.
        asked.send(event).ok();
        changes.announce();
    });
    (human, questions)
}

impl std::fmt::Debug for LeftRun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LeftRun").field("record", &self.record).finish_non_exhaustive()
    }
}

/// Removes what is too old, now and then, until the runs are gone.
async fn prune(runs: std::sync::Weak<RunsState>) {
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
