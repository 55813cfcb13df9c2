//! `POST /v1/chat/completions`: one turn of the agent in the shape of `OpenAI`'s API.

mod stream;

use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::http::{HeaderMap, HeaderValue};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use vestal_agent::{TurnOutcome, TurnResult};
use vestal_conversations::ConversationId;
use vestal_model::TokenUsage;

use super::error::ApiError;
use super::idempotency::ClaimedKey;
use super::input::{Content, Dialogue};
use super::sessions::session_id;
use super::{ApiState, SESSION_HEADER};
use crate::turns::StartedTurn;
use crate::unfinished::TurnOwner;

/// A request, as far as it means anything here. What steers sampling belongs to the settings of
/// the model and is passed over, as every server of this kind does.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct ChatRequest {
    /// Any name; the answer repeats it. Which model is asked is a setting of the agent.
    #[serde(default)]
    pub(super) model: Option<String>,
    /// The conversation so far; with a session, only the last message counts.
    pub(super) messages: Vec<ChatMessage>,
    /// Whether the words are sent as they come.
    #[serde(default)]
    pub(super) stream: Option<bool>,
    /// What a stream has besides.
    #[serde(default)]
    pub(super) stream_options: Option<StreamOptions>,
    /// Must be 1.
    #[serde(default)]
    n: Option<u32>,
    /// Must be empty: the agent has its own tools.
    #[serde(default)]
    tools: Option<Vec<Value>>,
    /// Must be text.
    #[serde(default)]
    response_format: Option<Value>,
}

impl ChatRequest {
    /// Returns a request in which the user says something, and no more.
    pub(super) fn of_user(content: Content, stream: bool) -> Self {
        Self {
            model: None,
            messages: vec![ChatMessage { role: "user".to_owned(), content: Some(content) }],
            stream: Some(stream),
            stream_options: None,
            n: None,
            tools: None,
            response_format: None,
        }
    }
}

/// What a stream has besides its words.
#[derive(Debug, Default, Deserialize, JsonSchema)]
pub(super) struct StreamOptions {
    /// Whether the last chunk has the usage.
    #[serde(default)]
    include_usage: Option<bool>,
}

/// One message.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct ChatMessage {
    /// `system`, `developer`, `user` or `assistant`.
    role: String,
    /// What was said.
    #[serde(default)]
    content: Option<Content>,
}

pub(super) async fn completions(
    State(app): State<ApiState>,
    claim: Option<Extension<ClaimedKey>>,
    headers: HeaderMap,
    body: Result<Json<ChatRequest>, JsonRejection>,
) -> Result<Response, ApiError> {
    let Json(request) = body?;
    let session = session_header(&headers)?;
    answer(&app, request, session, claim.map(|Extension(claim)| claim)).await
}

/// Answers a request in a session, or in a new one.
pub(super) async fn answer(
    app: &ApiState,
    request: ChatRequest,
    session: Option<ConversationId>,
    claim: Option<ClaimedKey>,
) -> Result<Response, ApiError> {
    refuse_unsupported(&request)?;
    let include_usage =
        request.stream_options.as_ref().and_then(|options| options.include_usage) == Some(true);
    let is_stream = request.stream == Some(true);
    let model = request.model.unwrap_or_else(|| app.server.model_name.clone());
    let mut dialogue = Dialogue::default();
    for message in request.messages {
        dialogue.add("messages", &message.role, message.content)?;
    }
    let request = dialogue.into_turn("messages", session)?;
    let prepared = app.turns.prepare(TurnOwner::Client, request).await?;
    ClaimedKey::note(claim, &app.store, prepared.conversation()).await?;
    let turn = prepared.begin();
    let session = session_value(&turn.conversation)?;
    let answer = CompletionHead::new(&turn, model);
    let response = if is_stream {
        stream::response(turn, answer, include_usage).await
    } else {
        whole_response(turn, &answer).await
    };
    let mut response = response.map_err(|error| error.in_session(&session))?;
    response.headers_mut().insert(SESSION_HEADER, session);
    Ok(response)
}

/// Returns the session that a request names in its header.
fn session_header(headers: &HeaderMap) -> Result<Option<ConversationId>, ApiError> {
    let Some(value) = headers.get(SESSION_HEADER) else { return Ok(None) };
    let text = value
        .to_str()
        .map_err(|_| ApiError::invalid("x-vestal-session-id", "the header holds no session id"))?;
    session_id(text).map(Some)
}

