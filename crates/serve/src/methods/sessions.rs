//! Sessions: begun, found, joined, closed.

use std::path::PathBuf;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vestal_conversations::{ConversationId, Title};
use vestal_model::{AssistantMessage, Message};
use vestal_runtime::{ConversationChoice, OpenRequest, endpoints};

use super::{MethodCall, SessionParams};
use crate::error::{self, RpcError};
use crate::server::NewSession;
use crate::session::{ConversationOpening, Session, SessionFacts};
use crate::views::{ActiveSession, LiveSession, SessionInfo};

pub(crate) type LiveResult = LiveSession;

/// How a session is to be.
#[derive(Debug, Default, Deserialize, JsonSchema)]
pub(crate) struct CreateParams {
    /// The directory of the host that it is about; absolute. Over a network it is refused.
    #[serde(default)]
    pub(crate) cwd: Option<PathBuf>,
    /// The title of the conversation.
    #[serde(default)]
    pub(crate) title: Option<String>,
    /// What was said before, elsewhere.
    #[serde(default)]
    pub(crate) messages: Vec<PriorMessage>,
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
pub(crate) struct PriorMessage {
    /// Who said it.
    role: PriorRole,
    /// The words.
    text: String,
}

/// Who said something.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum PriorRole {
    /// The person.
    User,
    /// The model.
    Assistant,
}

impl From<PriorMessage> for Message {
    fn from(message: PriorMessage) -> Self {
        match message.role {
            PriorRole::User => Self::user(message.text),
            PriorRole::Assistant => Self::Assistant(AssistantMessage {
                text: message.text,
                ..AssistantMessage::default()
            }),
        }
    }
}

pub(super) async fn create(call: MethodCall, params: CreateParams) -> Result<LiveResult, RpcError> {
    let session = create_session(&call, params)?;
    session.attach(call.connection, &call.outbox).await
}

/// Begins a session that nobody watches yet.
fn create_session(call: &MethodCall, mut params: CreateParams) -> Result<Arc<Session>, RpcError> {
    let cwd = match params.cwd.take() {
        Some(cwd) => Some(checked_dir(call, cwd)?),
        None => call.server.cwd().cloned(),
    };
    create_session_in(call, cwd, params)
}

/// Begins one that is about this directory, which need not be asked for.
pub(crate) fn create_session_in(
    call: &MethodCall,
    cwd: Option<PathBuf>,
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
    // A model that cannot be asked is reported now, not with the first prompt.
    let chain = endpoints(&today, model.as_deref())?;
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

fn checked_dir(call: &MethodCall, dir: PathBuf) -> Result<PathBuf, RpcError> {
    let instead = "say in the conversation where to go; terminal.cwd says where it begins";
    call.server.clients().check_host_path(&dir, instead)?;
    if dir.is_absolute() && dir.is_dir() {
        return Ok(dir);
    }
    let message = format!("{} is not the absolute path of a directory", dir.display());
    Err(RpcError::new(error::BAD_VALUE, message))
}

/// A directory for a session.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct CwdParams {
    /// The live session.
    session_id: String,
    /// The directory of the host; absolute. Over a network it is refused.
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
    let cwd = checked_dir(&call, params.cwd)?;
    let mut exclusive = session.exclusive("changing the directory").await?;
    let Some(opening) = exclusive.opening() else {
        // The model was told of it, and its shell is where it is.
        let message = "the conversation has started, and its directory cannot change";
        return Err(RpcError::new(error::STALE, message)
            .advise("make another session; in this one, say where to go"));
    };
    opening.request.cwd = Some(cwd.clone());
    session.update_facts(|facts| facts.cwd = Some(cwd.display().to_string()));
    Ok(CwdResult { info: session.info() })
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
            let message = "there are no messages yet to branch from";
            return Err(RpcError::new(error::NOTHING_TO_BRANCH, message));
        };
        (conversation.id().clone(), Box::pin(conversation.branch(name)).await?)
    };
    let _opening = call.server.opening().await;
    Ok((open_stored(call, branch, session.close_on_disconnect).await?, parent))
}
