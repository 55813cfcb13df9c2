//! The conversation of the chat: who owns it right now, and how it is replaced by another one.

use std::future::pending;
use std::sync::Arc;
use std::time::Instant;

use tokio::task::{JoinError, JoinHandle};
use vestal_agent::settings::endpoints;
use vestal_agent::{Control, Conversation, EndReason, TurnResult};
use vestal_config::Settings;
use vestal_model::{Endpoint, UserMessage};
use vestal_tui::Submission;

use crate::chat::{Chat, ConversationInfo};
use crate::host::{ChatError, OpenTarget, OpenedConversation};

/// The conversation, or the work that owns it.
pub(crate) enum ConversationSlot {
    /// The chat owns the conversation.
    Idle(Box<Conversation>),
    /// A task owns it and returns it when it ends.
    Running(RunningWork),
    /// It is closed, or was lost when a turn panicked.
    Gone,
}

/// Turns to start as soon as the conversation is idle.
#[derive(Debug)]
pub(crate) enum QueuedTurn {
    /// A complete message.
    Message(UserMessage),
    /// Typed text whose attachments have not been read yet.
    Typed(Submission),
}

impl QueuedTurn {
    pub(crate) fn text(self) -> String {
        match self {
            Self::Message(message) => message.text(),
            Self::Typed(typed) => typed.text,
        }
    }

    /// Returns the text that is shown while it waits.
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::Message(message) => message.text(),
            Self::Typed(typed) => typed.shown.clone(),
        }
    }
}

/// Work that runs in the conversation.
pub(crate) struct RunningWork {
    pub(crate) task: JoinHandle<FinishedWork>,
    pub(crate) control: Control,
    pub(crate) since: Instant,
    pub(crate) what: WorkKind,
    pub(crate) interrupt: InterruptState,
}

/// The kind of work that runs in the conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WorkKind {
    /// A turn, with the text that started it and how often that text was in the conversation
    /// before.
    Turn { words: String, before: usize },
    /// A turn started by news of background jobs.
    JobNews,
    /// A shell command of the user.
    Shell,
    /// Other work, such as a summary.
    Work,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InterruptState {
    /// None was requested.
    No,
    /// Requested, but the work could not be notified yet.
    Wanted,
    /// The work has been notified.
    Sent,
}

/// Finished work, with the conversation it returns.
pub(crate) struct FinishedWork {
    pub(crate) conversation: Box<Conversation>,
    pub(crate) outcome: WorkOutcome,
}

/// The outcome of finished work.
pub(crate) enum WorkOutcome {
    /// A turn ended.
    Turn(Box<TurnResult>),
    /// There was no job news after all.
    NoJobNews,
    /// Other work ended, perhaps with a message for the user.
    Work(Result<Option<String>, ChatError>),
}

impl ConversationSlot {
    /// Waits until the running work has ended; forever if nothing runs.
    pub(crate) async fn ended(&mut self) -> Result<FinishedWork, JoinError> {
        match self {
            Self::Running(running) => (&mut running.task).await,
            Self::Idle(_) | Self::Gone => pending().await,
        }
    }

    /// Returns the running work, if any.
    pub(crate) fn running(&self) -> Option<&RunningWork> {
        match self {
            Self::Running(running) => Some(running),
            Self::Idle(_) | Self::Gone => None,
        }
    }

    /// Takes the conversation out if it is idle.
    pub(crate) fn take(&mut self) -> Option<Box<Conversation>> {
        match std::mem::replace(self, Self::Gone) {
            Self::Idle(conversation) => Some(conversation),
            other => {
                *self = other;
                None
            }
        }
    }
}

impl RunningWork {
    /// Interrupts the work, now or as soon as it can be notified.
    pub(crate) fn interrupt(&mut self) {
        self.interrupt =
            if self.control.interrupt() { InterruptState::Sent } else { InterruptState::Wanted };
    }

    /// Delivers an interrupt that could not be delivered before.
    pub(crate) fn interrupt_if_wanted(&mut self) {
        if self.interrupt == InterruptState::Wanted {
            self.interrupt();
        }
    }
}

