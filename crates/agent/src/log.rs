//! Events in the program's own log.

use crate::event::Event;

impl Event {
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
            Self::TurnEnded { outcome } => tracing::info!(outcome, "turn ended"),
            Self::Text { .. }
            | Self::Reasoning { .. }
            | Self::CallAnnounced { .. }
            | Self::ToolOutput { .. }
            | Self::FileChanged { .. }
            | Self::Compressing { .. }
            | Self::Steered { .. }
            | Self::Child { .. } => {}
        }
    }
}
