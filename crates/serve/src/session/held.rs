//! The conversation of a session: opened by its first use, and held by one kind of work at a time.

use std::sync::Arc;

use jiff::Timestamp;
use tokio::sync::OwnedMutexGuard;
use tokio_util::sync::CancellationToken;
use vestal_agent::approvals::Guard;
use vestal_agent::{
    Control, Conversation, ConversationSandbox, DelegatedChildren, EndReason, ModeSwitch, SideShell,
};
use vestal_model::Message;
use vestal_runtime::{ConversationChoice, OpenRequest, Opened, SandboxChoice, SandboxPlacement};

use super::{Session, SessionPhase, no_session};
use crate::error::RpcError;
use crate::events::{EventBody, StatusKind};

/// The conversation of a session.
pub(crate) enum HeldConversation {
    /// It is opened by the first prompt: nothing is stored before.
    Unopened(Box<ConversationOpening>),
    /// It is open.
    Open(Box<Conversation>),
    /// The session is closed.
    Closed,
}

/// How a conversation is to be opened.
#[derive(Debug, Clone)]
pub(crate) struct ConversationOpening {
    pub(crate) request: OpenRequest,
    /// What was said before, by the client's account.
    pub(crate) history: Vec<Message>,
}

/// What acts on the conversation while a turn runs.
#[derive(Debug, Clone)]
pub(crate) struct Handles {
    pub(crate) control: Control,
    pub(crate) guard: Arc<Guard>,
    pub(crate) mode: ModeSwitch,
    pub(crate) sandbox: ConversationSandbox,
    pub(crate) children: DelegatedChildren,
    pub(crate) shell: SideShell,
}

impl Session {
    /// Returns what acts on the conversation while a turn runs; none until the first prompt.
    pub(crate) fn handles(&self) -> Option<Handles> {
        self.lock().handles.clone()
    }

    /// Takes the conversation for work that needs it alone; refused while a turn runs.
    pub(crate) async fn exclusive(self: &Arc<Self>, what: &str) -> Result<Exclusive, RpcError> {
        let token = CancellationToken::new();
        {
            let mut state = self.lock();
            match state.phase {
                SessionPhase::Idle => {}
                SessionPhase::Turn(_) | SessionPhase::Exclusive(_) => {
                    return Err(RpcError::busy(what));
                }
                SessionPhase::Ended => return Err(no_session(&self.id)),
            }
            state.phase = SessionPhase::Exclusive(token.clone());
            state.last_active = Timestamp::now();
            self.idle.send_replace(false);
        }
        let held = Arc::clone(&self.conversation).lock_owned().await;
        Ok(Exclusive { session: Arc::clone(self), held: Some(held), token })
    }

    /// Opens the conversation if it is not open.
    pub(crate) async fn open<'a>(
        &self,
        held: &'a mut HeldConversation,
    ) -> Result<&'a mut Conversation, RpcError> {
        if let HeldConversation::Unopened(opening) = held {
            let ConversationOpening { request, history } = (**opening).clone();
            let human = Arc::clone(&self.human);
            let opened = Box::pin(self.runtime.open(request, human)).await?;
            let Opened { mut conversation, notices, .. } = opened;
            if !history.is_empty() {
                conversation.take_over(history).await?;
            }
            self.entered(&conversation).await;
            for text in notices {
                self.hub.emit(&EventBody::StatusUpdate { kind: StatusKind::Notice, text });
            }
            *held = HeldConversation::Open(Box::new(conversation));
        }
        match held {
            HeldConversation::Open(conversation) => Ok(conversation),
            HeldConversation::Unopened(_) | HeldConversation::Closed => Err(no_session(&self.id)),
        }
    }

    /// Takes what acts on the conversation, and tells what it is.
    async fn entered(&self, conversation: &Conversation) {
        let handles = Handles {
            control: conversation.control(),
            guard: Arc::clone(conversation.guard()),
            mode: conversation.mode_switch(),
            sandbox: conversation.sandbox().clone(),
            children: conversation.children(),
            shell: conversation.side_shell(),
        };
        {
            let mut state = self.lock();
            handles.guard.set_yolo(state.yolo);
            state.handles = Some(handles);
        }
        self.hub.settle(conversation.last_seq());
        self.refresh(conversation).await;
    }

    /// Learns what the conversation is now.
    pub(crate) async fn refresh(&self, conversation: &Conversation) {
        // Without a title that could be read, the one before counts.
        let title = conversation.title().await;
        let tools = conversation.tools().into_iter().filter(|tool| tool.is_on);
        let tools: Vec<String> = tools.map(|tool| tool.name).collect();
        let model = conversation.model().map(|model| (model.name.clone(), model.model.clone()));
        let skills = self.runtime.skills().names();
        self.update_facts(|facts| {
            facts.stored = Some(conversation.id().clone());
            if let Ok(title) = title {
                facts.title = title;
            }
            (facts.provider, facts.model) = model.unzip();
            facts.task = Some(conversation.sandbox().sandbox_task().to_string());
            facts.tools = tools;
            facts.skills = skills;
            facts.context = Some(conversation.context_used());
        });
    }
}

