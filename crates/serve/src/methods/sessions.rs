//! Sessions: begun, found, joined, closed.

use std::path::PathBuf;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vestal_conversations::{ConversationFilter, ConversationId, Title};
use vestal_model::{AssistantMessage, Message};
use vestal_runtime::{ConversationChoice, OpenRequest, endpoints};

use super::{MethodCall, Nothing, SessionParams};
use crate::error::{self, RpcError};
use crate::server::NewSession;
use crate::session::{ConversationOpening, Session, SessionFacts};
use crate::views::{ActiveSession, LiveSession, SessionInfo, StoredSession};

/// Conversations that are listed at most.
const MOST_LISTED: u32 = 500;

pub(crate) type LiveResult = LiveSession;

/// How a session is to be.
#[derive(Debug, Default, Deserialize, JsonSchema)]
pub(crate) struct CreateParams {
    /// The directory of the host that it is about; absolute.
    #[serde(default)]
    pub(crate) cwd: Option<PathBuf>,
    /// The title of the conversation.
    #[serde(default)]
    pub(crate) title: Option<String>,
    /// What was said before, elsewhere.
    #[serde(default)]
    pub(crate) messages: Vec<SaidBefore>,
    /// `MODEL` or `PROVIDER:MODEL`; the configured one without it.
    #[serde(default)]
    pub(crate) model: Option<String>,
    /// The provider of `model`.
    #[serde(default)]
    pub(crate) provider: Option<String>,
    /// What the store notes as the maker of the conversation.
    #[serde(default)]
    pub(crate) source: Option<String>,
    /// Whether the session ends as soon as nobody is connected to it.
    #[serde(default)]
    pub(crate) close_on_disconnect: bool,
}

/// A message from before.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct SaidBefore {
    /// Who said it.
    role: SaidBy,
    /// The words.
    text: String,
}

/// Who said something.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum SaidBy {
    /// The person.
    User,
    /// The model.
    Assistant,
}

impl From<SaidBefore> for Message {
    fn from(said: SaidBefore) -> Self {
        match said.role {
            SaidBy::User => Self::user(said.text),
            SaidBy::Assistant => {
                Self::Assistant(AssistantMessage { text: said.text, ..AssistantMessage::default() })
            }
        }
    }
}

pub(super) async fn create(call: MethodCall, params: CreateParams) -> Result<LiveResult, RpcError> {
    let session = create_session(&call, params)?;
    session.attach(call.connection, &call.outbox).await
}

/// Begins a session that nobody watches yet.
pub(crate) fn create_session(
    call: &MethodCall,
    params: CreateParams,
) -> Result<Arc<Session>, RpcError> {
    let server = &call.server;
    let runtime = server.runtime();
    let today = runtime.settings().reload();
    let model = match (params.provider, params.model) {
        (Some(provider), Some(model)) => Some(format!("{provider}:{model}")),
        (Some(_), None) => return Err(RpcError::empty("model, which a provider needs,")),
        (None, model) => model,
    };
    // A model that cannot be asked is told now, not with the first prompt.
    let chain = endpoints(&today, model.as_deref())?;
    let cwd = match params.cwd {
        Some(cwd) => Some(checked_dir(cwd)?),
        None => server.cwd().cloned(),
    };
    let title = params.title.filter(|title| !title.trim().is_empty());
    let first = chain.first();
    let selection = vestal_agent::settings::selection(&today)
        .map_err(|error| RpcError::new(error::AGENT, error.to_string()))?;
    let (tools, _) = runtime.agent().tools().select(&selection);
    let facts = SessionFacts {
        title: title.clone(),
        provider: first.map(|endpoint| endpoint.name.clone()),
        model: first.map(|endpoint| endpoint.model.clone()),
        cwd: cwd.as_ref().map(|cwd| cwd.display().to_string()),
        tools: tools.names().map(str::to_owned).collect(),
        skills: runtime.skills().names(),
        ..SessionFacts::default()
    };
    let source = params.source.filter(|source| !source.trim().is_empty());
    let request = OpenRequest {
        title: title.map(Title::Given),
        model,
        cwd,
        ..OpenRequest::new(source.unwrap_or_else(|| server.source().to_owned()))
    };
    let history = params.messages.into_iter().map(Into::into).collect();
    server.add_session(NewSession {
        opening: ConversationOpening { request, history },
        facts,
        close_on_disconnect: params.close_on_disconnect,
        is_resumed: false,
    })
}

fn checked_dir(dir: PathBuf) -> Result<PathBuf, RpcError> {
    if dir.is_absolute() && dir.is_dir() {
        return Ok(dir);
    }
    let message = format!("{} is no absolute path of a directory", dir.display());
    Err(RpcError::new(error::BAD_VALUE, message))
}

/// A directory for a session.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct CwdParams {
    /// The live session.
    session_id: String,
    /// The directory of the host; absolute.
    cwd: PathBuf,
}

/// What a session is about now.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CwdResult {
    /// What is known of the session.
    info: SessionInfo,
}

pub(super) async fn set_cwd(call: MethodCall, params: CwdParams) -> Result<CwdResult, RpcError> {
    let session = call.server.session(&params.session_id)?;
    let cwd = checked_dir(params.cwd)?;
    let mut exclusive = session.exclusive("changing the directory").await?;
    let Some(opening) = exclusive.opening() else {
        // The model was told of it, and its shell is where it is.
        let message = "the conversation has begun, and stays about its directory";
        return Err(RpcError::new(error::STALE, message)
            .advise("make another session; in this one, say where to go"));
    };
    opening.request.cwd = Some(cwd.clone());
    session.update_facts(|facts| facts.cwd = Some(cwd.display().to_string()));
    Ok(CwdResult { info: session.info() })
}

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

