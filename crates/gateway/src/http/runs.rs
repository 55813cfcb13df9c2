//! `/v1/runs`: turns that continue without their client, and can be watched, answered and stopped.

use std::convert::Infallible;

use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::Event as SseEvent;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use futures_util::stream;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use vestal_agent::Approval;
use vestal_api::AgentRunView;
use vestal_runtime::{AnswerError, RemoteAnswer, RemoteQuestion};

use super::error::ApiError;
use super::idempotency::ClaimedKey;
use super::openapi::Listed;
use super::responses::{Input, add_input};
use super::sessions::session_id;
use super::{ApiState, sse};
use crate::http::input::Dialogue;
use crate::runs::EventReader;
use crate::store::{RunRecord, RunStatus, StoredEvent};

/// The most runs that one answer lists.
const MAX_LISTED: u32 = 500;

/// A run to be begun.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct StartRunRequest {
    /// What is said: text, or a list of messages of which the last is said now.
    input: Input,
    /// The session to go on with.
    #[serde(default)]
    session_id: Option<String>,
    /// Added to the agent's own instructions.
    #[serde(default)]
    instructions: Option<String>,
    /// Any name; the run repeats it.
    #[serde(default)]
    model: Option<String>,
}

/// An answer to a question of a run.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct AnswerRequest {
    /// Which question; may be left out while there is one.
    #[serde(default)]
    id: Option<String>,
    /// What is allowed.
    #[serde(default, alias = "decision")]
    choice: Option<Choice>,
    /// Why it is denied; the model reads it.
    #[serde(default)]
    reason: Option<String>,
    /// The answer to a question of the model.
    #[serde(default)]
    answer: Option<String>,
}

/// What is allowed.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Choice {
    /// This once.
    #[serde(alias = "approve")]
    Once,
    /// Whenever it comes up in this session.
    #[serde(alias = "conversation")]
    Session,
    /// Whenever it comes up.
    Always,
    /// Nothing.
    Deny,
}

/// An answer that was taken.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct AnsweredView {
    /// `run.approval`.
    object: &'static str,
    /// The run.
    run_id: String,
    /// The question.
    id: String,
    /// True.
    resolved: bool,
}

/// A run that was to be stopped.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct StoppingView {
    /// `run`.
    object: &'static str,
    /// The run.
    run_id: String,
    /// `stopping`, or how it had ended.
    status: &'static str,
}

/// Where in the events to begin.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct RunEventsQuery {
    /// The number of the last event that the client has; `Last-Event-ID` counts before it.
    after: Option<i64>,
}

/// How many are wanted.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct RunListQuery {
    /// At most so many: 50 unless given, 500 at most.
    limit: Option<u32>,
}

/// `POST /v1/runs`.
pub(super) async fn begin(
    State(app): State<ApiState>,
    claim: Option<Extension<ClaimedKey>>,
    body: Result<Json<StartRunRequest>, JsonRejection>,
) -> Result<Response, ApiError> {
    let Json(request) = body?;
    let session = request.session_id.as_deref().map(session_id).transpose()?;
    let model = request.model.unwrap_or_else(|| app.server.model_name.clone());
    let mut dialogue = Dialogue::default();
    dialogue.instruct(request.instructions.unwrap_or_default());
    add_input(&mut dialogue, request.input)?;
    let claim = claim.map(|Extension(claim)| claim.number());
    let run = app.runs.begin(dialogue.into_turn("input", session)?, model, claim).await?;
    Ok((StatusCode::ACCEPTED, Json(accepted(&run))).into_response())
}

/// Returns the answer to the request that began a run, whatever became of the run since.
pub(super) fn accepted(run: &RunRecord) -> Value {
    let begun = RunRecord {
        status: RunStatus::Started,
        ended_at: None,
        output: None,
        usage: None,
        error: None,
        last_event: 0,
        ..run.clone()
    };
    json!(view(&begun, &[]))
}

/// `GET /v1/runs`: the newest first.
pub(super) async fn list(
    State(app): State<ApiState>,
    query: Result<Query<RunListQuery>, QueryRejection>,
) -> Result<Json<Listed<AgentRunView>>, ApiError> {
    let Query(query) = query.map_err(|error| ApiError::of_query(&error))?;
    let limit = query.limit.unwrap_or(50).min(MAX_LISTED);
    let runs = app.runs.list(limit + 1).await?;
    Ok(Json(Listed::first(runs.iter().map(|run| view(run, &[])).collect(), limit)))
}

/// `GET /v1/runs/{id}`.
pub(super) async fn show(
    State(app): State<ApiState>,
    Path(id): Path<String>,
) -> Result<Json<AgentRunView>, ApiError> {
    let (run, questions) = find(&app, &id).await?;
    Ok(Json(view(&run, &questions)))
}

