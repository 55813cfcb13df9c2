//! The server: live sessions, connections, and their end.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use vestal_agent::keys as agent_keys;
use vestal_api::keys::{
    self, BusyInputMode, DISPLAY_BUSY_INPUT_MODE, SERVE_DETACH_GRACE_SECONDS,
    SERVE_MAX_LIVE_SESSIONS,
};
use vestal_config::{ConfigError, Settings};
use vestal_conversations::ConversationId;
use vestal_runtime::{
    AnswerError, ApprovalReach, RemoteAnswer, RemoteHuman, RemoteQuestion, Runtime,
};

use crate::admission::{Admission, Unlimited};
use crate::connection::{ClientConnection, ClientFrames};
use crate::error::{self, RpcError};
use crate::hub::Hub;
use crate::outbox::ClientOutbox;
use crate::remote::ClientLocation;
use crate::session::{
    ConversationOpening, STOPPING, Session, SessionFacts, SessionParts, no_session,
};

/// How long requests that are under way may take at the end.
const END_WITHIN: Duration = Duration::from_secs(5);

/// What the settings ask of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServeSettings {
    /// Sessions that may be live at once.
    pub max_live_sessions: usize,
    /// How long a session stays when nobody watches it.
    pub detach_grace: Duration,
    /// What becomes of a prompt while a turn runs.
    pub busy: BusyInputMode,
}

impl ServeSettings {
    /// Reads them.
    pub fn new(settings: &Settings) -> Result<Self, ConfigError> {
        let sessions = settings.get(&SERVE_MAX_LIVE_SESSIONS)?.value.get();
        Ok(Self {
            max_live_sessions: usize::try_from(sessions).unwrap_or(usize::MAX),
            detach_grace: settings.get(&SERVE_DETACH_GRACE_SECONDS)?.value.duration(),
            busy: settings.get(&DISPLAY_BUSY_INPUT_MODE)?.value,
        })
    }
}

/// Serves conversations to any number of connections. Cheap to clone; clones share everything.
#[derive(Clone)]
pub struct Server(Arc<ServeState>);

struct ServeState {
    runtime: Runtime,
    settings: ServeSettings,
    admission: Arc<dyn Admission>,
    source: String,
    cwd: Option<PathBuf>,
    clients: ClientLocation,
    question_listener: QuestionListener,
    approval_timeout: Duration,
    approval_mode: String,
    sessions: Mutex<BTreeMap<Arc<str>, Arc<Session>>>,
    connections: Mutex<BTreeMap<u64, ClientOutbox>>,
    next_connection: AtomicU64,
    /// Held while a conversation is looked for and opened, so that two requests for the same one
    /// find the same session.
    opening: tokio::sync::Mutex<()>,
    tasks: TaskTracker,
    /// Cancelled when no new work is taken.
    closing: CancellationToken,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server")
            .field("settings", &self.0.settings)
            .field("sessions", &self.lock_sessions().len())
            .finish_non_exhaustive()
    }
}

/// Hears that the questions which wait for an answer are others than before.
type QuestionListener = Arc<dyn Fn() + Send + Sync>;

/// Sets up a [`Server`].
pub struct ServerBuilder {
    runtime: Runtime,
    settings: ServeSettings,
    admission: Arc<dyn Admission>,
    source: String,
    cwd: Option<PathBuf>,
    clients: ClientLocation,
    question_listener: QuestionListener,
}

impl ServerBuilder {
    /// Has someone decide which turns may begin.
    #[must_use]
    pub fn admission(mut self, admission: Arc<dyn Admission>) -> Self {
        self.admission = admission;
        self
    }

    /// Sets the directory that conversations are about unless a client says otherwise.
    #[must_use]
    pub fn cwd(mut self, cwd: Option<PathBuf>) -> Self {
        self.cwd = cwd;
        self
    }

    /// Sets where the clients are: over a network, unless this says otherwise.
    #[must_use]
    pub fn clients(mut self, clients: ClientLocation) -> Self {
        self.clients = clients;
        self
    }

    /// Has somebody told whenever a question is asked or closed. It must not block.
    #[must_use]
    pub fn on_question(mut self, listener: impl Fn() + Send + Sync + 'static) -> Self {
        self.question_listener = Arc::new(listener);
        self
    }

    /// Sets what the store notes as the maker of conversations.
    #[must_use]
    pub fn source(mut self, source: &str) -> Self {
        source.clone_into(&mut self.source);
        self
    }

    /// Makes the server. Nothing is opened.
    pub fn build(self) -> Result<Server, ConfigError> {
        let Self { runtime, settings, admission, source, cwd, clients, question_listener } = self;
        let configured = Arc::clone(runtime.settings());
        Ok(Server(Arc::new(ServeState {
            approval_timeout: configured.get(&agent_keys::APPROVALS_TIMEOUT)?.value.duration(),
            approval_mode: configured.get(&agent_keys::APPROVALS_MODE)?.value.to_string(),
            runtime,
            settings,
            admission,
            source,
            cwd,
            clients,
            question_listener,
            sessions: Mutex::default(),
            connections: Mutex::default(),
            next_connection: AtomicU64::new(1),
            opening: tokio::sync::Mutex::new(()),
            tasks: TaskTracker::new(),
            closing: CancellationToken::new(),
        })))
    }
}

