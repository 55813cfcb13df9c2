//! The turn behind a response: whole, or told as it goes.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::time::Duration;

use axum::Json;
use axum::response::sse::Event as SseEvent;
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;
use serde_json::{Value, json};
use vestal_agent::{TurnEvent, TurnResult};
use vestal_conversations::{ConversationId, ConversationStore, Seq};
use vestal_model::Message;

use super::output::ResponseOutput;
use super::{Draft, ResponseStanding};
use crate::http::ApiState;
use crate::http::error::ApiError;
use crate::http::sse;
use crate::http::words::{Diverged, StreamedWords};
use crate::store::{GatewayStore, StoredResponse};
use crate::turns::StartedTurn;

/// A response that is being made. Dropping it, as the server does when the client is gone, drops
/// the turn, which interrupts it.
pub(super) struct ResponseTurn {
    // Before the session's end: the turn is interrupted before its session is forgotten.
    turn: StartedTurn,
    draft: Draft,
    output: ResponseOutput,
    words: StreamedWords,
    is_diverged: bool,
    log: SessionLog,
    responses: GatewayStore,
    forget: Option<ForgetSession>,
}

impl ResponseTurn {
    /// `after` is the last message of the session before the turn.
    pub(super) fn new(app: &ApiState, turn: StartedTurn, draft: Draft, after: Seq) -> Self {
        let store = app.turns.runtime().agent().store().clone();
        let session = turn.conversation.clone();
        let forget =
            (!draft.is_stored).then(|| ForgetSession(Some((store.clone(), session.clone()))));
        Self {
            turn,
            draft,
            output: ResponseOutput::default(),
            words: StreamedWords::default(),
            is_diverged: false,
            log: SessionLog { store, session, after, calls: HashMap::new(), results: Vec::new() },
            responses: app.store.clone(),
            forget,
        }
    }

    async fn take(&mut self, event: &TurnEvent) -> Result<(), ApiError> {
        if !matches!(event, TurnEvent::ToolEnded { .. }) {
            self.report_results().await?;
        }
        match event {
            TurnEvent::Text { .. } if self.is_diverged => {}
            TurnEvent::Text { text } => match self.words.add(text) {
                Ok(new) => self.output.say(&self.draft.id, new),
                // The turn goes on to its end, so that the session has the whole answer.
                Err(Diverged) => self.is_diverged = true,
            },
            TurnEvent::Discarded { .. } => self.words.discard(),
            TurnEvent::ModelCalled { .. } => self.words.settle(),
            TurnEvent::ToolStarted { call, name, .. } => {
                self.log.read().await?;
                let arguments = self.log.calls.get(call).map_or("{}", String::as_str).to_owned();
                self.output.call(call, name, &arguments);
            }
            _ => {}
        }
        Ok(())
    }

    /// Adds what tools answered, as far as it is stored.
    async fn report_results(&mut self) -> Result<(), ApiError> {
        if self.log.calls.is_empty() {
            return Ok(());
        }
        self.log.read().await?;
        for (call, content) in std::mem::take(&mut self.log.results) {
            self.output.called(&call, &content);
            self.log.calls.remove(&call);
        }
        Ok(())
    }

    /// Takes the result of the turn, and stores the response. Returns it as clients get it.
    async fn finish(&mut self) -> Result<Value, ApiError> {
        let result = self.turn.result().await.ok_or_else(ApiError::lost_turn)?;
        self.report_results().await?;
        // Words that came in no event: the summary of a turn that was stopped at its limit.
        if self.words.is_empty() && ApiError::of_outcome(&result.outcome).is_none() {
            self.output.say(&self.draft.id, &result.text);
        }
        self.output.close_message();
        let failure = ApiError::of_outcome(&result.outcome).or_else(|| {
            let message = "the provider broke off and answered again differently; the session has the whole answer";
            self.is_diverged.then(|| ApiError::internal(message))
        });
        let body = self.body(&result, failure.as_ref());
        if self.draft.is_stored {
            self.log.read().await?;
            let stored = StoredResponse {
                id: self.draft.id.clone(),
                session: self.log.session.to_string(),
                last_message: self.log.after.0,
                body: body.clone(),
            };
            self.responses.put_response(&stored).await?;
        }
        // Now, rather than when somebody drops this.
        if let Some(forget) = self.forget.take() {
            forget.now().await;
        }
        failure.map_or(Ok(body), Err)
    }

    fn body(&self, result: &TurnResult, failure: Option<&ApiError>) -> Value {
        let standing = match failure {
            Some(error) => ResponseStanding::Failed(error),
            None => ResponseStanding::Ended(result),
        };
        self.draft.response(&standing, self.output.items())
    }
}

