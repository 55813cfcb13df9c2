//! The sessions of a connection, and what their client may ask for.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_recursion::async_recursion as boxed;
use jiff::Timestamp;
use serde_json::{Value, json};
use vestal_conversations::{
    ConversationFilter, ConversationId, ConversationSummary, MessageStanding, Stored,
};
use vestal_runtime::{
    ConversationChoice, OpenRequest, Opened, Runtime, SandboxChoice, SandboxPlacement,
};
use vestal_sandbox::backend::{Confinement, Declaration};
use vestal_sandbox::{Error as SandboxError, Overrides, TaskName, keys};

use crate::client::EditorClient;
use crate::error::{AcpError, shown};
use crate::human::EditorHuman;
use crate::limits;
use crate::mcp::SessionMcp;
use crate::options::SessionModes;
use crate::paths::SharedFiles;
use crate::protocol::ListSessionsParams;
use crate::session::{EditorSession, EditorSessionParts};
use crate::updates::SessionView;

/// What the store notes as the maker of conversations.
const SOURCE: &str = "acp";

/// Whether sandboxes see the directory of the editor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workspace {
    /// It is mounted as the workspace, of a sandbox of its own.
    Mounted,
    /// They don't see it.
    Unseen,
}

/// How sessions are opened.
#[derive(Debug, Clone)]
pub struct AcpOptions {
    /// The task whose sandbox new conversations work in.
    pub task: TaskName,
    /// What is asked for the sandbox, if it is made.
    pub overrides: Overrides,
    /// Whether it sees the directory of the editor.
    pub workspace: Workspace,
}

/// Serves the agent to editors. Clones are the same.
#[derive(Debug, Clone)]
pub struct AcpServer {
    runtime: Runtime,
    options: Arc<AcpOptions>,
}

impl AcpServer {
    /// Returns a server of this agent.
    pub fn new(runtime: Runtime, options: AcpOptions) -> Self {
        Self { runtime, options: Arc::new(options) }
    }

    pub(crate) fn connect(&self, client: EditorClient) -> Arc<EditorSessions> {
        Arc::new(EditorSessions {
            server: self.clone(),
            client,
            open: Mutex::default(),
            opening: tokio::sync::Mutex::new(()),
        })
    }
}

/// The sessions of one connection.
pub(crate) struct EditorSessions {
    server: AcpServer,
    client: EditorClient,
    open: Mutex<BTreeMap<Arc<str>, Arc<EditorSession>>>,
    /// Held while a conversation is looked for and opened, so that two requests for the same one find
    /// the same session.
    opening: tokio::sync::Mutex<()>,
}

/// A session that was opened, and what a person should know of it.
pub(crate) struct OpenedSession {
    pub(crate) session: Arc<EditorSession>,
    pub(crate) notices: Vec<String>,
}

/// Where a new conversation works.
struct Place {
    choice: SandboxChoice,
    start_in: Option<PathBuf>,
    notice: Option<String>,
}

impl EditorSessions {
    /// Returns an open session.
    pub(crate) fn get(&self, id: &str) -> Result<Arc<EditorSession>, AcpError> {
        self.lock().get(id).cloned().ok_or_else(|| {
            AcpError::not_found(format!("no session {:?} is open", shown(id)))
                .advise("session/load opens a conversation, session/new a new one")
        })
    }

    /// Opens a new conversation about a directory.
    #[boxed]
    pub(crate) async fn create(
        &self,
        cwd: PathBuf,
        mcp_servers: Vec<Value>,
    ) -> Result<OpenedSession, AcpError> {
        let _opening = self.opening.lock().await;
        let Place { choice, start_in, notice } = self.place(&cwd)?;
        let request = OpenRequest {
            placement: SandboxPlacement::In(choice),
            cwd: Some(cwd.clone()),
            start_in,
            ..OpenRequest::new(SOURCE)
        };
        let mut opened = self.open(request, &cwd, mcp_servers).await?;
        opened.notices.extend(notice);
        Ok(opened)
    }