/// A session to be made.
pub(crate) struct NewSession {
    pub(crate) opening: ConversationOpening,
    pub(crate) facts: SessionFacts,
    pub(crate) close_on_disconnect: bool,
    pub(crate) is_resumed: bool,
}

/// A question of a live session that waits for an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingQuestion {
    /// The live session.
    pub session: String,
    /// Its conversation in the store.
    pub conversation: Option<String>,
    /// The title of that.
    pub title: Option<String>,
    /// What is asked.
    pub question: RemoteQuestion,
}

impl Server {
    /// Returns a builder for a server of this agent's conversations.
    pub fn builder(runtime: Runtime, settings: ServeSettings) -> ServerBuilder {
        ServerBuilder {
            runtime,
            settings,
            admission: Arc::new(Unlimited),
            source: "serve".to_owned(),
            cwd: None,
            clients: ClientLocation::Remote,
            question_listener: Arc::new(|| ()),
        }
    }

    /// Takes a connection: what the client sends goes into the first, what it is sent comes out of
    /// the second, `gateway.ready` first of all.
    pub fn connect(&self) -> (ClientConnection, ClientFrames) {
        let id = self.0.next_connection.fetch_add(1, Ordering::Relaxed);
        let outbox = ClientOutbox::new();
        self.lock_connections().insert(id, outbox.clone());
        if self.0.closing.is_cancelled() {
            outbox.close(STOPPING);
        }
        ClientConnection::new(self.clone(), id, outbox)
    }

    /// Returns the questions of all live sessions that wait for an answer, for a front end of this
    /// process that shows them in one place.
    pub fn waiting_questions(&self) -> Vec<WaitingQuestion> {
        let of_session = |session: Arc<Session>| {
            let (info, id) = (session.info(), Arc::clone(&session.id));
            let open = session.human.open_questions().into_iter();
            open.map(move |question| WaitingQuestion {
                session: id.to_string(),
                conversation: info.stored_session_id.clone(),
                title: info.title.clone(),
                question,
            })
        };
        self.sessions().into_iter().flat_map(of_session).collect()
    }

    /// Answers a question of a live session.
    pub fn answer_question(
        &self,
        session: &str,
        question: &str,
        answer: RemoteAnswer,
    ) -> Result<(), AnswerError> {
        let session = self.session(session).map_err(|_| AnswerError::NotOpen)?;
        session.answer(question, answer)
    }

    pub(crate) fn runtime(&self) -> &Runtime {
        &self.0.runtime
    }

    pub(crate) fn settings(&self) -> &ServeSettings {
        &self.0.settings
    }

    pub(crate) fn source(&self) -> &str {
        &self.0.source
    }

    pub(crate) fn cwd(&self) -> Option<&PathBuf> {
        self.0.cwd.as_ref()
    }

    pub(crate) fn clients(&self) -> ClientLocation {
        self.0.clients
    }

    pub(crate) fn tasks(&self) -> &TaskTracker {
        &self.0.tasks
    }

    pub(crate) fn admission(&self) -> &Arc<dyn Admission> {
        &self.0.admission
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.0.closing.is_cancelled()
    }

    /// Has nobody else look for and open conversations.
    pub(crate) async fn opening(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.0.opening.lock().await
    }

    /// Returns a live session.
    pub(crate) fn session(&self, id: &str) -> Result<Arc<Session>, RpcError> {
        if id.is_empty() {
            return Err(RpcError::new(error::ID_REQUIRED, "session_id is empty"));
        }
        self.lock_sessions().get(id).cloned().ok_or_else(|| no_session(id))
    }

    /// Returns all live sessions.
    pub(crate) fn sessions(&self) -> Vec<Arc<Session>> {
        self.lock_sessions().values().cloned().collect()
    }

    /// Returns the live session of a conversation.
    pub(crate) fn session_of(&self, stored: &ConversationId) -> Option<Arc<Session>> {
        let sessions = self.sessions();
        sessions.into_iter().find(|session| session.stored().as_ref() == Some(stored))
    }