/// `GET /v1/runs/{id}/events`: from the beginning, or after the event that the client has, to the
/// last.
pub(super) async fn events(
    State(app): State<ApiState>,
    Path(id): Path<String>,
    headers: HeaderMap,
    query: Result<Query<RunEventsQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let Query(query) = query.map_err(|error| ApiError::of_query(&error))?;
    let after = match headers.get("last-event-id") {
        Some(given) => {
            let given = given.to_str().ok().and_then(|given| given.trim().parse().ok());
            given.ok_or_else(|| {
                ApiError::invalid("last-event-id", "must be the id of an event: a whole number")
            })?
        }
        None => query.after.unwrap_or(0),
    };
    let (run, _) = find(&app, &id).await?;
    let reader = app.runs.read(&run, after);
    Ok(sse::response(stream::unfold(Some((reader, run.id)), next)))
}

async fn next(
    state: Option<(EventReader, String)>,
) -> Option<(Result<SseEvent, Infallible>, Option<(EventReader, String)>)> {
    let (mut reader, run) = state?;
    match reader.next().await {
        Ok(Some(event)) => Some((Ok(sse_event(&run, &event)), Some((reader, run)))),
        Ok(None) => None,
        Err(error) => {
            // The client comes back with the last id that it has.
            let error = ApiError::from(error);
            Some((Ok(sse::named("error", &error.body())), None))
        }
    }
}

fn sse_event(run: &str, event: &StoredEvent) -> SseEvent {
    let mut data: Value = serde_json::from_str(&event.data).unwrap_or_else(|_| json!({}));
    data["event"] = json!(event.name);
    data["run_id"] = json!(run);
    data["timestamp"] = json!(event.at.to_string());
    sse::named(&event.name, &data).id(event.seq.to_string())
}

/// `POST /v1/runs/{id}/approval`.
pub(super) async fn approve(
    State(app): State<ApiState>,
    Path(id): Path<String>,
    body: Result<Json<AnswerRequest>, JsonRejection>,
) -> Result<Json<AnsweredView>, ApiError> {
    let Json(request) = body?;
    let (run, questions) = find(&app, &id).await?;
    let question = match (request.id, &*questions) {
        (Some(id), _) => id,
        (None, [only]) => only.id.clone(),
        (None, []) => return Err(ApiError::conflict("question_not_open", "no question is open")),
        (None, _) => {
            return Err(ApiError::invalid("id", "several questions are open; say which"));
        }
    };
    let answer = match (request.choice, request.answer) {
        (Some(choice), None) => RemoteAnswer::Approval(match choice {
            Choice::Once => Approval::Once,
            Choice::Session => Approval::Conversation,
            Choice::Always => Approval::Always,
            Choice::Deny => Approval::Deny(request.reason),
        }),
        (None, Some(answer)) => RemoteAnswer::Clarification(Some(answer)),
        _ => {
            let message = "send choice (once, session, always, deny) for an approval, or answer for a question";
            return Err(ApiError::invalid("choice", message));
        }
    };
    app.runs.answer(&run.id, &question, answer).map_err(|error| match error {
        AnswerError::NotOpen => ApiError::conflict("question_not_open", error.to_string()),
        AnswerError::WrongKind | AnswerError::MayNotLast => {
            ApiError::invalid("choice", error.to_string())
        }
    })?;
    let (object, resolved) = ("run.approval", true);
    Ok(Json(AnsweredView { object, run_id: run.id, id: question, resolved }))
}

/// `POST /v1/runs/{id}/stop`: the commands of the run end too. Its last event says when it has
/// ended; a run that had ended stays as it is.
pub(super) async fn stop(
    State(app): State<ApiState>,
    Path(id): Path<String>,
) -> Result<Json<StoppingView>, ApiError> {
    let (run, _) = find(&app, &id).await?;
    let status = if app.runs.stop(&run.id) { "stopping" } else { run.status.as_str() };
    Ok(Json(StoppingView { object: "run", run_id: run.id, status }))
}

async fn find(app: &ApiState, id: &str) -> Result<(RunRecord, Vec<RemoteQuestion>), ApiError> {
    let found = app.runs.get(id).await?;
    found.ok_or_else(|| ApiError::gone("run_not_found", format!("there is no run {id:?}")))
}

fn view(run: &RunRecord, questions: &[RemoteQuestion]) -> AgentRunView {
    AgentRunView {
        object: "run".to_owned(),
        run_id: run.id.clone(),
        status: run.status,
        session_id: run.session.clone(),
        model: run.model.clone(),
        created_at: run.created_at.to_string(),
        ended_at: run.ended_at.map(|time| time.to_string()),
        output: run.output.clone(),
        usage: run.usage,
        error: run.error.clone(),
        last_event_id: run.last_event,
        questions: questions.iter().map(|question| json!(question)).collect(),
    }
}
