//! Stored conversations: listed, deleted, and their titles.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vestal_conversations::{ConversationFilter, Title};

use super::{MethodCall, Nothing};
use crate::error::{self, RpcError};
use crate::session::Session;
use crate::views::StoredSession;

/// Conversations that are listed at most.
const MOST_LISTED: u32 = 500;

/// Which conversations are wanted.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct ListParams {
    /// How many at most; 50 without it.
    #[serde(default)]
    limit: Option<u32>,
    /// Only those of this maker, such as `cli`.
    #[serde(default)]
    source: Option<String>,
}

/// Conversations.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ListResult {
    /// Most recently used first.
    sessions: Vec<StoredSession>,
}

pub(super) async fn list(call: MethodCall, params: ListParams) -> Result<ListResult, RpcError> {
    let limit = params.limit.unwrap_or(ConversationFilter::default().limit).min(MOST_LISTED);
    let filter =
        ConversationFilter { limit, source: params.source, ..ConversationFilter::default() };
    let found = call.server.runtime().agent().store().list(&filter).await?;
    let stored = |summary: vestal_conversations::ConversationSummary| {
        let live = call.server.session_of(&summary.conversation.id);
        StoredSession::new(summary, live.map(|session| session.id.to_string()))
    };
    Ok(ListResult { sessions: found.into_iter().map(stored).collect() })
}

/// The conversation that was used last.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct MostRecentResult {
    /// Its id; null if there is none.
    session_id: Option<String>,
    /// Its title.
    title: Option<String>,
    /// When it began.
    started_at: Option<String>,
    /// What made it.
    source: Option<String>,
}

pub(super) async fn most_recent(
    call: MethodCall,
    _: Nothing,
) -> Result<MostRecentResult, RpcError> {
    let filter = ConversationFilter { limit: 1, ..ConversationFilter::default() };
    let found = call.server.runtime().agent().store().list(&filter).await?;
    let found = found.into_iter().next().map(|summary| summary.conversation);
    Ok(match found {
        Some(found) => MostRecentResult {
            session_id: Some(found.id.to_string()),
            title: found.title,
            started_at: Some(found.started_at.to_string()),
            source: Some(found.source),
        },
        None => MostRecentResult { session_id: None, title: None, started_at: None, source: None },
    })
}

/// A conversation to be deleted.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct DeleteParams {
    /// Its id in the store, a beginning of it, or its title.
    session_id: String,
}

/// A conversation that is gone.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct DeleteResult {
    /// Its id.
    deleted: String,
    /// Messages that it had.
    messages: u64,
}

pub(super) async fn delete(
    call: MethodCall,
    params: DeleteParams,
) -> Result<DeleteResult, RpcError> {
    if params.session_id.trim().is_empty() {
        return Err(RpcError::new(error::ID_REQUIRED, "session_id is empty"));
    }
    let _opening = call.server.opening().await;
    let store = call.server.runtime().agent().store();
    let live = || {
        RpcError::new(error::ACTIVE, "the conversation is open in a live session")
            .advise("close it first: session.close")
    };
    if call.server.session(&params.session_id).is_ok() {
        return Err(live());
    }
    let id = store.find(&params.session_id).await?;
    if call.server.session_of(&id).is_some() {
        return Err(live());
    }
    // A process that works in it elsewhere keeps it.
    let lease = store.lease(&id)?;
    let messages = store.summary(&id).await?.messages;
    store.delete(&id).await?;
    drop(lease);
    Ok(DeleteResult { deleted: id.into(), messages })
}

/// A title that is asked for, or a new one.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct TitleParams {
    /// The live session.
    session_id: String,
    /// The new title; without it the title is returned.
    #[serde(default)]
    title: Option<String>,
}

/// A title.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct TitleResult {
    /// The title now.
    pub(crate) title: Option<String>,
    /// Whether it is stored with the first prompt only.
    pub(crate) pending: bool,
}

pub(super) async fn title(call: MethodCall, params: TitleParams) -> Result<TitleResult, RpcError> {
    let session = call.server.session(&params.session_id)?;
    set_title(&session, params.title).await
}

/// Returns the title of a session, or sets it. It may be set while a turn runs.
pub(crate) async fn set_title(
    session: &Arc<Session>,
    title: Option<String>,
) -> Result<TitleResult, RpcError> {
    let Some(title) = title else {
        let facts = session.facts();
        return Ok(TitleResult { title: facts.title, pending: facts.stored.is_none() });
    };
    if title.trim().is_empty() {
        return Err(RpcError::empty("title"));
    }
    if session.stored().is_none() {
        let mut exclusive = session.exclusive("setting the title").await?;
        if let Some(opening) = exclusive.opening() {
            opening.request.title = Some(Title::Given(title.clone()));
            session.update_facts(|facts| facts.title = Some(title.clone()));
            return Ok(TitleResult { title: Some(title), pending: true });
        }
    }
    let Some(id) = session.stored() else { return Err(RpcError::busy("setting the title")) };
    let store = session.runtime.agent().store();
    let title = store.set_title(&id, &Title::Given(title)).await?;
    session.update_facts(|facts| facts.title = Some(title.clone()));
    Ok(TitleResult { title: Some(title), pending: false })
}
