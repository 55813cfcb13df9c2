//! What happens in a run, as its events say it.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::Instant;
use vestal_agent::{Event, Outcome, TurnResult};
use vestal_runtime::QuestionEvent;

use super::LiveRun;
use crate::http::ApiError;
use crate::store::{EventWriter, NewEvent, RunEnd, RunStatus, StoredEvent, stored_time};
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
    /// Words that wait for more, and until when.
    words: String,
    words_until: Option<Instant>,
    /// What the model thought in the call under way.
    reasoning: String,
    waiting: Vec<NewEvent>,
}

/// The events of a run cannot be stored.
#[derive(Debug)]
struct Unstored;

impl Recorder {
    pub(super) fn new(live: Arc<LiveRun>, writer: EventWriter, session: String) -> Self {
        Self {
            live,
            writer,
            session,
            last: 0,
            bytes: 0,
            is_truncated: false,
            words: String::new(),
            words_until: None,
            reasoning: String::new(),
            waiting: Vec::new(),
        }
    }

    /// Records a turn to its end.
    pub(super) async fn record(
        mut self,
        mut turn: StartedTurn,
        mut questions: UnboundedReceiver<QuestionEvent>,
    ) {
        let started = json!({ "session_id": self.session });
        self.waiting.push(NewEvent { name: "run.started", data: started });
        let mut is_stopped = false;
        let mut is_storable = true;
        loop {
            if is_storable && !self.waiting.is_empty() && self.store(None).await.is_err() {
                // Nobody could follow it any more; what was said is in the session.
                is_storable = false;
                turn.interrupt();
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
        let result = turn.result().await;
        self.end(result, is_stopped).await;
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Text { text } => {
                self.flush_reasoning();
                if self.words.is_empty() {
                    self.words_until = Some(Instant::now() + GATHER_FOR);
                }
                self.words.push_str(&text);
                if self.words.len() >= GATHER_BYTES {
                    self.flush();
                }
            }
            Event::Reasoning { text } => self.reasoning.push_str(&text),
            Event::Discarded { reason, .. } => {
                self.reasoning.clear();
                self.flush();
                let data = json!({ "reason": reason });
                self.waiting.push(NewEvent { name: "message.discarded", data });
            }
            Event::ModelCalled { .. } => self.flush(),
            Event::ToolStarted { call, name, summary } => {
                self.flush();
                let data = json!({ "tool": name, "tool_call_id": call, "preview": summary });
                self.waiting.push(NewEvent { name: "tool.started", data });
            }
            Event::ToolEnded { call, name, is_error, took, preview } => {
                self.flush();
                let duration = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
                let data = json!({
                    "tool": name, "tool_call_id": call, "error": is_error,
                    "duration_ms": duration, "preview": preview,
                });
                self.waiting.push(NewEvent { name: "tool.completed", data });
            }
            _ => {}
        }
    }

    fn take_question(&mut self, event: QuestionEvent) {
        self.flush();
        let event = match event {
            QuestionEvent::Asked(question) => {
                NewEvent { name: "approval.request", data: json!(question) }
            }
            QuestionEvent::Closed { id } => {
                NewEvent { name: "approval.closed", data: json!({ "id": id }) }
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
                self.waiting.push(NewEvent { name: "events.truncated", data });
            }
            return;
        }
        self.waiting.push(NewEvent { name: "message.delta", data: json!({ "delta": words }) });
    }

    fn flush_reasoning(&mut self) {
        let text = std::mem::take(&mut self.reasoning);
        if !text.trim().is_empty() && self.bytes + text.len() <= MAX_BYTES {
            self.waiting
                .push(NewEvent { name: "reasoning.available", data: json!({ "text": text }) });
        }
    }

    /// Stores what waits, then shows it to readers: an event that a reader saw is there after any
    /// crash, and its number is never another's.
    async fn store(&mut self, end: Option<RunEnd>) -> Result<(), Unstored> {
        let at = stored_time(Timestamp::now());
        let mut events = Vec::with_capacity(self.waiting.len());
        for event in self.waiting.drain(..) {
            self.last += 1;
            let (name, data) = (event.name.to_owned(), event.data.to_string());
            events.push(StoredEvent { seq: self.last, at, name, data });
        }
        self.bytes += events.iter().map(StoredEvent::bytes).sum::<usize>();
        for attempt in 1..=ATTEMPTS {
            match self.writer.append(self.live.key, events.clone(), end.clone()).await {
                Ok(()) => {
                    self.live.publish(events, end.is_some());
                    return Ok(());
                }
                Err(error) => {
                    tracing::error!(run = self.live.key, attempt, %error, "events of a run were not stored");
                    tokio::time::sleep(RETRY_AFTER).await;
                }
            }
        }
        Err(Unstored)
    }

    async fn end(&mut self, result: Option<TurnResult>, is_stopped: bool) {
        let (name, end) = end_of(result.as_ref(), is_stopped);
        let data = json!({
            "status": end.status,
            "session_id": self.session,
            "output": end.output,
            "usage": end.usage,
            "error": end.error,
        });
        self.waiting.push(NewEvent { name, data });
        if self.store(Some(end)).await.is_err() {
            // The next start says that it was interrupted, which is all that is known then.
            self.live.publish(Vec::new(), true);
        }
    }
}

/// Returns how a run ended, and the name of its last event.
fn end_of(result: Option<&TurnResult>, is_stopped: bool) -> (&'static str, RunEnd) {
    let usage = result.map(|result| {
        json!({
            "input_tokens": result.usage.input,
            "output_tokens": result.usage.output,
            "total_tokens": result.usage.total(),
        })
    });
    let said = result.map(|result| result.text.clone()).filter(|text| !text.is_empty());
    let error = |error: ApiError| Some(error.body()["error"].clone());
    let end = |status, error: Option<Value>| RunEnd { status, output: said, usage, error };
    match result.map(|result| &result.outcome) {
        Some(Outcome::Interrupted) if is_stopped => {
            ("run.cancelled", end(RunStatus::Cancelled, None))
        }
        Some(outcome @ Outcome::Interrupted) => {
            let why = ApiError::of_outcome(outcome).and_then(error);
            ("run.interrupted", end(RunStatus::Interrupted, why))
        }
        Some(outcome) => match ApiError::of_outcome(outcome) {
            Some(why) => ("run.failed", end(RunStatus::Failed, error(why))),
            None => ("run.completed", end(RunStatus::Completed, None)),
        },
        None => ("run.failed", end(RunStatus::Failed, error(ApiError::lost_turn()))),
    }
}

async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
