//! `POST /v1/chat/completions`: one turn of the agent in the shape of `OpenAI`'s API.

use std::convert::Infallible;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::http::{HeaderMap, HeaderValue};
use axum::response::sse::{Event as SseEvent, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use vestal_agent::{Event, Outcome, TurnResult};
use vestal_model::{AssistantMessage, Image, Message, Part, Usage, UserMessage};
use vestal_runtime::{OpenRequest, Which};

use super::error::ApiError;
use super::sessions::session_id;
use super::{App, SESSION_HEADER};
use crate::turns::{StartedTurn, TurnRequest};

/// Who the store says has begun a conversation.
const SOURCE: &str = "api_server";

/// How often a silent stream shows that it is alive.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// A request, as far as it means anything here. What steers sampling belongs to the settings of
/// the model and is passed over, as every server of this kind does.
#[derive(Debug, Deserialize)]
pub(super) struct ChatRequest {
    #[serde(default)]
    model: Option<String>,
    messages: Vec<ChatMessage>,
    #[serde(default)]
    stream: Option<bool>,
    #[serde(default)]
    stream_options: Option<StreamOptions>,
    #[serde(default)]
    n: Option<u32>,
    #[serde(default)]
    tools: Option<Vec<Value>>,
    #[serde(default)]
    response_format: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
struct StreamOptions {
    #[serde(default)]
    include_usage: Option<bool>,
}

#[derive(Debug, Deserialize)]
struct ChatMessage {
    role: String,
    #[serde(default)]
    content: Option<Content>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<ContentPart>),
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ContentPart {
    Text {
        text: String,
    },
    ImageUrl {
        image_url: ImageUrl,
    },
    #[serde(other)]
    Other,
}

#[derive(Debug, Deserialize)]
struct ImageUrl {
    url: String,
}

pub(super) async fn completions(
    State(app): State<App>,
    headers: HeaderMap,
    body: Result<Json<ChatRequest>, JsonRejection>,
) -> Result<Response, ApiError> {
    let Json(request) = body?;
    refuse_unsupported(&request)?;
    let include_usage =
        request.stream_options.as_ref().and_then(|options| options.include_usage) == Some(true);
    let is_stream = request.stream == Some(true);
    let model = request.model.clone().unwrap_or_else(|| app.server.model_name.clone());
    let turn = app.turns.start(turn_request(request, &headers)?).await?;
    let session = HeaderValue::from_str(turn.conversation.as_str())
        .map_err(|error| ApiError::internal(error.to_string()))?;
    let answer = Answer::new(&turn, model);
    let mut response = if is_stream {
        stream_response(turn, answer, include_usage).await?
    } else {
        whole_response(turn, &answer).await?
    };
    response.headers_mut().insert(SESSION_HEADER, session);
    Ok(response)
}

/// Refuses what would change the meaning of the answer if it were passed over.
fn refuse_unsupported(request: &ChatRequest) -> Result<(), ApiError> {
    if request.n.is_some_and(|n| n != 1) {
        return Err(ApiError::unsupported("n", "an agent gives one answer"));
    }
    if request.tools.as_ref().is_some_and(|tools| !tools.is_empty()) {
        let message = "the agent has its own tools; add others as MCP servers in its settings";
        return Err(ApiError::unsupported("tools", message));
    }
    let format = request.response_format.as_ref().and_then(|format| format["type"].as_str());
    if format.is_some_and(|format| format != "text") {
        return Err(ApiError::unsupported("response_format", "the answer is text"));
    }
    Ok(())
}

/// Finds out what is said now, what was said before, and in which conversation.
fn turn_request(request: ChatRequest, headers: &HeaderMap) -> Result<TurnRequest, ApiError> {
    let session = match headers.get(SESSION_HEADER) {
        Some(value) => {
            let text = value.to_str().map_err(|_| {
                ApiError::invalid("x-vestal-session-id", "the header holds no session id")
            })?;
            Some(session_id(text)?)
        }
        None => None,
    };
    let mut instructions = Vec::new();
    let mut messages = Vec::new();
    for message in request.messages {
        match message.role.as_str() {
            "system" | "developer" => instructions.push(words(message.content)?),
            "user" => messages.push(Message::User(user_message(message.content)?)),
            "assistant" => {
                let text = words(message.content)?;
                messages.push(Message::Assistant(AssistantMessage {
                    text,
                    ..AssistantMessage::default()
                }));
            }
            "tool" | "function" => {
                let text = "results of tools that are not the agent's own are not taken";
                return Err(ApiError::unsupported("messages", text));
            }
            other => {
                return Err(ApiError::invalid("messages", format!("there is no role {other:?}")));
            }
        }
    }
    let Some(Message::User(message)) = messages.pop() else {
        return Err(ApiError::invalid("messages", "the last message must be one of the user"));
    };
    if message.parts.is_empty() {
        return Err(ApiError::invalid("messages", "the last message is empty"));
    }
    let mut open = OpenRequest::new(SOURCE);
    if !instructions.is_empty() {
        open.role = Some(instructions.join("\n\n"));
    }
    let history = match session {
        // The store knows what was said in it.
        Some(id) => {
            open.which = Which::Id(id);
            Vec::new()
        }
        None => messages,
    };
    Ok(TurnRequest { open, history, message })
}

fn words(content: Option<Content>) -> Result<String, ApiError> {
    Ok(user_message(content)?.text())
}

fn user_message(content: Option<Content>) -> Result<UserMessage, ApiError> {
    let parts = match content {
        None => Vec::new(),
        Some(Content::Text(text)) if text.is_empty() => Vec::new(),
        Some(Content::Text(text)) => vec![Part::Text { text }],
        Some(Content::Parts(parts)) => {
            parts.into_iter().map(part).collect::<Result<Vec<_>, _>>()?
        }
    };
    Ok(UserMessage { parts })
}

fn part(part: ContentPart) -> Result<Part, ApiError> {
    match part {
        ContentPart::Text { text } => Ok(Part::Text { text }),
        ContentPart::ImageUrl { image_url } => picture(&image_url.url),
        ContentPart::Other => {
            Err(ApiError::unsupported("messages", "content is text or a picture (image_url)"))
        }
    }
}

/// Reads a picture that is in the request. Nothing is fetched on a client's word.
fn picture(url: &str) -> Result<Part, ApiError> {
    let data = url
        .strip_prefix("data:")
        .and_then(|rest| rest.split_once(";base64,"))
        .ok_or_else(|| ApiError::invalid("messages", "a picture must be a data: URL in base64"))?;
    let (media_type, data) = data;
    if !["image/png", "image/jpeg", "image/gif", "image/webp"].contains(&media_type) {
        return Err(ApiError::invalid(
            "messages",
            format!("{media_type} is not a picture that models read"),
        ));
    }
    let image = Image { media_type: media_type.to_owned(), data: data.to_owned(), optional: false };
    Ok(Part::Image(image))
}

/// What every piece of an answer has in common.
#[derive(Debug, Clone)]
struct Answer {
    id: String,
    created: i64,
    model: String,
}

impl Answer {
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

    fn chunk(&self, delta: &Value, finish_reason: Option<&str>) -> Value {
        json!({
            "id": self.id,
            "object": "chat.completion.chunk",
            "created": self.created,
            "model": self.model,
            "choices": [{ "index": 0, "delta": delta, "logprobs": null, "finish_reason": finish_reason }],
        })
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

fn finish_reason(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::BudgetExhausted => "length",
        Outcome::Refused => "content_filter",
        _ => "stop",
    }
}

fn usage(usage: &Usage) -> Value {
    json!({
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.total(),
        "prompt_tokens_details": { "cached_tokens": usage.cache_read },
        "completion_tokens_details": { "reasoning_tokens": usage.reasoning },
    })
}

/// Waits for the answer. Whoever stops waiting drops the turn, which interrupts it.
async fn whole_response(mut turn: StartedTurn, answer: &Answer) -> Result<Response, ApiError> {
    // Nobody reads them.
    turn.events.close();
    let result = turn.result().await.ok_or_else(lost)?;
    match ApiError::of_outcome(&result.outcome) {
        Some(error) => Err(error),
        None => Ok(Json(answer.whole(&result)).into_response()),
    }
}

fn lost() -> ApiError {
    ApiError::internal("the turn ended without a result")
}

/// Streams the answer. The head is sent once there is something to send, so that a turn that
/// fails at once has the status of its failure.
async fn stream_response(
    turn: StartedTurn,
    answer: Answer,
    include_usage: bool,
) -> Result<Response, ApiError> {
    let mut chunks = Chunks {
        turn,
        answer,
        include_usage,
        words: Words::default(),
        ready: std::collections::VecDeque::new(),
        is_over: false,
        is_diverged: false,
    };
    chunks
        .ready
        .push_back(sse(&chunks.answer.chunk(&json!({ "role": "assistant", "content": "" }), None)));
    let is_nothing_but_head = |chunks: &Chunks| chunks.ready.len() == 1 && !chunks.is_over;
    while is_nothing_but_head(&chunks) {
        if let Some(error) = chunks.advance().await {
            return Err(error);
        }
    }
    let stream = stream::unfold(chunks, async |mut chunks| {
        let event = chunks.next().await?;
        Some((Ok::<_, Infallible>(event), chunks))
    });
    let keep_alive = KeepAlive::new().interval(KEEP_ALIVE);
    Ok(Sse::new(stream).keep_alive(keep_alive).into_response())
}

fn sse(data: &Value) -> SseEvent {
    SseEvent::default().data(data.to_string())
}

/// The rest of a stream. Dropping it, as the server does when the client is gone, drops the turn,
/// which interrupts it.
struct Chunks {
    turn: StartedTurn,
    answer: Answer,
    include_usage: bool,
    words: Words,
    /// What is to be sent next.
    ready: std::collections::VecDeque<SseEvent>,
    is_over: bool,
    /// Whether the model said other words than those that were sent.
    is_diverged: bool,
}

impl Chunks {
    async fn next(&mut self) -> Option<SseEvent> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            if self.is_over {
                return None;
            }
            if let Some(error) = self.advance().await {
                // The status has been sent; clients take this for the failure it is, and miss
                // the [DONE] of an answer.
                self.ready.push_back(sse(&error.body()));
            }
        }
    }

    /// Waits for the next event or the end of the turn. Returns why there is no answer.
    async fn advance(&mut self) -> Option<ApiError> {
        match self.turn.next_event().await {
            Some(event) => self.take(&event),
            None => {
                self.is_over = true;
                self.finish().await
            }
        }
    }

    fn take(&mut self, event: &Event) -> Option<ApiError> {
        match event {
            Event::Text { .. } if self.is_diverged => {}
            Event::Text { text } => match self.words.add(text) {
                Ok("") => {}
                Ok(new) => {
                    let chunk = self.answer.chunk(&json!({ "content": new }), None);
                    self.ready.push_back(sse(&chunk));
                }
                // The turn goes on to its end, so that the session has the whole answer.
                Err(Diverged) => self.is_diverged = true,
            },
            Event::Discarded { .. } => self.words.discard(),
            Event::ModelCalled { .. } => self.words.settle(),
            Event::ToolStarted { call, name, summary } => {
                self.progress(call, name, summary, "running");
            }
            Event::ToolEnded { call, name, is_error, preview, .. } => {
                let status = if *is_error { "failed" } else { "completed" };
                self.progress(call, name, preview, status);
            }
            _ => {}
        }
        None
    }

    fn progress(&mut self, call: &str, tool: &str, label: &str, status: &str) {
        let data = json!({ "tool": tool, "label": label, "toolCallId": call, "status": status });
        let event = SseEvent::default().event("vestal.tool.progress").data(data.to_string());
        self.ready.push_back(event);
    }

    async fn finish(&mut self) -> Option<ApiError> {
        let Some(result) = self.turn.result().await else { return Some(lost()) };
        if let Some(error) = ApiError::of_outcome(&result.outcome) {
            return Some(error);
        }
        if self.is_diverged {
            return Some(ApiError::internal(
                "the provider broke off and answered anew with other words; the session has the whole answer",
            ));
        }
        // Words that came in no event: the summary of a turn that was stopped at its limit.
        if self.words.is_empty() && !result.text.is_empty() {
            self.ready.push_back(sse(&self.answer.chunk(&json!({ "content": result.text }), None)));
        }
        let reason = finish_reason(&result.outcome);
        self.ready.push_back(sse(&self.answer.chunk(&json!({}), Some(reason))));
        if self.include_usage {
            self.ready.push_back(sse(&self.answer.usage_chunk(&result)));
        }
        self.ready.push_back(SseEvent::default().data("[DONE]"));
        None
    }
}

/// The words of a stream. What was sent cannot be taken back: when a model is asked again, what
/// it repeats is not sent a second time, and other words in its place end the stream.
#[derive(Debug, Default)]
struct Words {
    /// What was sent of the running call of the model.
    sent: String,
    /// How much of it the call that is asked again has repeated.
    repeated: Option<usize>,
    is_any: bool,
}

/// Other words came in place of those that were sent.
#[derive(Debug, PartialEq, Eq)]
struct Diverged;

impl Words {
    fn is_empty(&self) -> bool {
        !self.is_any
    }

    /// Returns what of these words is new.
    fn add<'a>(&mut self, text: &'a str) -> Result<&'a str, Diverged> {
        let mut new = text;
        if let Some(at) = self.repeated {
            let expected = self.sent.get(at..).ok_or(Diverged)?;
            if let Some(rest) = text.strip_prefix(expected) {
                new = rest;
                self.repeated = None;
            } else if expected.starts_with(text) {
                self.repeated = Some(at + text.len());
                return Ok("");
            } else {
                return Err(Diverged);
            }
        }
        self.sent.push_str(new);
        self.is_any |= !new.is_empty();
        Ok(new)
    }

    /// The words of the running call are void; it is asked again.
    fn discard(&mut self) {
        self.repeated = (!self.sent.is_empty()).then_some(0);
    }

    /// The running call is complete.
    fn settle(&mut self) {
        self.sent.clear();
        self.repeated = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_model_repeats_after_a_broken_answer_is_sent_once() {
        let mut words = Words::default();
        assert_eq!(words.add("one two"), Ok("one two"));
        words.discard();
        assert_eq!(words.add("one"), Ok(""));
        assert_eq!(words.add(" two three"), Ok(" three"));
        assert_eq!(words.add(" four"), Ok(" four"));
        words.settle();
        assert_eq!(words.add("one two"), Ok("one two"));
    }

    #[test]
    fn other_words_in_place_of_those_sent_end_the_stream() {
        let mut words = Words::default();
        assert_eq!(words.add("one two"), Ok("one two"));
        words.discard();
        assert_eq!(words.add("one three"), Err(Diverged));
    }

    #[test]
    fn a_picture_is_taken_from_the_request_and_never_fetched() {
        assert!(picture("data:image/png;base64,AAAA").is_ok());
        assert!(picture("http://127.0.0.1/secret.png").is_err());
        assert!(picture("data:text/html;base64,AAAA").is_err());
    }
}
