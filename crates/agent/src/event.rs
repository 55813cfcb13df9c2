//! Events of a turn, for a chat, an API server or a dashboard.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use vestal_conversations::ConversationId;
use vestal_model::{Cost, FinishReason, TokenUsage};

use crate::mode::ConversationMode;

/// Something that happened during a turn.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum TurnEvent {
    /// A turn has started.
    TurnStarted {
        /// Whose.
        conversation: ConversationId,
    },
    /// More words of the answer.
    Text {
        /// The words.
        text: String,
    },
    /// More of what the model thinks.
    Reasoning {
        /// The words.
        text: String,
    },
    /// What came as text or reasoning since the last model call began is void.
    Discarded {
        /// Why.
        reason: String,
        /// When the next attempt is made, if the same model is asked again.
        retry_after: Option<Duration>,
    },
    /// The model has started to call a tool; its arguments are still coming.
    CallAnnounced {
        /// The tool.
        name: String,
    },
    /// A tool begins to work.
    ToolStarted {
        /// The call's id.
        call: String,
        /// The tool.
        name: String,
        /// What it is about, in a line.
        summary: String,
    },
    /// A tool prints something.
    ToolOutput {
        /// The call's id.
        call: String,
        /// What.
        text: String,
    },
    /// A tool has changed a file.
    FileChanged {
        /// The call's id.
        call: String,
        /// The file, as the model named it.
        path: String,
        /// What has changed, as a unified diff, secrets masked.
        diff: String,
    },
    /// A tool has done its work.
    ToolEnded {
        /// The call's id.
        call: String,
        /// The tool.
        name: String,
        /// Whether it failed.
        is_error: bool,
        /// How long it took.
        took: Duration,
        /// The beginning of what the model reads.
        preview: String,
    },
    /// One call of the model is complete.
    ModelCalled {
        /// The provider that answered.
        provider: String,
        /// The model that answered.
        model: String,
        /// What it took.
        usage: TokenUsage,
        /// What it cost.
        cost: Cost,
        /// Why it stopped. After [`FinishReason::Length`] the next words continue where
        /// these ended.
        finish: FinishReason,
    },
    /// The beginning of the conversation is being summarised.
    Compressing {
        /// Tokens it has now, by estimate.
        tokens: u64,
    },
    /// It was.
    Compressed {
        /// Messages that the summary stands for.
        messages: usize,
        /// Tokens it has now, by estimate.
        tokens: u64,
    },
    /// What the user said during the turn has reached the model.
    Steered {
        /// The words.
        text: String,
    },
    /// The model presents a plan for approval.
    PlanPresented {
        /// The plan, in Markdown, secrets masked.
        plan: String,
    },
    /// The conversation works in another mode from now on.
    ModeChanged {
        /// Which.
        mode: ConversationMode,
    },
    /// Something a person should know; the turn continues.
    Warning {
        /// What.
        text: String,
    },
    /// Something happened to a child that works on a part.
    Child {
        /// The child's conversation.
        conversation: ConversationId,
        /// Which part, from 0.
        index: usize,
        /// What happened.
        event: Box<TurnEvent>,
    },
    /// The turn has ended.
    TurnEnded {
        /// How, in a word: see [`crate::TurnOutcome`].
        outcome: String,
    },
}

/// Where events go. Cheap to clone; emitting never waits.
#[derive(Clone)]
pub struct EventSink(Arc<dyn Fn(TurnEvent) + Send + Sync>);

impl EventSink {
    /// Returns a sink that hands each event to a function, which must not block.
    pub fn new(take: impl Fn(TurnEvent) + Send + Sync + 'static) -> Self {
        Self(Arc::new(take))
    }

    /// Returns a sink that nobody watches.
    pub fn discard() -> Self {
        Self::new(drop)
    }

    /// Hands an event on.
    pub fn emit(&self, event: TurnEvent) {
        (self.0)(event);
    }

    /// Returns a sink that marks events as those of a child.
    #[must_use]
    pub fn of_child(&self, conversation: ConversationId, index: usize) -> Self {
        let parent = self.clone();
        Self::new(move |event| {
            let conversation = conversation.clone();
            parent.emit(TurnEvent::Child { conversation, index, event: Box::new(event) });
        })
    }
}

impl std::fmt::Debug for EventSink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("EventSink")
    }
}

impl TurnEvent {
    /// Puts the event into the log; what was said is left out.
    pub fn log(&self) {
        match self {
            Self::TurnStarted { conversation } => tracing::info!(%conversation, "turn started"),
            Self::ModelCalled { provider, model, usage, .. } => {
                tracing::info!(provider, model, tokens = usage.total(), "model answered");
            }
            Self::Discarded { reason, .. } => tracing::info!(reason, "answer discarded"),
            Self::ToolStarted { name, summary, .. } => {
                tracing::info!(name, summary, "tool started");
            }
            Self::ToolEnded { name, is_error, took, .. } => {
                let took_ms = took.as_millis();
                tracing::info!(name, is_error, took_ms, "tool ended");
            }
            Self::Warning { text } => tracing::info!(text, "told"),
            Self::Compressed { messages, tokens } => {
                tracing::info!(messages, tokens, "summarised");
            }
            Self::ModeChanged { mode } => tracing::info!(%mode, "mode changed"),
            Self::TurnEnded { outcome } => tracing::info!(outcome, "turn ended"),
            Self::Text { .. }
            | Self::Reasoning { .. }
            | Self::CallAnnounced { .. }
            | Self::ToolOutput { .. }
            | Self::FileChanged { .. }
            | Self::Compressing { .. }
            | Self::Steered { .. }
            | Self::PlanPresented { .. }
            | Self::Child { .. } => {}
        }
    }
}