/// The conversation, held for work that needs it alone.
pub(crate) struct Exclusive {
    session: Arc<Session>,
    held: Option<OwnedMutexGuard<HeldConversation>>,
    /// Cancelled when the work is interrupted.
    pub(crate) token: CancellationToken,
}

impl Exclusive {
    /// Returns how the conversation will be opened; none if it is open.
    pub(crate) fn opening(&mut self) -> Option<&mut ConversationOpening> {
        match self.held.as_deref_mut() {
            Some(HeldConversation::Unopened(opening)) => Some(opening),
            _ => None,
        }
    }

    /// Returns the conversation if it is open.
    pub(crate) fn conversation(&mut self) -> Option<&mut Conversation> {
        match self.held.as_deref_mut() {
            Some(HeldConversation::Open(conversation)) => Some(conversation),
            _ => None,
        }
    }

    /// Returns the conversation, opened if it is not open.
    pub(crate) async fn opened(&mut self) -> Result<&mut Conversation, RpcError> {
        let session = Arc::clone(&self.session);
        match self.held.as_deref_mut() {
            Some(held) => session.open(held).await,
            None => Err(no_session(&session.id)),
        }
    }

    /// Has the conversation go on in another sandbox. One that is open is closed and opened again.
    pub(crate) async fn move_to(&mut self, choice: SandboxChoice) -> Result<(), RpcError> {
        let session = Arc::clone(&self.session);
        let placement = SandboxPlacement::In(choice);
        if let Some(opening) = self.opening() {
            opening.request.placement = placement;
            return Ok(());
        }
        let gone = || no_session(&session.id);
        let held = self.held.as_deref_mut().ok_or_else(gone)?;
        let HeldConversation::Open(conversation) =
            std::mem::replace(held, HeldConversation::Closed)
        else {
            return Err(gone());
        };
        let facts = session.facts();
        // One in which nothing was said is not stored, and cannot be resumed.
        let is_new = conversation.messages().is_empty();
        let id = conversation.id().clone();
        let request = OpenRequest {
            which: if is_new {
                ConversationChoice::New
            } else {
                ConversationChoice::Id(id.clone())
            },
            model: facts.model_name().filter(|_| is_new),
            cwd: facts.cwd.map(Into::into),
            placement,
            ..OpenRequest::new(session.source.clone())
        };
        let request_before =
            OpenRequest { placement: SandboxPlacement::Remembered, ..request.clone() };
        *held = HeldConversation::Unopened(Box::new(ConversationOpening {
            request,
            history: Vec::new(),
        }));
        if let Err(error) = conversation.close(EndReason::Left).await {
            tracing::warn!(conversation = %id, %error, "a conversation was not closed");
        }
        let opened = session.open(held).await.map(drop);
        if opened.is_err() {
            // The next use opens it where it was.
            *held = HeldConversation::Unopened(Box::new(ConversationOpening {
                request: request_before,
                history: Vec::new(),
            }));
        }
        opened
    }
}

impl Drop for Exclusive {
    fn drop(&mut self) {
        if let Some(conversation) = self.conversation() {
            let last = conversation.last_seq();
            self.session.hub.settle(last);
        }
        // First the conversation: the next holder locks it.
        drop(self.held.take());
        self.session.exclusive_ended();
    }
}