/// Waits for the answer. A caller that stops waiting drops the turn, which interrupts it.
pub(super) async fn whole_response(mut turn: ResponseTurn) -> Result<Response, ApiError> {
    while let Some(event) = turn.turn.next_event().await {
        turn.take(&event).await?;
        turn.output.take_events();
    }
    Ok(Json(turn.finish().await?).into_response())
}

/// Streams the answer. The head is sent once there is something to send, so that a turn that
/// fails at once has the status of its failure.
pub(super) async fn stream_response(turn: ResponseTurn) -> Result<Response, ApiError> {
    let mut events = ResponseEvents { turn, sequence: 0, ready: VecDeque::new(), is_over: false };
    let begun = events.turn.draft.response(&ResponseStanding::InProgress, &[]);
    events.push(json!({ "type": "response.created", "response": begun }));
    events.push(json!({ "type": "response.in_progress", "response": begun }));
    let head = events.ready.len();
    while events.ready.len() == head && !events.is_over {
        events.advance().await?;
    }
    Ok(sse::response(stream::unfold(events, async |mut events| {
        let event = events.next().await?;
        Some((Ok::<_, Infallible>(event), events))
    })))
}

/// The rest of a stream.
struct ResponseEvents {
    turn: ResponseTurn,
    sequence: u64,
    ready: VecDeque<SseEvent>,
    is_over: bool,
}

impl ResponseEvents {
    async fn next(&mut self) -> Option<SseEvent> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            if self.is_over {
                return None;
            }
            if let Err(error) = self.advance().await {
                self.is_over = true;
                let standing = ResponseStanding::Failed(&error);
                let failed = self.turn.draft.response(&standing, self.turn.output.items());
                self.push(json!({ "type": "response.failed", "response": failed }));
            }
        }
    }

    async fn advance(&mut self) -> Result<(), ApiError> {
        match self.turn.turn.next_event().await {
            Some(event) => {
                self.turn.take(&event).await?;
                self.push_output();
            }
            None => {
                self.is_over = true;
                let finished = self.turn.finish().await;
                self.push_output();
                let response = finished?;
                let kind = match response["status"].as_str() {
                    Some("incomplete") => "response.incomplete",
                    _ => "response.completed",
                };
                self.push(json!({ "type": kind, "response": response }));
            }
        }
        Ok(())
    }

    fn push_output(&mut self) {
        for event in self.turn.output.take_events() {
            self.push(event);
        }
    }

    fn push(&mut self, mut event: Value) {
        event["sequence_number"] = json!(self.sequence);
        self.sequence += 1;
        let kind = event["type"].as_str().unwrap_or_default().to_owned();
        self.ready.push_back(sse::named(&kind, &event));
    }
}

/// What the store has of the turn: arguments and results of tools, whole and with secrets masked.
struct SessionLog {
    store: ConversationStore,
    session: ConversationId,
    /// The last message that was read.
    after: Seq,
    /// Arguments of calls that have no result yet.
    calls: HashMap<String, String>,
    /// Results that were not told yet.
    results: Vec<(String, String)>,
}

impl SessionLog {
    async fn read(&mut self) -> Result<(), ApiError> {
        let next = Seq(self.after.0.saturating_add(1));
        let new = self.store.history_between(&self.session, next, Seq(i64::MAX)).await?;
        for stored in new {
            self.after = self.after.max(stored.seq);
            match stored.message {
                Message::Assistant(reply) => {
                    self.calls
                        .extend(reply.calls.into_iter().map(|call| (call.id, call.arguments)));
                }
                Message::Tool(result) => self.results.push((result.call, result.content)),
                Message::User(_) => {}
            }
        }
        Ok(())
    }
}

/// Forgets a session that is not to be kept, once its turn has ended, also when nobody waits.
struct ForgetSession(Option<(ConversationStore, ConversationId)>);

/// How often and how long the end of an interrupted turn is waited for.
const FORGET_ATTEMPTS: u32 = 300;
const FORGET_PAUSE: Duration = Duration::from_millis(100);

impl ForgetSession {
    async fn now(mut self) {
        if let Some((store, session)) = self.0.take() {
            forget(&store, &session).await;
        }
    }
}

impl Drop for ForgetSession {
    fn drop(&mut self) {
        if let Some((store, session)) = self.0.take() {
            // Without a runtime the process ends, and the session stays.
            if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                runtime.spawn(async move { forget(&store, &session).await });
            }
        }
    }
}

async fn forget(store: &ConversationStore, session: &ConversationId) {
    for _ in 0..FORGET_ATTEMPTS {
        // The turn holds it while it runs.
        if let Ok(lease) = store.lease(session) {
            if let Err(error) = store.delete(session).await {
                tracing::warn!(conversation = %session, %error, "a session that was not to be kept is still there");
            }
            drop(lease);
            return;
        }
        tokio::time::sleep(FORGET_PAUSE).await;
    }
    tracing::warn!(conversation = %session, "a session that was not to be kept is in use");
}
