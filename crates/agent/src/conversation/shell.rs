//! A person's own command, in the conversation's shell.

use std::time::Instant;

use vestal_conversations::Error;

use super::Conversation;
use crate::event::{Event, EventSink};
use crate::tool::ToolOutput;
use crate::tools::{fit, run_for_person};
use crate::turn::preview;

/// What the events of the command carry as the call's id and the tool's name.
const CALL: &str = "shell";

/// Bytes of what the command came to that the model is told.
const TOLD: usize = 16_000;

impl Conversation {
    /// Runs a command of the person's in the shell that the model's commands
    /// run in, too. Nobody is asked: it is theirs. What it came to is on record
    /// for the model, which sees it when something is said next. The
    /// conversation's [`Control`](crate::Control) interrupts it.
    pub async fn shell(&mut self, command: &str, events: &EventSink) -> Result<(), Error> {
        let running = self.control.begin(self.parent_cancel.as_ref());
        let context = self.tool_context(CALL, &running.token, events);
        let began = Instant::now();
        let (call, name) = (CALL.to_owned(), CALL.to_owned());
        let summary = context.redactor.redact(command.trim()).into_owned();
        events.tell(Event::ToolStarted { call, name, summary });
        let output = run_for_person(&context, command).await;
        let content = context.redactor.redact_result(&output.content).into_owned();
        let preview = preview(&content);
        let ToolOutput { content, is_error, .. } =
            fit(&context, ToolOutput { content, ..output }, TOLD).await;
        let (call, name, took) = (CALL.to_owned(), CALL.to_owned(), began.elapsed());
        events.tell(Event::ToolEnded { call, name, is_error, took, preview });
        drop(running);
        let command = context.redactor.redact(command.trim());
        let told =
            format!("[The user ran a command in the shell: {command}\nIt came to: {content}]");
        self.note(&told).await?;
        if let Err(error) = self.workshop.turn_ended() {
            events.tell(Event::Warning { text: format!("after the command: {error}") });
        }
        Ok(())
    }
}
