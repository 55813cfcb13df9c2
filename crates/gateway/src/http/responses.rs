//! `/v1/responses`: turns in the shape of `OpenAI`'s Responses API. A response can be fetched,
//! gone on from and deleted.

mod output;
mod request;
mod turn;

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Response};
use jiff::Timestamp;
use serde_json::{Value, json};
use vestal_agent::{Outcome, TurnResult};
use vestal_conversations::{ConversationId, Seq, Store};
use vestal_runtime::SANDBOX_CHOICE;

use super::chat::session_value;
use super::error::ApiError;
use super::input::Dialogue;
use super::sessions::session_id;
use super::{App, SESSION_HEADER};
use crate::runs::new_id;
use crate::store::StoredResponse;
pub(super) use request::{Input, ResponseRequest, add_input};
use turn::{ResponseTurn, stream_response, whole_response};

/// `POST /v1/responses`.
pub(super) async fn create(
    State(app): State<App>,
    body: Result<Json<ResponseRequest>, JsonRejection>,
) -> Result<Response, ApiError> {
    let Json(request) = body?;
    request.refuse_unsupported()?;
    let is_stream = request.stream == Some(true);
    let is_stored = request.store != Some(false);
    let draft = Draft {
        id: new_id("resp").map_err(|error| ApiError::internal(error.to_string()))?,
        created_at: Timestamp::now().as_second(),
        model: request.model.unwrap_or_else(|| app.server.model_name.clone()),
        instructions: request.instructions.clone(),
        previous: request.previous_response_id.clone(),
        metadata: request.metadata.unwrap_or_else(|| json!({})),
        is_stored,
    };
    let mut dialogue = Dialogue::default();
    dialogue.instruct(request.instructions.unwrap_or_default());
    add_input(&mut dialogue, request.input)?;
    let store = app.turns.runtime().agent().store().clone();
    let from = match &request.previous_response_id {
        Some(previous) => Some(go_on_from(&app, &store, previous, is_stored).await?),
        None => None,
    };
    let session = from.as_ref().map(|from| from.session.clone());
    let request = dialogue.into_turn("input", session)?;
    // A new session begins with what the client says was said; its messages count from 1.
    let taken_over = Seq(i64::try_from(request.history.len()).unwrap_or(i64::MAX));
    let started = match app.turns.start(request).await {
        Ok(started) => started,
        Err(refused) => {
            if let Some(branch) = from.filter(|from| from.is_branch) {
                delete_unused(&store, &branch.session).await;
            }
            return Err(refused.into());
        }
    };
    let session = session_value(&started.conversation)?;
    let after = from.map_or(taken_over, |from| from.last_message);
    let turn = ResponseTurn::new(&app, started, draft, after);
    let mut response =
        if is_stream { stream_response(turn).await? } else { whole_response(turn).await? };
    if is_stored {
        response.headers_mut().insert(SESSION_HEADER, session);
    }
    Ok(response)
}

/// `GET /v1/responses/{id}`.
pub(super) async fn show(
    State(app): State<App>,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let found = app.store.response(&id).await?;
    Ok(Json(found.ok_or_else(|| not_found(&id))?.body))
}

/// `DELETE /v1/responses/{id}`: the session stays.
pub(super) async fn delete(
    State(app): State<App>,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    if !app.store.delete_response(&id).await? {
        return Err(not_found(&id));
    }
    Ok(Json(json!({ "id": id, "object": "response", "deleted": true })).into_response())
}

fn not_found(id: &str) -> ApiError {
    ApiError::gone("response_not_found", format!("there is no response {id:?}"))
}

/// Where a response goes on from another.
struct From {
    session: ConversationId,
    last_message: Seq,
    is_branch: bool,
}

/// Finds the session of a response that is gone on from. If more was said in it since, or somebody
/// is using it, or nothing of what comes is to be kept, a branch takes its place: a response means
/// the same, however often and in whatever order it is gone on from.
async fn go_on_from(
    app: &App,
    store: &Store,
    previous: &str,
    is_stored: bool,
) -> Result<From, ApiError> {
    let missing = || {
        let message = format!("there is no response {previous:?} to go on from");
        ApiError::invalid("previous_response_id", message).code("previous_response_not_found")
    };
    let found: StoredResponse = app.store.response(previous).await?.ok_or_else(missing)?;
    let session = session_id(&found.session)?;
    let last_message = Seq(found.last_message);
    let later = store.history_between(&session, Seq(last_message.0 + 1), Seq(i64::MAX)).await?;
    let is_free = store.lease(&session).is_ok();
    if later.is_empty() && is_free && is_stored {
        return Ok(From { session, last_message, is_branch: false });
    }
    let branch = store.branch(&session, Some(last_message), None).await?.id;
    if let Some(choice) = store.state(&session, SANDBOX_CHOICE).await? {
        store.set_state(&branch, SANDBOX_CHOICE, Some(&choice)).await?;
    }
    Ok(From { session: branch, last_message, is_branch: true })
}

async fn delete_unused(store: &Store, session: &ConversationId) {
    if let Err(error) = store.delete(session).await {
        tracing::warn!(conversation = %session, %error, "an unused branch was not deleted");
    }
}

/// What is known of a response before it is given.
#[derive(Debug, Clone)]
struct Draft {
    id: String,
    created_at: i64,
    model: String,
    instructions: Option<String>,
    previous: Option<String>,
    metadata: Value,
    is_stored: bool,
}

/// How a response is.
#[derive(Debug)]
enum Standing<'a> {
    InProgress,
    Ended(&'a TurnResult),
    Failed(&'a ApiError),
}

impl Draft {
    /// Returns the response as clients get it.
    fn response(&self, standing: &Standing<'_>, output: &[Value]) -> Value {
        let (status, incomplete, error, usage) = match standing {
            Standing::InProgress => ("in_progress", Value::Null, Value::Null, Value::Null),
            Standing::Ended(result) => {
                let (status, incomplete) = match result.outcome {
                    Outcome::BudgetExhausted => {
                        ("incomplete", json!({ "reason": "max_output_tokens" }))
                    }
                    Outcome::Refused => ("incomplete", json!({ "reason": "content_filter" })),
                    _ => ("completed", Value::Null),
                };
                (status, incomplete, Value::Null, usage(result))
            }
            Standing::Failed(error) => {
                let body = &error.body()["error"];
                let error = json!({ "code": "server_error", "message": body["message"] });
                ("failed", Value::Null, error, Value::Null)
            }
        };
        json!({
            "id": self.id,
            "object": "response",
            "created_at": self.created_at,
            "status": status,
            "background": false,
            "error": error,
            "incomplete_details": incomplete,
            "instructions": self.instructions,
            "max_output_tokens": null,
            "metadata": self.metadata,
            "model": self.model,
            "output": output,
            "parallel_tool_calls": true,
            "previous_response_id": self.previous,
            "reasoning": { "effort": null, "summary": null },
            "store": self.is_stored,
            "temperature": null,
            "text": { "format": { "type": "text" } },
            "tool_choice": "auto",
            "tools": [],
            "top_p": null,
            "truncation": "disabled",
            "usage": usage,
            "user": null,
        })
    }
}

fn usage(result: &TurnResult) -> Value {
    let usage = &result.usage;
    json!({
        "input_tokens": usage.input,
        "input_tokens_details": { "cached_tokens": usage.cache_read },
        "output_tokens": usage.output,
        "output_tokens_details": { "reasoning_tokens": usage.reasoning },
        "total_tokens": usage.total(),
    })
}