    /// Opens a conversation from before, in the sandbox that it worked in, or finds it open.
    #[boxed]
    pub(crate) async fn resume(
        &self,
        id: &str,
        cwd: PathBuf,
        mcp_servers: Vec<Value>,
    ) -> Result<OpenedSession, AcpError> {
        let _opening = self.opening.lock().await;
        if let Ok(session) = self.get(id) {
            return Ok(OpenedSession { session, notices: Vec::new() });
        }
        let id = id.parse::<ConversationId>().map_err(|_| {
            AcpError::not_found(format!("there is no conversation {:?}", shown(id)))
                .advise("session/list lists them")
        })?;
        let request = OpenRequest {
            which: ConversationChoice::Id(id),
            cwd: Some(cwd.clone()),
            ..OpenRequest::new(SOURCE)
        };
        self.open(request, &cwd, mcp_servers).await
    }

    async fn open(
        &self,
        request: OpenRequest,
        cwd: &Path,
        mcp_servers: Vec<Value>,
    ) -> Result<OpenedSession, AcpError> {
        self.make_room().await;
        let settings = self.server.runtime.settings().reload();
        let mcp = SessionMcp::connect(&settings, mcp_servers, cwd);
        let runtime = match &mcp.servers {
            Some(servers) => self.server.runtime.with_source(Arc::clone(servers) as _),
            None => self.server.runtime.clone(),
        };
        let view = SessionView::new(self.client.clone());
        let human = Arc::new(EditorHuman(Arc::clone(&view)));
        let Opened { conversation, choice, mut notices, .. } = runtime.open(request, human).await?;
        notices.extend(mcp.notices);
        let shared = self.shared(&choice, cwd)?;
        let id: Arc<str> = conversation.id().to_string().into();
        let modes = SessionModes::of(&conversation);
        view.begin(Arc::clone(&id), shared, conversation.notebook().clone(), modes);
        let servers = mcp.servers;
        let parts = EditorSessionParts { runtime, view, conversation, id, servers };
        let session = EditorSession::new(parts).await;
        self.lock().insert(Arc::clone(&session.id), Arc::clone(&session));
        Ok(OpenedSession { session, notices })
    }

