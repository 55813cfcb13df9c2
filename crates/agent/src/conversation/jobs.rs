//! Commands outside the calls of a running turn: background jobs that have
//! ended, calls that an earlier process left without a result, and commands of
//! the person.

use std::time::Instant;

use async_recursion::async_recursion as boxed;
use tokio_util::sync::CancellationToken;
use vestal_conversations::{Error, Seq};
use vestal_model::{Message, ToolCall, ToolResult};

use super::Conversation;
use crate::call_jobs::{CallJobRecord, UnsettledJobs};
use crate::event::{EventSink, TurnEvent};
use crate::tool::ToolOutput;
use crate::tools::{JobWatch, fit, job_updates, run_for_person, settle};
use crate::turn::{TurnInput, TurnResult, call_summary, preview};

impl Conversation {
    /// Returns a watch for the jobs that the model watches;
    /// nothing if there are none.
    pub fn job_watch(&self) -> Option<JobWatch> {
        let watched = self.notebook.read().watched;
        (!watched.is_empty()).then(|| JobWatch {
            engine: self.sandbox.engine().clone(),
            task: self.sandbox.sandbox_task(),
            watched,
            line_length: self.agent.parts.options.limits.line_length,
        })
    }

    /// Returns what is new about those jobs, each as text for the model. It is
    /// returned once: the caller has to pass it on.
    #[boxed]
    pub async fn take_job_updates(&mut self, events: &EventSink) -> Vec<String> {
        let running = self.control.begin(self.parent_cancel.as_ref());
        let context = self.tool_context("", &running.token, events);
        tokio::select! {
            biased;
            () = running.token.cancelled() => Vec::new(),
            news = job_updates(&context) => news,
        }
    }

    /// Runs a turn that begins with these updates instead of a message.
    /// The turn belongs to what was said last: it is taken back with that.
    #[boxed]
    pub async fn run_job_updates(&mut self, news: Vec<String>, events: &EventSink) -> TurnResult {
        crate::turn::run(self, TurnInput::JobUpdates(news), events).await
    }

    /// Goes on with a turn that did not come to its end, in this process or in one before it. Calls
    /// that have no result get the one that they have had since, then the model reads `why`: who
    /// stopped it, and that it is to continue.
    #[boxed]
    pub async fn resume_turn(&mut self, why: &str, events: &EventSink) -> TurnResult {
        crate::turn::run(self, TurnInput::JobUpdates(vec![why.to_owned()]), events).await
    }
}

impl Conversation {
    /// Gives every call of the last answer that was cut off the result it has
    /// had since, or says what is known of it. The model reads that in place of
    /// the result, so it has no reason to do the same again unseen.
    pub(crate) async fn settle_calls(
        &mut self,
        cancel: &CancellationToken,
        events: &EventSink,
    ) -> Result<(), Error> {
        let Some(UnsettledJobs(record)) = self.unsettled.take() else { return Ok(()) };
        let Some((answer, calls)) = self.cut_off() else { return Ok(()) };
        for call in calls {
            let context = self.tool_context(&call.id, cancel, events);
            let (id, name) = (call.id.clone(), call.name.clone());
            let summary = context.redactor.redact(&call_summary(&call)).into_owned();
            events.emit(TurnEvent::ToolStarted { call: id, name, summary });
            let began = std::time::Instant::now();
            let sent = CallJobRecord::sent(record.as_ref(), answer, &call.id);
            let output = tokio::select! {
                biased;
                () = cancel.cancelled() => {
                    // The next turn asks again.
                    self.unsettled = Some(UnsettledJobs(record));
                    return Ok(());
                }
                output = settle(&context, &call, sent) => output,
            };
            let content = context.redactor.redact_result(&output.content).into_owned();
            let most = context.limits.result_bytes;
            let output = fit(&context, ToolOutput { content, ..output }, most).await;
            let ToolOutput { content, is_error, images, .. } = output;
            let (id, name) = (call.id.clone(), call.name.clone());
            let (took, preview) = (began.elapsed(), preview(&content));
            events.emit(TurnEvent::ToolEnded { call: id, name, is_error, took, preview });
            let ToolCall { id: call, name, .. } = call;
            self.append(vec![Message::Tool(ToolResult { call, name, content, is_error, images })])
                .await?;
        }
        Ok(())
    }

    /// Returns the last answer's number and those of its calls that have no
    /// result, unless the conversation went on since.
    fn cut_off(&self) -> Option<(Seq, Vec<ToolCall>)> {
        let at = self.messages.iter().rposition(|message| !matches!(message, Message::Tool(_)))?;
        let Message::Assistant(answer) = &self.messages[at] else { return None };
        let has_result = |call: &ToolCall| {
            self.messages[at + 1..]
                .iter()
                .any(|message| matches!(message, Message::Tool(result) if result.call == call.id))
        };
        let open = answer.calls.iter().filter(|call| !has_result(call)).cloned().collect();
        Some((*self.seqs.get(at)?, open))
    }
}

/// What the events of the command carry as the call's id and the tool's name.
const CALL: &str = "shell";

/// Bytes of the result of the command that the model gets.
const TOLD: usize = 16_000;

impl Conversation {
    /// Runs a command of the person's in the shell that the model's commands
    /// run in, too. Nobody is asked: it is theirs. Its result is on record
    /// for the model, which sees it when something is said next. The
    /// conversation's [`Control`](crate::Control) interrupts it.
    #[boxed]
    pub async fn shell(&mut self, command: &str, events: &EventSink) -> Result<(), Error> {
        let running = self.control.begin(self.parent_cancel.as_ref());
        let context = self.tool_context(CALL, &running.token, events);
        let began = Instant::now();
        let (call, name) = (CALL.to_owned(), CALL.to_owned());
        let summary = context.redactor.redact(command.trim()).into_owned();
        events.emit(TurnEvent::ToolStarted { call, name, summary });
        let output = run_for_person(&context, command).await;
        let content = context.redactor.redact_result(&output.content).into_owned();
        let preview = preview(&content);
        let ToolOutput { content, is_error, .. } =
            fit(&context, ToolOutput { content, ..output }, TOLD).await;
        let (call, name, took) = (CALL.to_owned(), CALL.to_owned(), began.elapsed());
        events.emit(TurnEvent::ToolEnded { call, name, is_error, took, preview });
        drop(running);
        let command = context.redactor.redact(command.trim());
        let note = format!("[The user ran a command in the shell: {command}\nResult: {content}]");
        self.append_note(&note).await?;
        if let Err(error) = self.sandbox.turn_ended() {
            events.emit(TurnEvent::Warning { text: format!("after the command: {error}") });
        }
        Ok(())
    }
}