/// A conversation to go on with.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct ResumeParams {
    /// Its id, a beginning of it, or its title.
    session_id: String,
    /// Whether the session ends as soon as nobody is connected to it.
    #[serde(default)]
    close_on_disconnect: bool,
}

pub(super) async fn resume(call: MethodCall, params: ResumeParams) -> Result<LiveResult, RpcError> {
    let session = resume_session(&call, &params.session_id, params.close_on_disconnect).await?;
    session.attach(call.connection, &call.outbox).await
}

/// Returns the live session of a conversation, which is opened unless it is.
pub(crate) async fn resume_session(
    call: &MethodCall,
    wanted: &str,
    close_on_disconnect: bool,
) -> Result<Arc<Session>, RpcError> {
    if wanted.trim().is_empty() {
        return Err(RpcError::new(error::ID_REQUIRED, "session_id is empty"));
    }
    // A live session is meant by its own id, too.
    if let Ok(live) = call.server.session(wanted) {
        return Ok(live);
    }
    let _opening = call.server.opening().await;
    let id = call.server.runtime().agent().store().find(wanted).await?;
    match call.server.session_of(&id) {
        Some(live) => Ok(live),
        None => open_stored(call, id, close_on_disconnect).await,
    }
}

/// Makes a session of a conversation in the store, and opens it at once: whether another process
/// holds it is to be known now.
async fn open_stored(
    call: &MethodCall,
    id: ConversationId,
    close_on_disconnect: bool,
) -> Result<Arc<Session>, RpcError> {
    let server = &call.server;
    let known = server.runtime().agent().store().get(&id).await?;
    let facts = SessionFacts {
        stored: Some(id.clone()),
        title: known.title,
        provider: Some(known.provider),
        model: Some(known.model),
        cwd: known.cwd.map(|cwd| cwd.display().to_string()),
        skills: server.runtime().skills().names(),
        ..SessionFacts::default()
    };
    let request = OpenRequest {
        which: ConversationChoice::Id(id),
        cwd: server.cwd().cloned(),
        ..OpenRequest::new(server.source())
    };
    let opening = ConversationOpening { request, history: Vec::new() };
    let new = NewSession { opening, facts, close_on_disconnect, is_resumed: true };
    let session = server.add_session(new)?;
    let opened = match session.exclusive("resuming").await {
        Ok(mut exclusive) => exclusive.opened().await.map(|_| ()),
        Err(error) => Err(error),
    };
    if let Err(error) = opened {
        server.close_session(&session, "it could not be opened").await;
        return Err(error);
    }
    Ok(session)
}

/// The session that the client shows.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct ActiveListParams {
    /// It is marked in the list.
    #[serde(default)]
    current_session_id: Option<String>,
}

/// Live sessions.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ActiveListResult {
    /// In no particular order.
    sessions: Vec<ActiveSession>,
}

pub(super) async fn active_list(
    call: MethodCall,
    params: ActiveListParams,
) -> Result<ActiveListResult, RpcError> {
    let current = params.current_session_id.as_deref();
    let sessions = call.server.sessions();
    let sessions = sessions.iter().map(|session| session.active_view(current)).collect();
    Ok(ActiveListResult { sessions })
}

pub(super) async fn activate(
    call: MethodCall,
    params: SessionParams,
) -> Result<LiveResult, RpcError> {
    call.server.session(&params.session_id)?.attach(call.connection, &call.outbox).await
}

/// Whether a session was closed.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CloseResult {
    /// False if another request closed it first.
    closed: bool,
}

pub(super) async fn close(
    call: MethodCall,
    params: SessionParams,
) -> Result<CloseResult, RpcError> {
    let session = call.server.session(&params.session_id)?;
    let closed = call.server.close_session(&session, "a client closed it").await;
    Ok(CloseResult { closed })
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
    // Whoever works in it elsewhere keeps it.
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

/// A branch.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct BranchParams {
    /// The live session to branch from.
    session_id: String,
    /// The title of the branch; that of the original with a number without it.
    #[serde(default)]
    name: Option<String>,
}

/// A branch that is live.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct BranchResult {
    /// Its id among the live sessions.
    session_id: String,
    /// Its id in the store.
    stored_session_id: Option<String>,
    /// Its title.
    title: Option<String>,
    /// The conversation it comes from.
    parent: String,
}

pub(super) async fn branch(
    call: MethodCall,
    params: BranchParams,
) -> Result<BranchResult, RpcError> {
    let session = call.server.session(&params.session_id)?;
    let (branch, parent) = branch_session(&call, &session, params.name.as_deref()).await?;
    branch.attach(call.connection, &call.outbox).await?;
    Ok(BranchResult {
        session_id: branch.id.to_string(),
        stored_session_id: branch.stored().map(String::from),
        title: branch.facts().title,
        parent: parent.into(),
    })
}

/// Copies the conversation of a session into a new live session. Returns it, and the original.
pub(crate) async fn branch_session(
    call: &MethodCall,
    session: &Arc<Session>,
    name: Option<&str>,
) -> Result<(Arc<Session>, ConversationId), RpcError> {
    let name = name.filter(|name| !name.trim().is_empty());
    let (parent, branch) = {
        let mut exclusive = session.exclusive("branching").await?;
        let conversation = exclusive.conversation();
        let Some(conversation) = conversation.filter(|known| !known.messages().is_empty()) else {
            let message = "nothing was said yet, so there is nothing to branch from";
            return Err(RpcError::new(error::NOTHING_TO_BRANCH, message));
        };
        (conversation.id().clone(), Box::pin(conversation.branch(name)).await?)
    };
    let _opening = call.server.opening().await;
    Ok((open_stored(call, branch, session.close_on_disconnect).await?, parent))
}
