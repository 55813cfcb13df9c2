//! A live session: one conversation, who watches it, and what it is doing.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use tokio::sync::{OwnedMutexGuard, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use vestal_agent::approvals::Guard;
use vestal_agent::{
    Children, ContextUsed, Control, Conversation, ConversationSandbox, EndReason, SideShell,
};
use vestal_api::keys::BusyInputMode;
use vestal_conversations::ConversationId;
use vestal_model::Message;
use vestal_runtime::{OpenRequest, Opened, RemoteHuman, Runtime};

use crate::admission::{Admission, Admitted};
use crate::error::{self, RpcError};
use crate::events::{EventBody, StatusKind};
use crate::hub::Hub;
use crate::outbox::Outbox;
use crate::views::{ActiveSession, Inflight, LiveSession, MessageView, SessionInfo, SessionStatus};

/// Characters of a prompt that lists show.
const PREVIEW: usize = 200;

/// A live session.
pub(crate) struct Session {
    pub(crate) id: Arc<str>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) human: Arc<RemoteHuman>,
    pub(crate) runtime: Runtime,
    pub(crate) admission: Arc<dyn Admission>,
    pub(crate) tasks: TaskTracker,
    /// Locked by whoever works in the conversation.
    pub(super) conversation: Arc<tokio::sync::Mutex<Held>>,
    pub(super) state: Mutex<SessionState>,
    /// Whether nothing is being done.
    pub(super) idle: watch::Sender<bool>,
    /// Cancelled when the session is closed.
    pub(crate) life: CancellationToken,
    pub(crate) close_on_disconnect: bool,
    pub(crate) is_resumed: bool,
    approval_mode: String,
    started_at: Timestamp,
}

/// The conversation of a session.
pub(crate) enum Held {
    /// It is opened by the first prompt: nothing is stored before.
    Unopened(Box<Opening>),
    /// It is open.
    Open(Box<Conversation>),
    /// The session is closed.
    Closed,
}

/// How a conversation is to be opened.
#[derive(Debug, Clone)]
pub(crate) struct Opening {
    pub(crate) request: OpenRequest,
    /// What was said before, by the client's account.
    pub(crate) history: Vec<Message>,
}

/// What is being done in a session.
#[derive(Debug)]
pub(super) enum Phase {
    Idle,
    /// A turn or other work, which this interrupts.
    Running(CancellationToken),
    /// It is being closed, or closed.
    Ended,
}

/// Something to be done in the conversation, in the order it came.
#[derive(Debug)]
pub(super) enum Work {
    Prompt(Prompt),
    /// The model hears of its background jobs.
    JobNews,
}

/// Something that a person says.
#[derive(Debug)]
pub(crate) struct Prompt {
    pub(crate) text: String,
    /// Turns that are taken back before it.
    pub(crate) undo: u32,
}

/// What became of a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Submitted {
    /// Its turn begins.
    Streaming,
    /// It waits for the end of the turn that runs, which may have been interrupted for it.
    Queued,
    /// The model is told during the turn that runs.
    Steered,
}

#[derive(Debug)]
pub(super) struct SessionState {
    pub(super) phase: Phase,
    pub(super) queue: VecDeque<Work>,
    pub(super) facts: Facts,
    pub(super) handles: Option<Handles>,
    /// Whether everything is allowed, from the moment the conversation is open.
    yolo: bool,
    busy: BusyInputMode,
    last_active: Timestamp,
    preview: String,
    /// Waits for news of background jobs.
    pub(super) job_watch: Option<CancellationToken>,
    /// Turns in a row that such news began.
    pub(super) job_turns: u32,
    /// What interrupts commands that run beside turns.
    side: CancellationToken,
    /// Changes with every connection that comes or goes.
    attachments: u64,
}