/// Returns a session as the value of a header.
pub(super) fn session_value(id: &ConversationId) -> Result<HeaderValue, ApiError> {
    HeaderValue::from_str(id.as_str()).map_err(|error| ApiError::internal(error.to_string()))
}

/// Refuses what would change the meaning of the answer if it were passed over.
fn refuse_unsupported(request: &ChatRequest) -> Result<(), ApiError> {
    if request.n.is_some_and(|n| n != 1) {
        return Err(ApiError::unsupported("n", "an agent gives one answer"));
    }
    if request.tools.as_ref().is_some_and(|tools| !tools.is_empty()) {
        return Err(own_tools());
    }
    let format = request.response_format.as_ref().and_then(|format| format["type"].as_str());
    if format.is_some_and(|format| format != "text") {
        return Err(ApiError::unsupported("response_format", "the answer is text"));
    }
    Ok(())
}

/// Refuses tools of the client.
pub(super) fn own_tools() -> ApiError {
    let message = "the agent has its own tools; add others as MCP servers in its settings";
    ApiError::unsupported("tools", message)
}

/// What every piece of an answer has in common.
#[derive(Debug, Clone)]
struct CompletionHead {
    id: String,
    created: i64,
    model: String,
}

impl CompletionHead {
    fn new(turn: &StartedTurn, model: String) -> Self {
        let id = format!("chatcmpl-{}-{}", turn.conversation, turn.number);
        Self { id, created: Timestamp::now().as_second(), model }
    }

    fn whole(&self, result: &TurnResult) -> Value {
        json!({
            "id": self.id,
            "object": "chat.completion",
            "created": self.created,
            "model": self.model,
            "choices": [{
                "index": 0,
                "message": { "role": "assistant", "content": result.text, "refusal": null },
                "logprobs": null,
                "finish_reason": finish_reason(&result.outcome),
            }],
            "usage": usage(&result.usage),
        })
    }

    fn chunk<D>(&self, delta: D, finish_reason: Option<&'static str>) -> Chunk<'_, D> {
        Chunk {
            id: &self.id,
            object: "chat.completion.chunk",
            created: self.created,
            model: &self.model,
            choices: [ChunkChoice { index: 0, delta, logprobs: (), finish_reason }],
        }
    }

    fn usage_chunk(&self, result: &TurnResult) -> Value {
        json!({
            "id": self.id,
            "object": "chat.completion.chunk",
            "created": self.created,
            "model": self.model,
            "choices": [],
            "usage": usage(&result.usage),
        })
    }
}

/// A piece of a streamed answer. One is made for every few words, so it borrows what it says.
#[derive(Serialize)]
struct Chunk<'a, D> {
    id: &'a str,
    object: &'static str,
    created: i64,
    model: &'a str,
    choices: [ChunkChoice<D>; 1],
}

#[derive(Serialize)]
struct ChunkChoice<D> {
    index: u8,
    delta: D,
    logprobs: (),
    finish_reason: Option<&'static str>,
}

/// Words of an answer.
#[derive(Serialize)]
struct ContentDelta<'a> {
    content: &'a str,
}

fn finish_reason(outcome: &TurnOutcome) -> &'static str {
    match outcome {
        TurnOutcome::BudgetExhausted => "length",
        TurnOutcome::Refused => "content_filter",
        _ => "stop",
    }
}

fn usage(usage: &TokenUsage) -> Value {
    json!({
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.total(),
        "prompt_tokens_details": { "cached_tokens": usage.cache_read },
        "completion_tokens_details": { "reasoning_tokens": usage.reasoning },
    })
}

/// Waits for the answer. A caller that stops waiting drops the turn, which interrupts it.
async fn whole_response(
    mut turn: StartedTurn,
    answer: &CompletionHead,
) -> Result<Response, ApiError> {
    // Nobody reads them.
    turn.events.close();
    let result = turn.result().await.ok_or_else(ApiError::lost_turn)?;
    match ApiError::of_outcome(&result.outcome) {
        Some(error) => Err(error),
        None => Ok(Json(answer.whole(&result)).into_response()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::shapes::ChatCompletion;

    #[test]
    fn an_answer_is_what_the_document_says() {
        let answer =
            CompletionHead { id: "chatcmpl-1".to_owned(), created: 1, model: "m".to_owned() };
        let result = crate::turns::answered_for_tests("hello");
        let read: Result<ChatCompletion, _> = serde_json::from_value(answer.whole(&result));
        assert!(read.is_ok(), "{read:?}");
    }
}
