//! The words of an answer as they come, in chunks.

use std::collections::VecDeque;
use std::convert::Infallible;

use axum::response::Response;
use axum::response::sse::Event as SseEvent;
use futures_util::stream;
use serde_json::json;
use vestal_agent::TurnEvent;

use super::{CompletionHead, ContentDelta, finish_reason};
use crate::http::error::ApiError;
use crate::http::sse::{self, data};
use crate::http::words::{Diverged, StreamedWords};
use crate::turns::StartedTurn;

/// Streams the answer. The head is sent once there is something to send, so that a turn that
/// fails at once has the status of its failure.
pub(super) async fn response(
    turn: StartedTurn,
    answer: CompletionHead,
    include_usage: bool,
) -> Result<Response, ApiError> {
    let mut chunks = Chunks {
        turn,
        answer,
        include_usage,
        words: StreamedWords::default(),
        ready: VecDeque::new(),
        is_over: false,
        is_diverged: false,
    };
    chunks
        .ready
        .push_back(data(&chunks.answer.chunk(json!({ "role": "assistant", "content": "" }), None)));
    let is_nothing_but_head = |chunks: &Chunks| chunks.ready.len() == 1 && !chunks.is_over;
    while is_nothing_but_head(&chunks) {
        if let Some(error) = chunks.advance().await {
            return Err(error);
        }
    }
    let stream = stream::unfold(chunks, async |mut chunks| {
        let event = chunks.next().await?;
        Some((Ok::<_, Infallible>(event), chunks))
    });
    Ok(sse::response(stream))
}

/// The rest of a stream. Dropping it, as the server does when the client is gone, drops the turn,
/// which interrupts it.
struct Chunks {
    turn: StartedTurn,
    answer: CompletionHead,
    include_usage: bool,
    words: StreamedWords,
    /// What is to be sent next.
    ready: VecDeque<SseEvent>,
    is_over: bool,
    /// Whether the model said other words than those that were sent.
    is_diverged: bool,
}

impl Chunks {
    async fn next(&mut self) -> Option<SseEvent> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            if self.is_over {
                return None;
            }
            if let Some(error) = self.advance().await {
                // The status has been sent; clients take this for the failure it is, and miss
                // the [DONE] of an answer.
                self.ready.push_back(data(&error.body()));
            }
        }
    }

    /// Waits for the next event or the end of the turn. Returns why there is no answer.
    async fn advance(&mut self) -> Option<ApiError> {
        match self.turn.next_event().await {
            Some(event) => self.take(&event),
            None => {
                self.is_over = true;
                self.finish().await
            }
        }
    }

    fn take(&mut self, event: &TurnEvent) -> Option<ApiError> {
        match event {
            TurnEvent::Text { .. } if self.is_diverged => {}
            TurnEvent::Text { text } => match self.words.add(text) {
                Ok("") => {}
                Ok(new) => {
                    let chunk = self.answer.chunk(ContentDelta { content: new }, None);
                    self.ready.push_back(data(&chunk));
                }
                // The turn goes on to its end, so that the session has the whole answer.
                Err(Diverged) => self.is_diverged = true,
            },
            TurnEvent::Discarded { .. } => self.words.discard(),
            TurnEvent::ModelCalled { .. } => self.words.settle(),
            TurnEvent::ToolStarted { call, name, summary } => {
                self.progress(call, name, summary, "running");
            }
            TurnEvent::ToolEnded { call, name, is_error, preview, .. } => {
                let status = if *is_error { "failed" } else { "completed" };
                self.progress(call, name, preview, status);
            }
            _ => {}
        }
        None
    }

    fn progress(&mut self, call: &str, tool: &str, label: &str, status: &str) {
        let data = json!({ "tool": tool, "label": label, "toolCallId": call, "status": status });
        let event = SseEvent::default().event("vestal.tool.progress").data(data.to_string());
        self.ready.push_back(event);
    }

    async fn finish(&mut self) -> Option<ApiError> {
        let Some(result) = self.turn.result().await else { return Some(ApiError::lost_turn()) };
        if let Some(error) = ApiError::of_outcome(&result.outcome) {
            return Some(error);
        }
        if self.is_diverged {
            return Some(ApiError::internal(
                "the provider broke off and answered again differently; the session has the whole answer",
            ));
        }
        // Words that came in no event: the summary of a turn that was stopped at its limit.
        if self.words.is_empty() && !result.text.is_empty() {
            let delta = ContentDelta { content: &result.text };
            self.ready.push_back(data(&self.answer.chunk(delta, None)));
        }
        let reason = finish_reason(&result.outcome);
        self.ready.push_back(data(&self.answer.chunk(json!({}), Some(reason))));
        if self.include_usage {
            self.ready.push_back(data(&self.answer.usage_chunk(&result)));
        }
        self.ready.push_back(SseEvent::default().data("[DONE]"));
        None
    }
}