/// What is known of the conversation without asking it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Facts {
    pub(crate) stored: Option<ConversationId>,
    pub(crate) title: Option<String>,
    pub(crate) provider: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) cwd: Option<String>,
    pub(crate) task: Option<String>,
    pub(crate) tools: Vec<String>,
    pub(crate) skills: Vec<String>,
    pub(crate) context: Option<ContextUsed>,
}

/// What acts on the conversation while a turn runs.
#[derive(Debug, Clone)]
pub(crate) struct Handles {
    pub(crate) control: Control,
    pub(crate) guard: Arc<Guard>,
    pub(crate) sandbox: ConversationSandbox,
    pub(crate) children: Children,
    pub(crate) shell: SideShell,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("id", &self.id).finish_non_exhaustive()
    }
}

/// What a session is made of.
pub(crate) struct SessionParts {
    pub(crate) id: Arc<str>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) human: Arc<RemoteHuman>,
    pub(crate) runtime: Runtime,
    pub(crate) admission: Arc<dyn Admission>,
    pub(crate) tasks: TaskTracker,
    pub(crate) opening: Opening,
    pub(crate) facts: Facts,
    pub(crate) busy: BusyInputMode,
    pub(crate) close_on_disconnect: bool,
    pub(crate) is_resumed: bool,
    pub(crate) approval_mode: String,
}