    /// Decides where a new conversation about a directory works.
    fn place(&self, cwd: &Path) -> Result<Place, AcpError> {
        let AcpOptions { task, overrides, workspace } = &*self.server.options;
        let engine = self.server.runtime.agent().engine();
        let mut overrides = overrides.clone();
        let mut notice = None;
        let mut start_in = None;
        let settings = self.server.runtime.settings().reload();
        let named = settings.get(&keys::BACKEND).map_err(|error| {
            AcpError::internal(error.to_string()).advise("`vestal config check` says more")
        })?;
        let named = overrides.backend.clone().or_else(|| named.value.named().map(str::to_owned));
        let takes_directory = named
            .as_deref()
            .and_then(|name| engine.declaration(name))
            .is_none_or(Declaration::takes_host_directory);
        if engine.host_start_dir(task, &overrides)?.is_some() {
            start_in = Some(cwd.to_owned());
        } else if *workspace == Workspace::Mounted {
            match engine.task_with_mount(task, cwd) {
                Ok(_) if takes_directory => overrides.mount = Some(cwd.to_owned()),
                Ok(_) => {
                    let name = named.unwrap_or_default();
                    notice = Some(format!(
                        "sandboxes of the backend {name} cannot have {} in them; the agent does not see it",
                        cwd.display()
                    ));
                }
                Err(error @ SandboxError::TooWideMount { .. }) => {
                    notice = Some(format!(
                        "{error}; the agent does not see it. Open the directory of a project for that"
                    ));
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Place { choice: SandboxChoice::new(task.clone(), overrides), start_in, notice })
    }

    /// Returns which of the editor's files a sandbox sees.
    fn shared(&self, choice: &SandboxChoice, cwd: &Path) -> Result<SharedFiles, AcpError> {
        let engine = self.server.runtime.agent().engine();
        if let Some(mount) = &choice.overrides.mount {
            let settings = self.server.runtime.settings().reload();
            let configured = settings
                .get(&keys::BACKEND)
                .ok()
                .and_then(|found| found.value.named().map(str::to_owned));
            let backend = choice.overrides.backend.clone().or(configured);
            let confinement = backend.and_then(|backend| engine.confinement(&backend));
            return Ok(match confinement {
                Some(Confinement::Remote) => SharedFiles::Copied(mount.clone()),
                _ => SharedFiles::Mounted(mount.clone()),
            });
        }
        Ok(match engine.host_start_dir(&choice.task, &choice.overrides)? {
            Some(_) => SharedFiles::All(cwd.to_owned()),
            None => SharedFiles::None,
        })
    }

    /// Closes the session that was not used for the longest time, if there are too many.
    async fn make_room(&self) {
        loop {
            let oldest = {
                let open = self.lock();
                if open.len() < limits::SESSIONS {
                    return;
                }
                let idle =
                    open.values().filter_map(|session| Some((session.idle_since()?, session)));
                idle.min_by_key(|(since, _)| *since).map(|(_, session)| Arc::clone(session))
            };
            // With all of them busy, there is one more.
            let Some(oldest) = oldest else { return };
            self.close(&oldest).await;
        }
    }

    pub(crate) async fn close(&self, session: &EditorSession) {
        self.lock().remove(&session.id);
        session.close().await;
    }

    /// Closes all sessions.
    pub(crate) async fn close_all(&self) {
        let open = std::mem::take(&mut *self.lock());
        for session in open.values() {
            session.cancel();
        }
        for session in open.values() {
            session.close().await;
        }
    }

    /// Returns the messages of a conversation that can be shown.
    pub(crate) async fn history(&self, session: &EditorSession) -> Result<Vec<Stored>, AcpError> {
        let store = self.server.runtime.agent().store();
        let history = store.history(&session.stored).await?;
        let is_shown = |message: &Stored| message.standing != MessageStanding::Undone;
        Ok(history.into_iter().filter(is_shown).collect())
    }

    /// Returns a page of the conversations there are, most recently used first.
    #[boxed]
    pub(crate) async fn list(&self, params: ListSessionsParams) -> Result<Value, AcpError> {
        /// Conversations that are looked at for a page.
        const LOOKED_AT: u32 = 1000;
        let before = match params.cursor.as_deref() {
            None => None,
            Some(cursor) => Some(cursor.parse::<Timestamp>().map_err(|_| {
                AcpError::params("the cursor is not one that session/list returned")
            })?),
        };
        let filter =
            ConversationFilter { before, limit: LOOKED_AT, ..ConversationFilter::default() };
        let found = self.server.runtime.agent().store().list(&filter).await?;
        let (looked_at, last) =
            (found.len(), found.last().map(|last| last.conversation.updated_at));
        let is_meant = |summary: &ConversationSummary| {
            params.cwd.is_none() || summary.conversation.cwd == params.cwd
        };
        let mut meant: Vec<_> = found.into_iter().filter(is_meant).collect();
        let next = if meant.len() > limits::LISTED {
            meant.truncate(limits::LISTED);
            meant.last().map(|last| last.conversation.updated_at)
        } else {
            last.filter(|_| looked_at >= LOOKED_AT as usize)
        };
        let sessions: Vec<Value> = meant.iter().map(listed).collect();
        let mut page = json!({ "sessions": sessions });
        if let Some(next) = next {
            page["nextCursor"] = json!(next.to_string());
        }
        Ok(page)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Arc<EditorSession>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn listed(summary: &ConversationSummary) -> Value {
    let conversation = &summary.conversation;
    let preview = summary.preview.lines().next().unwrap_or_default();
    json!({
        "sessionId": conversation.id.to_string(),
        "cwd": conversation.cwd.as_deref().unwrap_or(Path::new("/")),
        "title": conversation.title.as_deref().unwrap_or(preview),
        "updatedAt": conversation.updated_at.to_string(),
    })
}
