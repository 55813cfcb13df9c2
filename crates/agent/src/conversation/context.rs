//! What the tools of a conversation work with.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::Conversation;
use crate::delegation::Desk;
use crate::event::EventSink;
use crate::tool::ToolContext;

impl Conversation {
    /// Returns what a tool works with during a call.
    pub(crate) fn tool_context(
        &self,
        call: &str,
        cancel: &CancellationToken,
        events: &EventSink,
    ) -> ToolContext {
        let parts = &self.agent.parts;
        ToolContext {
            conversation: self.id.clone(),
            call: call.to_owned(),
            workshop: self.workshop.clone(),
            cancel: cancel.clone(),
            events: events.clone(),
            guard: Arc::clone(&self.guard),
            human: Arc::clone(&self.human),
            redactor: Arc::clone(&parts.redactor),
            limits: Arc::clone(&parts.options.limits),
            notebook: self.notebook.clone(),
            sightings: Arc::clone(&self.sightings),
            jobs: self.jobs.clone(),
            delegates: Arc::new(Desk::of(self)),
            tools: Arc::clone(&self.tools),
        }
    }
}
