//! `/v1/responses`: turns in the shape of `OpenAI`'s Responses API. A response can be fetched,
//! gone on from and deleted.

mod output;
mod request;
mod turn;

use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, State};
use axum::response::Response;
use axum::{Extension, Json};
use jiff::Timestamp;
use serde_json::{Value, json};
use vestal_agent::{TurnOutcome, TurnResult};
use vestal_conversations::{ConversationId, ConversationStore, Seq};
use vestal_runtime::SANDBOX_CHOICE;

use super::chat::session_value;
use super::error::ApiError;
use super::idempotency::ClaimedKey;
use super::input::Dialogue;
use super::openapi::DeletedView;
use super::sessions::session_id;
use super::{ApiState, SESSION_HEADER};
use crate::runs::new_id;
use crate::store::StoredResponse;
use crate::turns::{PreparedTurn, TurnRefused, TurnRequest};
use crate::unfinished::TurnOwner;
pub(super) use request::{Input, ResponseRequest, add_input};
use turn::{ResponseTurn, stream_response, whole_response};

/// `POST /v1/responses`.
pub(super) async fn create(
    State(app): State<ApiState>,
    claim: Option<Extension<ClaimedKey>>,
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
    let previous = request.previous_response_id.as_deref();
    let PreparedResponse { turn: prepared, after } =
        prepare(&app, dialogue, previous, is_stored).await?;
    let claim = claim.map(|Extension(claim)| claim);
    ClaimedKey::note(claim, &app.store, prepared.conversation()).await?;
    let started = prepared.begin();
    let session = session_value(&started.conversation)?;
    let turn = ResponseTurn::new(&app, started, draft, after);
    let response = if is_stream { stream_response(turn).await } else { whole_response(turn).await };
    let mut response =
        response.map_err(|error| if is_stored { error.in_session(&session) } else { error })?;
    if is_stored {
        response.headers_mut().insert(SESSION_HEADER, session);
    }
    Ok(response)
}

/// `GET /v1/responses/{id}`.
pub(super) async fn show(
    State(app): State<ApiState>,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let found = app.store.response(&id).await?;
    Ok(Json(found.ok_or_else(|| not_found(&id))?.body))
}

/// `DELETE /v1/responses/{id}`: the session stays.
pub(super) async fn delete(
    State(app): State<ApiState>,
    Path(id): Path<String>,
) -> Result<Json<DeletedView>, ApiError> {
    if !app.store.delete_response(&id).await? {
        return Err(not_found(&id));
    }
    Ok(Json(DeletedView::new(id, "response")))
}

fn not_found(id: &str) -> ApiError {
    ApiError::gone("response_not_found", format!("there is no response {id:?}"))
}

/// The turn of a response, and the last message of its session before it.
struct PreparedResponse {
    turn: PreparedTurn,
    after: Seq,
}

/// Prepares the turn of a response: in a new session, or in that of the response which it goes on from.
/// If more was said there since, or somebody is using it, or nothing of what comes is to be kept, a
/// branch takes its place: a response means the same, however often, in whatever order and by however
/// many at once it is gone on from.
async fn prepare(
    app: &ApiState,
    dialogue: Dialogue,
    previous: Option<&str>,
    is_stored: bool,
) -> Result<PreparedResponse, ApiError> {
    let Some(previous) = previous else {
        let request = dialogue.into_turn("input", None)?;
        // A new session begins with what the client says was said; its messages count from 1.
        let after = Seq(i64::try_from(request.history.len()).unwrap_or(i64::MAX));
        let turn = app.turns.prepare(TurnOwner::Client, request).await?;
        return Ok(PreparedResponse { turn, after });
    };
    let missing = || {
        let message = format!("there is no response {previous:?} to go on from");
        ApiError::invalid("previous_response_id", message).code("previous_response_not_found")
    };
    let found: StoredResponse = app.store.response(previous).await?.ok_or_else(missing)?;
    let (session, after) = (session_id(&found.session)?, Seq(found.last_message));
    if is_stored {
        // Whether anything was said since is known once nobody else can say anything.
        let request = dialogue.clone().into_turn("input", Some(session.clone()))?;
        let request = TurnRequest { follows: Some(after), ..request };
        match app.turns.prepare(TurnOwner::Client, request).await {
            Ok(turn) => return Ok(PreparedResponse { turn, after }),
            Err(refused) if refused.is_in_use() || matches!(refused, TurnRefused::MovedOn) => {}
            Err(refused) => return Err(refused.into()),
        }
    }
    let store = app.turns.store();
    let branch = store.branch(&session, Some(after), None).await?.id;
    if let Some(choice) = store.state(&session, SANDBOX_CHOICE).await? {
        store.set_state(&branch, SANDBOX_CHOICE, Some(&choice)).await?;
    }
    let request = dialogue.into_turn("input", Some(branch.clone()))?;
    match app.turns.prepare(TurnOwner::Client, request).await {
        Ok(turn) => Ok(PreparedResponse { turn, after }),
        Err(refused) => {
            delete_unused(store, &branch).await;
            Err(refused.into())
        }
    }
}

async fn delete_unused(store: &ConversationStore, session: &ConversationId) {
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
enum ResponseStanding<'a> {
    InProgress,
    Ended(&'a TurnResult),
    Failed(&'a ApiError),
}

impl Draft {
    /// Returns the response as clients get it.
    fn response(&self, standing: &ResponseStanding<'_>, output: &[Value]) -> Value {
        let (status, incomplete, error, usage) = match standing {
            ResponseStanding::InProgress => ("in_progress", Value::Null, Value::Null, Value::Null),
            ResponseStanding::Ended(result) => {
                let (status, incomplete) = match result.outcome {
                    TurnOutcome::BudgetExhausted => {
                        ("incomplete", json!({ "reason": "max_output_tokens" }))
                    }
                    TurnOutcome::Refused => ("incomplete", json!({ "reason": "content_filter" })),
                    _ => ("completed", Value::Null),
                };
                (status, incomplete, Value::Null, usage(result))
            }
            ResponseStanding::Failed(error) => {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::shapes::ResponseBody;

    #[test]
    fn a_response_is_what_the_document_says() {
        let draft = Draft {
            id: "resp_1".to_owned(),
            created_at: 1,
            model: "m".to_owned(),
            instructions: None,
            previous: None,
            metadata: json!({ "a": "b" }),
            is_stored: true,
        };
        let mut output = output::ResponseOutput::default();
        output.say("resp_1", "let me look");
        output.call("c1", "terminal", "{}");
        output.called("c1", "done");
        output.say("resp_1", "ok");
        output.close_message();
        let result = crate::turns::answered_for_tests("ok");
        let failure = ApiError::internal("no");
        for standing in [
            ResponseStanding::InProgress,
            ResponseStanding::Ended(&result),
            ResponseStanding::Failed(&failure),
        ] {
            let body = draft.response(&standing, output.items());
            let read: Result<ResponseBody, _> = serde_json::from_value(body);
            assert!(read.is_ok(), "{read:?}");
        }
    }
}
