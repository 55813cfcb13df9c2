//! Calls that a process left without a result when it was ended.

use tokio_util::sync::CancellationToken;
use vestal_conversations::{Error, Seq};
use vestal_model::{Message, ToolCall, ToolResult};

use super::Conversation;
use crate::call_jobs::{LeftBehind, Record};
use crate::event::{Event, EventSink};
use crate::tool::ToolOutput;
use crate::tools::{fit, settle};

impl Conversation {
    /// Gives every call of the last answer that was cut off the result it has
    /// had since, or says what is known of it. The model reads that in place of
    /// the result, so it has no reason to do the same again unseen.
    pub(crate) async fn settle_calls(
        &mut self,
        cancel: &CancellationToken,
        events: &EventSink,
    ) -> Result<(), Error> {
        let Some(LeftBehind(record)) = self.unsettled.take() else { return Ok(()) };
        let Some((answer, calls)) = self.cut_off() else { return Ok(()) };
        for call in calls {
            let context = self.tool_context(&call.id, cancel, events);
            let (id, name) = (call.id.clone(), call.name.clone());
            let summary = context.redactor.redact(&call.arguments).into_owned();
            events.tell(Event::ToolStarted { call: id, name, summary });
            let began = std::time::Instant::now();
            let sent = Record::sent(record.as_ref(), answer, &call.id);
            let output = tokio::select! {
                biased;
                () = cancel.cancelled() => {
                    // The next turn asks again.
                    self.unsettled = Some(LeftBehind(record));
                    return Ok(());
                }
                output = settle(&context, &call, sent) => output,
            };
            let content = context.redactor.redact_result(&output.content).into_owned();
            let most = context.limits.result_bytes;
            let output = fit(&context, ToolOutput { content, ..output }, most).await;
            let ToolOutput { content, is_error, images, .. } = output;
            let (id, name) = (call.id.clone(), call.name.clone());
            let (took, preview) = (began.elapsed(), content.chars().take(200).collect());
            events.tell(Event::ToolEnded { call: id, name, is_error, took, preview });
            let ToolCall { id: call, name, .. } = call;
            self.say(vec![Message::Tool(ToolResult { call, name, content, is_error, images })])
                .await?;
        }
        Ok(())
    }

    /// Returns the last answer's number and those of its calls that have no
    /// result, unless the conversation went on since.
    fn cut_off(&self) -> Option<(Seq, Vec<ToolCall>)> {
        let at = self.messages.iter().rposition(|message| !matches!(message, Message::Tool(_)))?;
        let Message::Assistant(said) = &self.messages[at] else { return None };
        let has_result = |call: &ToolCall| {
            self.messages[at + 1..]
                .iter()
                .any(|message| matches!(message, Message::Tool(result) if result.call == call.id))
        };
        let open = said.calls.iter().filter(|call| !has_result(call)).cloned().collect();
        Some((*self.seqs.get(at)?, open))
    }
}
