//! Conversations of the profile as resources.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vestal_agent::NoHuman;
use vestal_api::ConversationView;
use vestal_conversations::{ConversationFilter, ConversationId, Seq, Stored, Title};
use vestal_runtime::OpenRequest;

use super::ApiState;
use super::chat::{self, ChatRequest};
use super::error::ApiError;
use super::input::{Content, SOURCE};
use super::openapi::{DeletedView, Listed};
use super::shapes::StoredMessage;
use crate::turns::TurnRefused;

/// The most conversations that one answer lists.
const MAX_LISTED: u32 = 500;

/// Why a conversation that nobody has spoken in yet is not open.
const NOT_BEGUN: &str = "created";

/// What of the list is wanted.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct SessionListQuery {
    /// At most so many: 50 unless given, 500 at most.
    limit: Option<u32>,
    /// Only those that this front end began, as `cli`.
    source: Option<String>,
}

/// A session to be made.
#[derive(Debug, Default, Deserialize, JsonSchema)]
pub(super) struct CreateRequest {
    /// Its title; no other session may have it.
    #[serde(default)]
    title: Option<String>,
    /// `MODEL` or `PROVIDER:MODEL`; the configured one unless given.
    #[serde(default)]
    model: Option<String>,
}

/// What is to be changed.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ChangeRequest {
    /// The new title.
    title: String,
}

/// A branch to be made.
#[derive(Debug, Default, Deserialize, JsonSchema)]
pub(super) struct ForkRequest {
    /// The title of the branch; the original's with a number unless given.
    #[serde(default)]
    title: Option<String>,
    /// The last message that the branch has; all of them unless given.
    #[serde(default)]
    at: Option<i64>,
}

/// What is said in a session.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct SayRequest {
    /// The words, or parts.
    #[serde(alias = "input")]
    message: Content,
    /// Whether the words of the answer are sent as they come.
    #[serde(default)]
    stream: bool,
}

/// What the model sees of a session.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct MessagesView {
    /// `list`.
    object: &'static str,
    /// The session.
    session_id: String,
    /// The messages, in order.
    #[schemars(with = "Vec<StoredMessage>")]
    data: Vec<Stored>,
}

/// `GET /api/sessions`: most recently used first.
pub(super) async fn list(
    State(app): State<ApiState>,
    query: Result<Query<SessionListQuery>, QueryRejection>,
) -> Result<Json<Listed<ConversationView>>, ApiError> {
    let Query(query) = query.map_err(|error| ApiError::of_query(&error))?;
    let limit = query.limit.unwrap_or(ConversationFilter::default().limit).min(MAX_LISTED);
    let filter = ConversationFilter {
        limit: limit + 1,
        source: query.source,
        ..ConversationFilter::default()
    };
    let found = app.turns.store().list(&filter).await?;
    Ok(Json(Listed::first(found.iter().map(Into::into).collect(), limit)))
}

/// `POST /api/sessions`: nothing is said in it yet.
pub(super) async fn create(
    State(app): State<ApiState>,
    body: Result<Json<CreateRequest>, JsonRejection>,
) -> Result<Response, ApiError> {
    let Json(request) = body?;
    let mut open = OpenRequest::new(SOURCE);
    open.title = request.title.map(Title::Given);
    open.model = request.model;
    let runtime = app.turns.runtime();
    let opened = Box::pin(runtime.open(open, Arc::new(NoHuman))).await;
    let opened = opened.map_err(TurnRefused::from)?;
    let id = opened.conversation.id().clone();
    // Not closed: one in which nothing was said would be deleted by that.
    drop(opened);
    runtime.agent().store().end(&id, NOT_BEGUN).await?;
    Ok((StatusCode::CREATED, Json(view(&app, &id).await?)).into_response())
}

