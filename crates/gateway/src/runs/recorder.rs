//! What happens in a run, as its events say it.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::Instant;
use vestal_agent::{TurnEvent, TurnOutcome, TurnResult};
use vestal_api::AgentRunUsage;
use vestal_model::TokenUsage;
use vestal_runtime::QuestionEvent;

use super::live::LiveRun;
use crate::failpoint;
use crate::http::ApiError;
use crate::store::{
    AgentRunEnd, EventWriter, NewRunEvent, RunProgress, RunRecord, RunStatus, StoredEvent,
    stored_time,
};
use crate::turns::StartedTurn;

/// How long words wait for more before they are stored.
const GATHER_FOR: Duration = Duration::from_millis(50);

/// How many bytes of words do not wait.
const GATHER_BYTES: usize = 4 << 10;

/// How much the events of one run may be. Beyond that, words are left out; the answer is in the
/// last event all the same.
const MAX_BYTES: usize = 32 << 20;

/// Times that events which cannot be stored are tried again, and the pause between.
const ATTEMPTS: u32 = 30;
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Records one run.
#[derive(Debug)]
pub(super) struct Recorder {
    live: Arc<LiveRun>,
    writer: EventWriter,
    session: String,
    last: i64,
    bytes: usize,
    is_truncated: bool,
    /// What earlier processes used for it.
    used_before: AgentRunUsage,
    /// What it has used in this process, and whether that is stored.
    used: TokenUsage,
    is_usage_stored: bool,
    /// Words that wait for more, and until when.
    words: String,
    words_until: Option<Instant>,
    /// What the model thought in the call under way.
    reasoning: String,
    waiting: Vec<NewRunEvent>,
}

/// The events of a run cannot be stored.
#[derive(Debug)]
struct Unstored;

impl Recorder {
    /// Returns the recorder of a run, which goes on after what is stored of it.
    pub(super) fn new(live: Arc<LiveRun>, writer: EventWriter, record: &RunRecord) -> Self {
        Self {
            live,
            writer,
            session: record.session.clone(),
            last: record.last_event,
            bytes: record.event_bytes,
            is_truncated: false,
            used_before: record.usage.unwrap_or_default(),
            used: TokenUsage::default(),
            is_usage_stored: true,
            words: String::new(),
            words_until: None,
            reasoning: String::new(),
            waiting: Vec::new(),
        }
    }

    /// Records a turn to its end, after its first events.
    pub(super) async fn record(
        mut self,
        mut turn: StartedTurn,
        mut questions: UnboundedReceiver<QuestionEvent>,
        first: Vec<NewRunEvent>,
    ) {
        let is_resumed = self.last > 0;
        self.waiting = first;
        let mut is_stopped = false;
        let mut is_storable = true;
        loop {
            let is_news = !self.waiting.is_empty() || !self.is_usage_stored;
            if is_storable && is_news {
                match self.store(None).await {
                    Ok(events) => self.live.publish(events, false),
                    Err(Unstored) => {
                        // Nobody could follow it any more; what was said is in the session.
                        is_storable = false;
                        turn.interrupt();
                    }
                }
                if is_resumed {
                    failpoint::reach("run.resumed");
                }
            }
            let gathered = self.words_until;
            tokio::select! {
                biased;
                () = self.live.stop.cancelled(), if !is_stopped => {
                    is_stopped = true;
                    turn.interrupt();
                }
                Some(question) = questions.recv() => self.take_question(question),
                event = turn.next_event() => match event {
                    Some(event) => self.take(event),
                    None => break,
                },
                () = until(gathered), if gathered.is_some() => self.flush(),
            }
        }
        // Questions that the end of the turn closed.
        while let Ok(question) = questions.try_recv() {
            self.take_question(question);
        }
        self.flush();
        let Some(ended) = turn.ended().await else {
            return self.end_without_turn(end_of(None, false)).await;
        };
        let stored = if ended.is_suspended {
            let reason = "the gateway is stopping; the next one continues the run";
            self.waiting
                .push(NewRunEvent { name: "run.suspended", data: json!({ "reason": reason }) });
            self.store(None).await
        } else {
            let end = end_of(ended.result.as_ref(), is_stopped);
            let usage = ended.result.as_ref().map_or(self.used, |result| result.usage);
            let usage = Some(sum(self.used_before, &usage));
            self.store_end(AgentRunEnd { usage, ..end }).await
        };
        failpoint::reach("run.ended");
        // A client that receives the end may continue the session at once.
        ended.settle(stored.is_ok()).await;
        self.live.publish(stored.unwrap_or_default(), true);
    }

    /// Records the end of a run whose turn is not there.
    pub(super) async fn end_without_turn(mut self, end: AgentRunEnd) {
        let stored = self.store_end(end).await;
        self.live.publish(stored.unwrap_or_default(), true);
    }

