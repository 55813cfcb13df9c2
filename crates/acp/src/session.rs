//! A session: a conversation that is open for an editor.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use vestal_agent::approvals::Guard;
use vestal_agent::{Control, Conversation, EndReason};
use vestal_conversations::ConversationId;
use vestal_mcp::Servers;
use vestal_runtime::Runtime;

use crate::commands;
use crate::content::PromptContent;
use crate::error::AcpError;
use crate::options::{ModelState, SessionModes};
use crate::protocol::{SessionUpdate, StopReason};
use crate::updates::SessionView;

/// How a turn ended, for everybody who waits for that.
pub(crate) type TurnEnd = Option<Result<StopReason, AcpError>>;

/// A session.
pub(crate) struct EditorSession {
    pub(crate) id: Arc<str>,
    pub(crate) stored: ConversationId,
    pub(crate) runtime: Runtime,
    pub(crate) view: Arc<SessionView>,
    /// The task whose sandbox it works in.
    pub(crate) task: String,
    pub(crate) control: Control,
    pub(crate) guard: Arc<Guard>,
    pub(crate) modes: SessionModes,
    /// The editor's MCP servers, which end with the session.
    servers: Option<Arc<Servers>>,
    /// Locked while something is done in it; none once the session is closed.
    pub(crate) conversation: tokio::sync::Mutex<Option<Conversation>>,
    state: Mutex<EditorSessionState>,
}

pub(crate) struct EditorSessionState {
    /// What cancels the prompts that have no answer yet.
    prompts: HashMap<u64, CancellationToken>,
    next_prompt: u64,
    /// A turn that runs, and where its end is told.
    pub(crate) running: Option<watch::Sender<TurnEnd>>,
    last_used: Instant,
    pub(crate) title: Option<String>,
    pub(crate) model: ModelState,
}

/// A prompt that has no answer yet.
pub(crate) struct EnteredPrompt {
    session: Arc<EditorSession>,
    number: u64,
    /// Cancelled when the prompt is.
    pub(crate) token: CancellationToken,
    /// What it says; taken when it is carried out.
    pub(crate) content: Option<PromptContent>,
    /// Where the end of the turn is reported that took the words.
    pub(crate) steered: Option<watch::Receiver<TurnEnd>>,
}

/// What a session is made of.
pub(crate) struct EditorSessionParts {
    pub(crate) runtime: Runtime,
    pub(crate) view: Arc<SessionView>,
    pub(crate) conversation: Conversation,
    pub(crate) id: Arc<str>,
    pub(crate) servers: Option<Arc<Servers>>,
}

impl EditorSession {
    pub(crate) async fn new(parts: EditorSessionParts) -> Arc<Self> {
        let EditorSessionParts { runtime, view, conversation, id, servers } = parts;
        // Without one that can be read, the next turn tells it.
        let title = conversation.title().await.ok().flatten();
        let model = ModelState::of(&conversation);
        Arc::new(Self {
            id,
            stored: conversation.id().clone(),
            runtime,
            view,
            task: conversation.sandbox().sandbox_task().to_string(),
            control: conversation.control(),
            guard: Arc::clone(conversation.guard()),
            modes: SessionModes::of(&conversation),
            servers,
            conversation: tokio::sync::Mutex::new(Some(conversation)),
            state: Mutex::new(EditorSessionState {
                prompts: HashMap::new(),
                next_prompt: 0,
                running: None,
                last_used: Instant::now(),
                title,
                model,
            }),
        })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, EditorSessionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a prompt, at the moment it comes: what cancels the session from now on is meant for it, too.
    /// Words that come while a turn runs are sent to its model.
    pub(crate) fn enter(
        self: &Arc<Self>,
        life: &CancellationToken,
        content: PromptContent,
    ) -> EnteredPrompt {
        let token = life.child_token();
        let words = content.only_text().filter(|text| !commands::is_one(text));
        let mut state = self.lock();
        let number = state.next_prompt;
        state.next_prompt += 1;
        state.last_used = Instant::now();
        state.prompts.insert(number, token.clone());
        let steered = state.running.as_ref().zip(words).map(|(running, words)| {
            // Under the lock: as long as the turn is there, it looks for such words before it ends.
            self.control.steer(words);
            running.subscribe()
        });
        drop(state);
        EnteredPrompt { session: Arc::clone(self), number, token, content: Some(content), steered }
    }

    /// Cancels what is being done and what waits to be.
    pub(crate) fn cancel(&self) {
        for token in self.lock().prompts.values() {
            token.cancel();
        }
    }

    /// Returns since when nothing is done in it; none while something is.
    pub(crate) fn idle_since(&self) -> Option<Instant> {
        let state = self.lock();
        state.prompts.is_empty().then_some(state.last_used)
    }

    /// Tells a client that has just got the session what it needs beside its name.
    pub(crate) fn introduce(self: &Arc<Self>, notices: &[String]) {
        let available_commands = commands::available(self.runtime.skills());
        self.view.send(SessionUpdate::AvailableCommandsUpdate { available_commands });
        for notice in notices {
            self.view.note(notice);
        }
        if self.view.has_plan() {
            self.view.show_plan();
        }
        self.list_models();
    }

    /// Closes the conversation; what is being done in it is interrupted. The sandbox stays.
    pub(crate) async fn close(&self) {
        self.cancel();
        let Some(conversation) = self.conversation.lock().await.take() else { return };
        if let Err(error) = conversation.close(EndReason::Left).await {
            tracing::warn!(session = %self.id, %error, "a conversation was not closed");
        }
        if let Some(servers) = &self.servers {
            servers.close().await;
        }
    }
}

impl EnteredPrompt {
    pub(crate) fn session(&self) -> &Arc<EditorSession> {
        &self.session
    }
}

impl Drop for EnteredPrompt {
    fn drop(&mut self) {
        let mut state = self.session.lock();
        state.prompts.remove(&self.number);
        state.last_used = Instant::now();
    }
}

/// Returns what a client gets of a session that it has opened.
pub(crate) fn opened(session: &EditorSession) -> Value {
    json!({
        "sessionId": &*session.id,
        "modes": session.modes(),
        "configOptions": session.config_options(),
    })
}

/// Returns what it gets of one that was there before.
pub(crate) fn opened_again(session: &EditorSession) -> Value {
    json!({ "modes": session.modes(), "configOptions": session.config_options() })
}

/// The directory that a client names for a session.
pub(crate) fn checked_dir(cwd: PathBuf) -> Result<PathBuf, AcpError> {
    if cwd.is_absolute() && cwd.is_dir() {
        return Ok(cwd);
    }
    let shown = crate::error::shown(&cwd.display().to_string());
    Err(AcpError::params(format!("cwd {shown:?} is not the absolute path of a directory")))
}
