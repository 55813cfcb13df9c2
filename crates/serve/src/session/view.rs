//! What clients see of a session, and who watches it.

use vestal_agent::ContextUsed;
use vestal_api::keys::BusyInputMode;
use vestal_conversations::{ConversationId, Stored};

use jiff::Timestamp;

use super::Session;
use crate::error::RpcError;
use crate::events::EventBody;
use crate::hub::SessionSnapshot;
use crate::outbox::ClientOutbox;
use crate::views::{ActiveSession, LiveSession, MessageView, SessionInfo, SessionStatus};

/// What is known of the conversation without asking it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct SessionFacts {
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

impl SessionFacts {
    /// Returns the model as `PROVIDER:MODEL`.
    pub(crate) fn model_name(&self) -> Option<String> {
        let (provider, model) = self.provider.as_ref().zip(self.model.as_ref())?;
        Some(format!("{provider}:{model}"))
    }
}

impl Session {
    /// Returns the conversation in the store; none until the first prompt.
    pub(crate) fn stored(&self) -> Option<ConversationId> {
        self.lock().facts.stored.clone()
    }

    pub(crate) fn facts(&self) -> SessionFacts {
        self.lock().facts.clone()
    }

    /// Changes what is known of the conversation, and tells everybody if it is something else now.
    pub(crate) fn update_facts(&self, change: impl FnOnce(&mut SessionFacts)) {
        let is_changed = {
            let mut state = self.lock();
            let before = state.facts.clone();
            change(&mut state.facts);
            state.facts != before
        };
        if is_changed {
            self.send_info();
        }
    }

    pub(crate) fn busy_mode(&self) -> BusyInputMode {
        self.lock().busy
    }

    pub(crate) fn set_busy_mode(&self, mode: BusyInputMode) {
        self.lock().busy = mode;
        self.send_info();
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
        self.send_info();
    }

    pub(crate) fn send_info(&self) {
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

    /// Has a connection watch it. Returns where things stand at that moment: whatever comes later,
    /// the connection hears as events.
    pub(crate) fn watch(&self, connection: u64, outbox: &ClientOutbox) -> SessionSnapshot {
        let snapshot = self.hub.attach(connection, outbox);
        self.lock().attachments += 1;
        snapshot
    }

    /// Has a connection watch it, and returns all that a client needs to show it.
    pub(crate) async fn attach(
        &self,
        connection: u64,
        outbox: &ClientOutbox,
    ) -> Result<LiveSession, RpcError> {
        let snapshot = self.watch(connection, outbox);
        let status = self.status();
        let running = snapshot.inflight.is_some() || status != SessionStatus::Idle;
        let status = if running && status == SessionStatus::Idle {
            // Its end is about to be reported.
            SessionStatus::Running
        } else {
            status
        };
        // Later than the snapshot, which tells what of it the events do not.
        let messages = snapshot.messages(self.stored_messages().await?);
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
            inflight: snapshot.inflight,
            questions,
            queued: self.queued(),
            images: self.with_pictures(|pictures| pictures.len()),
            seq: snapshot.seq,
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
        Ok(self.stored_messages().await?.into_iter().map(Into::into).collect())
    }

    async fn stored_messages(&self) -> Result<Vec<Stored>, RpcError> {
        match self.stored() {
            Some(id) => Ok(self.runtime.agent().store().messages(&id).await?),
            None => Ok(Vec::new()),
        }
    }
}