/// `GET /api/sessions/{id}`.
pub(super) async fn show(
    State(app): State<ApiState>,
    Path(id): Path<String>,
) -> Result<Json<ConversationView>, ApiError> {
    Ok(Json(view(&app, &session_id(&id)?).await?))
}

/// `PATCH /api/sessions/{id}`.
pub(super) async fn change(
    State(app): State<ApiState>,
    Path(id): Path<String>,
    body: Result<Json<ChangeRequest>, JsonRejection>,
) -> Result<Json<ConversationView>, ApiError> {
    let Json(request) = body?;
    let id = session_id(&id)?;
    let store = app.turns.runtime().agent().store();
    store.set_title(&id, &Title::Given(request.title)).await?;
    Ok(Json(view(&app, &id).await?))
}

/// `POST /api/sessions/{id}/fork`.
pub(super) async fn fork(
    State(app): State<ApiState>,
    Path(id): Path<String>,
    body: Result<Json<ForkRequest>, JsonRejection>,
) -> Result<Response, ApiError> {
    let Json(request) = body?;
    let id = session_id(&id)?;
    let title = request.title.map(Title::Given);
    let store = app.turns.runtime().agent().store();
    let branch = match request.at {
        Some(at) => store.branch(&id, Some(Seq(at)), title).await?,
        None => store.branch_with_state(&id, title, &[]).await?,
    };
    store.end(&branch.id, NOT_BEGUN).await?;
    Ok((StatusCode::CREATED, Json(view(&app, &branch.id).await?)).into_response())
}

/// `GET /api/sessions/{id}/messages`: what the model sees of it, in order.
pub(super) async fn messages(
    State(app): State<ApiState>,
    Path(id): Path<String>,
) -> Result<Json<MessagesView>, ApiError> {
    let id = session_id(&id)?;
    let store = app.turns.runtime().agent().store();
    // Without this, one that is not there would look like one in which nothing was said.
    store.get(&id).await?;
    let messages = store.messages(&id).await?;
    Ok(Json(MessagesView { object: "list", session_id: id.to_string(), data: messages }))
}

/// `POST /api/sessions/{id}/chat`: the answer has the shape of a chat completion.
pub(super) async fn say(
    State(app): State<ApiState>,
    Path(id): Path<String>,
    body: Result<Json<SayRequest>, JsonRejection>,
) -> Result<Response, ApiError> {
    let Json(request) = body?;
    let stream = request.stream;
    chat::answer(&app, ChatRequest::of_user(request.message, stream), Some(session_id(&id)?), None)
        .await
}

/// `POST /api/sessions/{id}/chat/stream`.
pub(super) async fn send_streaming(
    State(app): State<ApiState>,
    Path(id): Path<String>,
    body: Result<Json<SayRequest>, JsonRejection>,
) -> Result<Response, ApiError> {
    let Json(request) = body?;
    chat::answer(&app, ChatRequest::of_user(request.message, true), Some(session_id(&id)?), None)
        .await
}

/// `DELETE /api/sessions/{id}`: refused while a turn runs in it.
pub(super) async fn delete(
    State(app): State<ApiState>,
    Path(id): Path<String>,
) -> Result<Json<DeletedView>, ApiError> {
    let id = session_id(&id)?;
    let store = app.turns.runtime().agent().store();
    let lease = store.lease(&id)?;
    store.get(&id).await?;
    store.delete(&id).await?;
    drop(lease);
    Ok(Json(DeletedView::new(id.to_string(), "session.deleted")))
}

async fn view(app: &ApiState, id: &ConversationId) -> Result<ConversationView, ApiError> {
    let summary = app.turns.runtime().agent().store().summary(id).await?;
    Ok((&summary).into())
}

/// Reads the id of a session. A program names it in full: no prefix and no title will do.
pub(super) fn session_id(text: &str) -> Result<ConversationId, ApiError> {
    text.parse().map_err(|error: vestal_conversations::InvalidConversationId| {
        ApiError::from(vestal_conversations::Error::InvalidId(error))
    })
}
