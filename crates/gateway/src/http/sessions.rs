//! Conversations of the profile as resources.

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use serde::Deserialize;
use serde_json::{Value, json};
use vestal_api::ConversationView;
use vestal_conversations::{ConversationId, Filter};

use super::App;
use super::error::ApiError;

/// The most conversations that one answer lists.
const MAX_LISTED: u32 = 500;

/// What of the list is wanted.
#[derive(Debug, Deserialize)]
pub(super) struct ListQuery {
    limit: Option<u32>,
    source: Option<String>,
}

/// `GET /api/sessions`: most recently used first.
pub(super) async fn list(
    State(app): State<App>,
    query: Result<Query<ListQuery>, QueryRejection>,
) -> Result<Json<Value>, ApiError> {
    let Query(query) = query.map_err(|error| ApiError::invalid("limit", error.body_text()))?;
    let limit = query.limit.unwrap_or(Filter::default().limit).min(MAX_LISTED);
    let filter = Filter { limit, source: query.source, ..Filter::default() };
    let found = app.turns.runtime().agent().store().list(&filter).await?;
    let sessions: Vec<ConversationView> = found.iter().map(Into::into).collect();
    Ok(Json(json!({ "object": "list", "data": sessions })))
}

/// `GET /api/sessions/{id}`.
pub(super) async fn show(
    State(app): State<App>,
    Path(id): Path<String>,
) -> Result<Json<ConversationView>, ApiError> {
    let summary = app.turns.runtime().agent().store().summary(&session_id(&id)?).await?;
    Ok(Json((&summary).into()))
}

/// `GET /api/sessions/{id}/messages`: what the model sees of it, in order.
pub(super) async fn messages(
    State(app): State<App>,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let id = session_id(&id)?;
    let store = app.turns.runtime().agent().store();
    // Without this, one that is not there would look like one in which nothing was said.
    store.get(&id).await?;
    let messages = store.messages(&id).await?;
    Ok(Json(json!({ "object": "list", "session_id": id, "data": messages })))
}

/// `DELETE /api/sessions/{id}`: refused while a turn runs in it.
pub(super) async fn delete(
    State(app): State<App>,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let id = session_id(&id)?;
    let store = app.turns.runtime().agent().store();
    let lease = store.lease(&id)?;
    store.get(&id).await?;
    store.delete(&id).await?;
    drop(lease);
    Ok(Json(json!({ "id": id, "object": "session.deleted", "deleted": true })))
}

/// Reads the id of a session. A program names it in full: no prefix and no title will do.
pub(super) fn session_id(text: &str) -> Result<ConversationId, ApiError> {
    text.parse().map_err(|error: vestal_conversations::InvalidId| {
        ApiError::from(vestal_conversations::Error::InvalidId(error))
    })
}