impl Session {
    pub(crate) fn new(parts: SessionParts) -> Arc<Self> {
        let now = Timestamp::now();
        Arc::new(Self {
            id: parts.id,
            hub: parts.hub,
            human: parts.human,
            runtime: parts.runtime,
            admission: parts.admission,
            tasks: parts.tasks,
            conversation: Arc::new(tokio::sync::Mutex::new(Held::Unopened(Box::new(
                parts.opening,
            )))),
            state: Mutex::new(SessionState {
                phase: Phase::Idle,
                queue: VecDeque::new(),
                facts: parts.facts,
                handles: None,
                yolo: false,
                busy: parts.busy,
                last_active: now,
                preview: String::new(),
                job_watch: None,
                job_turns: 0,
                side: CancellationToken::new(),
                attachments: 0,
            }),
            idle: watch::Sender::new(true),
            life: CancellationToken::new(),
            close_on_disconnect: parts.close_on_disconnect,
            is_resumed: parts.is_resumed,
            approval_mode: parts.approval_mode,
            started_at: now,
        })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, SessionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the conversation in the store; none until the first prompt.
    pub(crate) fn stored(&self) -> Option<ConversationId> {
        self.lock().facts.stored.clone()
    }

    /// Returns what acts on the conversation while a turn runs; none until the first prompt.
    pub(crate) fn handles(&self) -> Option<Handles> {
        self.lock().handles.clone()
    }

    pub(crate) fn is_running(&self) -> bool {
        matches!(self.lock().phase, Phase::Running(_))
    }

    pub(crate) fn is_ended(&self) -> bool {
        matches!(self.lock().phase, Phase::Ended)
    }

    /// Waits until nothing is being done, or the session is closed.
    pub(crate) async fn idle(&self) {
        let mut idle = self.idle.subscribe();
        // The sender lives as long as the session.
        idle.wait_for(|idle| *idle).await.ok();
    }

    /// Says or takes something while a turn may run.
    pub(crate) fn submit(
        self: &Arc<Self>,
        prompt: Prompt,
        mode: Option<BusyInputMode>,
    ) -> Result<Submitted, RpcError> {
        let mut state = self.lock();
        state.last_active = Timestamp::now();
        if state.preview.is_empty() {
            state.preview = prompt.text.chars().take(PREVIEW).collect();
        }
        let mode = mode.unwrap_or(state.busy);
        match (&state.phase, mode) {
            (Phase::Ended, _) => Err(no_session(&self.id)),
            (Phase::Idle, _) => {
                let admitted = self.admit()?;
                state.job_turns = 0;
                state.queue.push_back(Work::Prompt(prompt));
                self.start(&mut state, admitted);
                Ok(Submitted::Streaming)
            }
            (Phase::Running(_), BusyInputMode::Steer) if state.handles.is_some() => {
                if let Some(handles) = &state.handles {
                    handles.control.steer(prompt.text);
                }
                Ok(Submitted::Steered)
            }
            (Phase::Running(turn), mode) => {
                if mode == BusyInputMode::Interrupt {
                    turn.cancel();
                }
                let text = prompt.text.clone();
                state.queue.push_back(Work::Prompt(prompt));
                drop(state);
                self.hub.emit(&EventBody::StatusUpdate { kind: StatusKind::Queued, text });
                Ok(Submitted::Queued)
            }
        }
    }

    pub(super) fn admit(&self) -> Result<Admitted, RpcError> {
        self.admission.admit().map_err(|reason| {
            RpcError::new(error::REFUSED, reason).advise("try again when another turn has ended")
        })
    }

    /// Interrupts what is being done, commands beside it included, and drops what waits. Returns
    /// whether something was being done, and how many prompts were dropped.
    pub(crate) fn interrupt(&self) -> (bool, usize) {
        let mut state = self.lock();
        let dropped = state.queue.len();
        state.queue.clear();
        std::mem::take(&mut state.side).cancel();
        match &state.phase {
            Phase::Running(turn) => {
                turn.cancel();
                (true, dropped)
            }
            Phase::Idle | Phase::Ended => (false, dropped),
        }
    }

    /// Returns what interrupts a command beside the turns.
    pub(crate) fn side_token(&self) -> CancellationToken {
        self.lock().side.clone()
    }

    /// Says something to the model at its next step. Returns whether a turn runs that hears it.
    pub(crate) fn steer(&self, text: &str) -> bool {
        let state = self.lock();
        match (&state.phase, &state.handles) {
            (Phase::Running(turn), Some(handles)) if !turn.is_cancelled() => {
                handles.control.steer(text);
                true
            }
            _ => false,
        }
    }

    pub(crate) fn busy_mode(&self) -> BusyInputMode {
        self.lock().busy
    }

    pub(crate) fn set_busy_mode(&self, mode: BusyInputMode) {
        self.lock().busy = mode;
        self.tell_info();
    }

    pub(crate) fn is_yolo(&self) -> bool {
        let state = self.lock();
        state.handles.as_ref().map_or(state.yolo, |handles| handles.guard.is_yolo())
    }

    /// Allows everything unasked in this session, or has it asked about again. It acts at once.
    pub(crate) fn set_yolo(&self, on: bool) {
        {
            let mut state = self.lock();
            state.yolo = on;
            if let Some(handles) = &state.handles {
                handles.guard.set_yolo(on);
            }
        }
        self.tell_info();
    }

    pub(crate) fn facts(&self) -> Facts {
        self.lock().facts.clone()
    }

    /// Changes what is known of the conversation, and tells everybody if it is something else now.
    pub(crate) fn update_facts(&self, change: impl FnOnce(&mut Facts)) {
        let is_changed = {
            let mut state = self.lock();
            let before = state.facts.clone();
            change(&mut state.facts);
            state.facts != before
        };
        if is_changed {
            self.tell_info();
        }
    }

    pub(crate) fn tell_info(&self) {
        self.hub.emit(&EventBody::SessionInfo(Box::new(self.info())));
    }

    pub(crate) fn info(&self) -> SessionInfo {
        let yolo = self.is_yolo();
        let state = self.lock();
        let facts = state.facts.clone();
        SessionInfo {
            stored_session_id: facts.stored.map(String::from),
            title: facts.title,
            model: facts.model,
            provider: facts.provider,
            profile_name: self.runtime.settings().home().profile().to_string(),
            cwd: facts.cwd,
            task: facts.task,
            tools: facts.tools,
            skills: facts.skills,
            yolo,
            approval_mode: self.approval_mode.clone(),
            busy: state.busy.as_str().to_owned(),
            context_tokens: facts.context.map(|context| context.tokens),
            context_window: facts.context.and_then(|context| context.window),
            lazy: state.handles.is_none(),
        }
    }

    pub(crate) fn status(&self) -> SessionStatus {
        if !self.is_running() {
            SessionStatus::Idle
        } else if self.human.open_questions().is_empty() {
            SessionStatus::Running
        } else {
            SessionStatus::Waiting
        }
    }

    pub(crate) fn active_view(&self, current: Option<&str>) -> ActiveSession {
        let status = self.status();
        let state = self.lock();
        ActiveSession {
            id: self.id.to_string(),
            session_key: state.facts.stored.clone().map(String::from),
            title: state.facts.title.clone(),
            preview: state.preview.clone(),
            model: state.facts.model.clone(),
            status,
            started_at: self.started_at.to_string(),
            last_active: state.last_active.to_string(),
            attached: self.hub.is_watched(),
            current: current == Some(&*self.id),
        }
    }

    pub(crate) fn last_active(&self) -> Timestamp {
        self.lock().last_active
    }

    /// Has a connection watch it. Returns the number of the last event before, and what a turn that
    /// runs has said and done until then.
    pub(crate) fn watch(&self, connection: u64, outbox: &Outbox) -> (u64, Inflight) {
        let snapshot = self.hub.attach(connection, outbox);
        self.lock().attachments += 1;
        snapshot
    }

    /// Has a connection watch it, and returns all that a client needs to show it.
    pub(crate) async fn attach(
        &self,
        connection: u64,
        outbox: &Outbox,
    ) -> Result<LiveSession, RpcError> {
        let (seq, inflight) = self.watch(connection, outbox);
        let (running, status) = (self.is_running(), self.status());
        let messages = self.messages().await?;
        let questions = self.human.open_questions();
        let questions =
            questions.into_iter().map(|question| self.hub.open_question(question)).collect();
        Ok(LiveSession {
            session_id: self.id.to_string(),
            stored_session_id: self.stored().map(String::from),
            resumed: self.is_resumed,
            message_count: messages.len(),
            messages,
            running,
            status,
            info: self.info(),
            inflight: running.then_some(inflight),
            questions,
            queued: self.queued(),
            seq,
        })
    }

    /// Has a connection watch it no more. Returns a number that stays the same until another comes
    /// or goes, if nobody is left.
    pub(crate) fn detach(&self, connection: u64) -> Option<u64> {
        let is_last = self.hub.detach(connection);
        let mut state = self.lock();
        state.attachments += 1;
        is_last.then_some(state.attachments)
    }

    pub(crate) fn attachments(&self) -> u64 {
        self.lock().attachments
    }

    pub(crate) fn queued(&self) -> usize {
        self.lock().queue.len()
    }

    /// Returns what the model sees of the conversation, from the store.
    pub(crate) async fn messages(&self) -> Result<Vec<MessageView>, RpcError> {
        match self.stored() {
            Some(id) => {
                let stored = self.runtime.agent().store().messages(&id).await?;
                Ok(stored.into_iter().map(Into::into).collect())
            }
            None => Ok(Vec::new()),
        }
    }

    /// Takes the conversation for work that needs it alone; refused while a turn runs.
    pub(crate) async fn exclusive(self: &Arc<Self>, what: &str) -> Result<Exclusive, RpcError> {
        let token = CancellationToken::new();
        {
            let mut state = self.lock();
            match state.phase {
                Phase::Idle => {}
                Phase::Running(_) => return Err(RpcError::busy(what)),
                Phase::Ended => return Err(no_session(&self.id)),
            }
            state.phase = Phase::Running(token.clone());
            state.last_active = Timestamp::now();
            self.idle.send_replace(false);
        }
        let held = Arc::clone(&self.conversation).lock_owned().await;
        Ok(Exclusive { session: Arc::clone(self), held: Some(held), token })
    }

    /// Opens the conversation if it is not open.
    pub(super) async fn open<'a>(
        &self,
        held: &'a mut Held,
    ) -> Result<&'a mut Conversation, RpcError> {
        if let Held::Unopened(opening) = held {
            let Opening { request, history } = (**opening).clone();
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
            *held = Held::Open(Box::new(conversation));
        }
        match held {
            Held::Open(conversation) => Ok(conversation),
            Held::Unopened(_) | Held::Closed => Err(no_session(&self.id)),
        }
    }

    /// Takes what acts on the conversation, and tells what it is.
    async fn entered(&self, conversation: &Conversation) {
        let handles = Handles {
            control: conversation.control(),
            guard: Arc::clone(conversation.guard()),
            sandbox: conversation.sandbox().clone(),
            children: conversation.children(),
            shell: conversation.side_shell(),
        };
        {
            let mut state = self.lock();
            handles.guard.set_yolo(state.yolo);
            state.handles = Some(handles);
        }
        self.refresh(conversation).await;
    }

    /// Learns what the conversation is now.
    pub(crate) async fn refresh(&self, conversation: &Conversation) {
        // Without a title that could be read, the one before counts.
        let title = conversation.title().await;
        let tools = conversation.tools().into_iter().filter(|tool| tool.is_on);
        let tools: Vec<String> = tools.map(|tool| tool.name).collect();
        let model = conversation.model().map(|model| (model.name.clone(), model.model.clone()));
        self.update_facts(|facts| {
            facts.stored = Some(conversation.id().clone());
            if let Ok(title) = title {
                facts.title = title;
            }
            (facts.provider, facts.model) = model.unzip();
            facts.task = Some(conversation.sandbox().sandbox_task().to_string());
            facts.tools = tools;
            facts.context = Some(conversation.context_used());
        });
    }

    /// Interrupts what is being done, waits for it, and closes the conversation. The sandbox stays
    /// as its settings say. Returns whether it was open.
    pub(crate) async fn close(&self, reason: &str) -> bool {
        {
            let mut state = self.lock();
            match &state.phase {
                Phase::Ended => return false,
                Phase::Running(turn) => turn.cancel(),
                Phase::Idle => {}
            }
            state.phase = Phase::Ended;
            state.queue.clear();
            state.side.cancel();
            if let Some(watch) = state.job_watch.take() {
                watch.cancel();
            }
        }
        self.life.cancel();
        let held = std::mem::replace(&mut *self.conversation.lock().await, Held::Closed);
        self.idle.send_replace(true);
        if let Held::Open(conversation) = held {
            let id = conversation.id().clone();
            if let Err(error) = conversation.close(EndReason::Left).await {
                tracing::warn!(conversation = %id, %error, "a conversation was not closed");
            }
        }
        self.lock().handles = None;
        self.hub.emit(&EventBody::SessionClosed { reason: reason.to_owned() });
        true
    }
}

pub(crate) fn no_session(id: &str) -> RpcError {
    let id = crate::protocol::shown(id);
    RpcError::new(error::NO_SESSION, format!("there is no live session {id:?}"))
        .advise("session.active_list lists them; session.resume opens a conversation")
}

/// The conversation, held for work that needs it alone.
pub(crate) struct Exclusive {
    session: Arc<Session>,
    held: Option<OwnedMutexGuard<Held>>,
    /// Cancelled when the work is interrupted.
    pub(crate) token: CancellationToken,
}

impl Exclusive {
    /// Returns how the conversation will be opened; none if it is open.
    pub(crate) fn opening(&mut self) -> Option<&mut Opening> {
        match self.held.as_deref_mut() {
            Some(Held::Unopened(opening)) => Some(opening),
            _ => None,
        }
    }

    /// Returns the conversation if it is open.
    pub(crate) fn conversation(&mut self) -> Option<&mut Conversation> {
        match self.held.as_deref_mut() {
            Some(Held::Open(conversation)) => Some(conversation),
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
}

impl Drop for Exclusive {
    fn drop(&mut self) {
        // First the conversation: whoever is next locks it.
        drop(self.held.take());
        self.session.exclusive_ended();
    }
}