impl std::fmt::Debug for ConversationSlot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Idle(_) => "Idle",
            Self::Running(_) => "Running",
            Self::Gone => "Gone",
        })
    }
}

impl Chat {
    /// Takes ownership of a conversation and updates the status line.
    pub(crate) fn hold_conversation(&mut self, conversation: Box<Conversation>) {
        self.info = ConversationInfo::of(&conversation);
        let context = conversation.context_used();
        self.status.used = context.tokens;
        self.status.context_window = context.window;
        self.status.model.clone_from(&self.info.model);
        self.wakeup.wait_for(conversation.job_watch());
        self.slot = ConversationSlot::Idle(conversation);
    }

    /// Switches to another conversation and closes the current one.
    pub(crate) async fn switch(&mut self, what: OpenTarget) -> Result<(), ChatError> {
        let Some(before) = self.slot.take() else {
            return Err(ChatError {
                problem: "a turn is running in this conversation".to_owned(),
                advice: vec!["interrupt it with Ctrl-C first".to_owned()],
            });
        };
        let id = before.id().clone();
        // A conversation that is still open cannot be opened again, not even here.
        let is_same = matches!(&what, OpenTarget::Resume { id: wanted, .. } if *wanted == id);
        if is_same {
            Box::pin(close(before)).await;
            return match self.open(what).await {
                Ok(opened) => {
                    self.enter_conversation(opened).await;
                    Ok(())
                }
                Err(failure) => {
                    let again = OpenTarget::Resume { id, task: None, model: None };
                    match self.open(again).await {
                        Ok(opened) => self.hold_conversation(Box::new(opened.conversation)),
                        Err(_) => self.quit(),
                    }
                    Err(failure)
                }
            };
        }
        match self.open(what).await {
            Ok(opened) => {
                Box::pin(close(before)).await;
                self.enter_conversation(opened).await;
                Ok(())
            }
            Err(failure) => {
                self.hold_conversation(before);
                Err(failure)
            }
        }
    }

    pub(crate) async fn open(&mut self, what: OpenTarget) -> Result<OpenedConversation, ChatError> {
        let host = Arc::clone(&self.host);
        self.wait_for("opening the conversation", host.open(what)).await?
    }

    /// Makes an opened conversation the current one.
    async fn enter_conversation(&mut self, opened: OpenedConversation) {
        let OpenedConversation { conversation, is_resumed, notices } = opened;
        let before = self.info.sandbox.sandbox_task();
        self.hold_conversation(Box::new(conversation));
        self.todos.printed = self.info.notebook.read().todos;
        let task = self.info.sandbox.sandbox_task();
        if task != before {
            // The state of the other sandbox is not known yet.
            self.status.sandbox = self.sandbox_label(self.info.sandbox.task(), None);
            self.status.state = "";
            self.status.jobs = 0;
            self.jobs.clear();
        }
        self.live.usage_totals = crate::live::ChatTotals::default();
        self.status.cost_micro_usd = None;
        self.status.is_cost_partial = false;
        self.monitor.watch_task(&task);
        self.greet();
        for notice in notices {
            self.note(&notice);
        }
        if is_resumed {
            self.show_last_exchanges().await;
        }
    }

    /// Reads `config.yaml` and `.env` again.
    pub(crate) fn reload_settings(&mut self) {
        self.settings = Arc::new(self.settings.reload());
    }
}

async fn close(conversation: Box<Conversation>) {
    if let Err(error) = conversation.close(EndReason::NewConversation).await {
        tracing::warn!(%error, "the conversation could not be closed");
    }
}

/// Returns new endpoints for the conversation's model if its address, key or API has changed
/// in the settings, so that a corrected key works without a new chat.
pub(crate) fn changed_endpoints(
    settings: &Settings,
    conversation: &Conversation,
) -> Option<Vec<Endpoint>> {
    let asked = conversation.model()?;
    let chain = endpoints(settings, Some(&format!("{}:{}", asked.name, asked.model))).ok()?;
    let now = chain.first()?;
    let is_same_model = now.name == asked.name && now.model == asked.model;
    let is_same = now.base_url == asked.base_url && now.key == asked.key && now.api == asked.api;
    (is_same_model && !is_same).then_some(chain)
}