    fn take(&mut self, event: TurnEvent) {
        match event {
            TurnEvent::Text { text } => {
                self.flush_reasoning();
                if self.words.is_empty() {
                    self.words_until = Some(Instant::now() + GATHER_FOR);
                }
                self.words.push_str(&text);
                if self.words.len() >= GATHER_BYTES {
                    self.flush();
                }
            }
            TurnEvent::Reasoning { text } => self.reasoning.push_str(&text),
            TurnEvent::Discarded { reason, .. } => {
                self.reasoning.clear();
                self.flush();
                let data = json!({ "reason": reason });
                self.waiting.push(NewRunEvent { name: "message.discarded", data });
            }
            TurnEvent::ModelCalled { usage, .. } => {
                self.flush();
                self.used += usage;
                self.is_usage_stored = false;
            }
            TurnEvent::ToolStarted { call, name, summary } => {
                self.flush();
                let data = json!({ "tool": name, "tool_call_id": call, "preview": summary });
                self.waiting.push(NewRunEvent { name: "tool.started", data });
            }
            TurnEvent::ToolEnded { call, name, is_error, took, preview } => {
                self.flush();
                let duration = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
                let data = json!({
                    "tool": name, "tool_call_id": call, "error": is_error,
                    "duration_ms": duration, "preview": preview,
                });
                self.waiting.push(NewRunEvent { name: "tool.completed", data });
            }
            _ => {}
        }
    }

    fn take_question(&mut self, event: QuestionEvent) {
        self.flush();
        let event = match event {
            QuestionEvent::Asked(question) => {
                NewRunEvent { name: "approval.request", data: json!(question) }
            }
            QuestionEvent::Closed { id } => {
                NewRunEvent { name: "approval.closed", data: json!({ "id": id }) }
            }
        };
        self.waiting.push(event);
    }

    /// Makes events of the words that were gathered.
    fn flush(&mut self) {
        self.flush_reasoning();
        self.words_until = None;
        let words = std::mem::take(&mut self.words);
        if words.is_empty() {
            return;
        }
        if self.bytes + words.len() > MAX_BYTES {
            if !std::mem::replace(&mut self.is_truncated, true) {
                let data = json!({ "limit_bytes": MAX_BYTES });
                self.waiting.push(NewRunEvent { name: "events.truncated", data });
            }
            return;
        }
        self.waiting.push(NewRunEvent { name: "message.delta", data: json!({ "delta": words }) });
    }

    fn flush_reasoning(&mut self) {
        let text = std::mem::take(&mut self.reasoning);
        if !text.trim().is_empty() && self.bytes + text.len() <= MAX_BYTES {
            self.waiting
                .push(NewRunEvent { name: "reasoning.available", data: json!({ "text": text }) });
        }
    }

    /// Stores what waits and returns it, to be shown to readers after that: an event that a reader
    /// saw is there after any crash, and its number is never another's.
    async fn store(&mut self, end: Option<AgentRunEnd>) -> Result<Vec<StoredEvent>, Unstored> {
        let at = stored_time(Timestamp::now());
        let mut events = Vec::with_capacity(self.waiting.len());
        for event in self.waiting.drain(..) {
            self.last += 1;
            let (name, data) = (event.name.to_owned(), event.data.to_string());
            events.push(StoredEvent { seq: self.last, at, name, data });
        }
        self.bytes += events.iter().map(StoredEvent::bytes).sum::<usize>();
        let progress = match end {
            Some(end) => RunProgress::Ended(end),
            None if self.is_usage_stored => RunProgress::Running,
            None => RunProgress::Used(sum(self.used_before, &self.used)),
        };
        for attempt in 1..=ATTEMPTS {
            match self.writer.append(self.live.key, events.clone(), progress.clone()).await {
                Ok(()) => {
                    self.is_usage_stored = true;
                    return Ok(events);
                }
                Err(error) => {
                    tracing::error!(run = self.live.key, attempt, %error, "events of a run were not stored");
                    tokio::time::sleep(RETRY_AFTER).await;
                }
            }
        }
        Err(Unstored)
    }

    /// Stores the end and the last event, which says the same. Where that fails, the next start finds
    /// out what became of the run.
    async fn store_end(&mut self, end: AgentRunEnd) -> Result<Vec<StoredEvent>, Unstored> {
        let name = match end.status {
            RunStatus::Completed => "run.completed",
            RunStatus::Cancelled => "run.cancelled",
            RunStatus::Interrupted => "run.interrupted",
            RunStatus::Failed | RunStatus::Started | RunStatus::Running | RunStatus::Waiting => {
                "run.failed"
            }
        };
        let data = json!({
            "status": end.status,
            "session_id": self.session,
            "output": end.output,
            "usage": end.usage,
            "error": end.error,
        });
        self.waiting.push(NewRunEvent { name, data });
        self.store(Some(end)).await
    }
}

/// Returns how a run ended, without what it used.
fn end_of(result: Option<&TurnResult>, is_stopped: bool) -> AgentRunEnd {
    let output = result.map(|result| result.text.clone()).filter(|text| !text.is_empty());
    let error = |error: ApiError| Some(error.body()["error"].clone());
    let (status, error) = match result.map(|result| &result.outcome) {
        Some(TurnOutcome::Interrupted) if is_stopped => (RunStatus::Cancelled, None),
        Some(outcome @ TurnOutcome::Interrupted) => {
            (RunStatus::Interrupted, ApiError::of_outcome(outcome).and_then(error))
        }
        Some(outcome) => match ApiError::of_outcome(outcome) {
            Some(why) => (RunStatus::Failed, error(why)),
            None => (RunStatus::Completed, None),
        },
        None => (RunStatus::Failed, error(ApiError::lost_turn())),
    };
    AgentRunEnd { status, output, usage: None, error }
}

/// Returns what a run has used in all.
fn sum(before: AgentRunUsage, used: &TokenUsage) -> AgentRunUsage {
    AgentRunUsage {
        input_tokens: before.input_tokens.saturating_add(used.input),
        output_tokens: before.output_tokens.saturating_add(used.output),
        total_tokens: before.total_tokens.saturating_add(used.total()),
    }
}

async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