    /// Makes a session, unless there are too many. One that nobody watches and that does nothing
    /// gives way.
    pub(crate) fn add_session(&self, new: NewSession) -> Result<Arc<Session>, RpcError> {
        if self.is_closing() {
            return Err(RpcError::new(error::REFUSED, STOPPING));
        }
        let id = self.free_id()?;
        let hub = Hub::new(Arc::clone(&id), self.0.approval_timeout);
        let listener = Arc::clone(&hub);
        let reach = match self.0.clients {
            ClientLocation::Local => ApprovalReach::Profile,
            ClientLocation::Remote => ApprovalReach::Conversation,
        };
        let tell = Arc::clone(&self.0.question_listener);
        let human = RemoteHuman::new(reach, move |event| {
            listener.question_event(event);
            tell();
        });
        let session = Session::new(SessionParts {
            id: Arc::clone(&id),
            hub,
            human,
            runtime: self.0.runtime.clone(),
            admission: Arc::clone(&self.0.admission),
            tasks: self.0.tasks.clone(),
            opening: new.opening,
            facts: new.facts,
            busy: self.0.settings.busy,
            closing: self.0.closing.clone(),
            close_on_disconnect: new.close_on_disconnect,
            is_resumed: new.is_resumed,
            approval_mode: self.0.approval_mode.clone(),
        });
        let given_up = {
            let mut sessions = self.lock_sessions();
            let given_up = if sessions.len() < self.0.settings.max_live_sessions {
                None
            } else {
                let idle = sessions
                    .values()
                    .filter(|session| !session.hub.is_watched() && !session.is_running())
                    .min_by_key(|session| session.last_active())
                    .map(|session| Arc::clone(&session.id));
                let Some(idle) = idle else { return Err(self.too_many()) };
                sessions.remove(&idle)
            };
            sessions.insert(id, Arc::clone(&session));
            given_up
        };
        if let Some(given_up) = given_up {
            self.0
                .tasks
                .spawn(async move { given_up.close("another session took its place").await });
        }
        Ok(session)
    }

    fn too_many(&self) -> RpcError {
        let limit = self.0.settings.max_live_sessions;
        let message = format!("{limit} sessions are live, which is the limit");
        let advice = format!(
            "close one, or raise {}",
            vestal_config::AnyKey::name(&keys::SERVE_MAX_LIVE_SESSIONS)
        );
        RpcError::new(error::SESSION_LIMIT, message).advise(advice)
    }

    fn free_id(&self) -> Result<Arc<str>, RpcError> {
        loop {
            let mut random = [0_u8; 4];
            getrandom::fill(&mut random)
                .map_err(|error| RpcError::new(error::INTERNAL, error.to_string()))?;
            let id: Arc<str> = format!("{:08x}", u32::from_be_bytes(random)).into();
            if !self.lock_sessions().contains_key(&id) {
                return Ok(id);
            }
        }
    }

    /// Closes a session. Returns whether this call did.
    pub(crate) async fn close_session(&self, session: &Session, reason: &str) -> bool {
        let is_closed = session.close(reason).await;
        self.lock_sessions().remove(&session.id);
        is_closed
    }

    /// Forgets a connection. Sessions that nobody watches any more end at once or after a while.
    pub(crate) fn disconnect(&self, connection: u64) {
        self.lock_connections().remove(&connection);
        for session in self.sessions() {
            let Some(attachments) = session.detach(connection) else { continue };
            let server = self.clone();
            self.0.tasks.spawn(async move { server.reclaim(&session, attachments).await });
        }
    }

    /// Closes a session that nobody watches, unless somebody comes back to it in time. A turn that
    /// runs is not interrupted.
    async fn reclaim(&self, session: &Session, attachments: u64) {
        if !session.close_on_disconnect {
            tokio::select! {
                () = tokio::time::sleep(self.0.settings.detach_grace) => {}
                () = session.life.cancelled() => return,
                () = self.0.closing.cancelled() => return,
            }
            session.idle().await;
        }
        if session.attachments() == attachments && !session.is_ended() {
            self.close_session(session, "no client was connected to it").await;
        }
    }

    /// Takes no new work, gives prompts that wait back to the clients, lets turns that run come to
    /// their end, closes every session, and then ends the connections with this reason.
    #[boxed]
    pub async fn drain(&self, reason: &str) {
        self.0.closing.cancel();
        let mut closing = tokio::task::JoinSet::new();
        for session in self.sessions() {
            session.return_waiting(reason);
            let (server, reason) = (self.clone(), reason.to_owned());
            closing.spawn(async move {
                session.idle().await;
                server.close_session(&session, &reason).await;
            });
        }
        while closing.join_next().await.is_some() {}
        self.end(reason).await;
    }

    /// Interrupts everything, closes every session, and then ends the connections with this reason.
    #[boxed]
    pub async fn shutdown(&self, reason: &str) {
        self.0.closing.cancel();
        let mut closing = tokio::task::JoinSet::new();
        for session in self.sessions() {
            let (server, reason) = (self.clone(), reason.to_owned());
            closing.spawn(async move { server.close_session(&session, &reason).await });
        }
        while closing.join_next().await.is_some() {}
        self.end(reason).await;
    }

    async fn end(&self, reason: &str) {
        self.0.tasks.close();
        // What still asks somebody else, such as a provider for its models, is not worth more.
        if tokio::time::timeout(END_WITHIN, self.0.tasks.wait()).await.is_err() {
            tracing::info!("requests were under way at the end");
        }
        for outbox in self.lock_connections().values() {
            outbox.close(reason);
        }
    }

    fn lock_sessions(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Arc<Session>>> {
        self.0.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_connections(&self) -> MutexGuard<'_, BTreeMap<u64, ClientOutbox>> {
        self.0.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
