//! A prompt of the client: sent to the model, or carried out as a command.

use std::sync::Arc;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use vestal_agent::{Conversation, EventSink, TurnError, TurnOutcome, TurnResult};
use vestal_runtime::panics::caught;

use crate::commands::{self, SlashOutcome};
use crate::content::PromptContent;
use crate::error::AcpError;
use crate::protocol::{SessionUpdate, StopReason};
use crate::session::{EditorSession, EnteredPrompt, TurnEnd};

impl EnteredPrompt {
    /// Does what the prompt asks for, and returns why it ended.
    pub(crate) async fn carry_out(mut self) -> Result<StopReason, AcpError> {
        if let Some(end) = self.steered.take() {
            return steered(end, &self.token).await;
        }
        let Some(mut content) = self.content.take() else { return Err(turn_failed()) };
        let session = self.session();
        if let Some(text) = content.only_text() {
            match commands::carry_out(session, &self.token, text.trim()).await? {
                SlashOutcome::NotOne => {}
                SlashOutcome::Prompt(instead) => content = instead,
                SlashOutcome::Done(words) => {
                    session.view.say(words);
                    session.send_state().await;
                    return Ok(StopReason::EndTurn);
                }
                SlashOutcome::Cancelled => return Ok(StopReason::Cancelled),
            }
        }
        let mut held = tokio::select! {
            biased;
            () = self.token.cancelled() => return Ok(StopReason::Cancelled),
            held = session.conversation.lock() => held,
        };
        let conversation = held.as_mut().ok_or_else(|| closed(session))?;
        session.run(conversation, content, &self.token).await
    }
}

/// The session is not there any more.
pub(crate) fn closed(session: &EditorSession) -> AcpError {
    AcpError::not_found(format!("the session {} is closed", session.id))
        .advise("session/load opens it again")
}

/// Waits for the end of the turn that took the words.
async fn steered(
    mut end: watch::Receiver<TurnEnd>,
    token: &CancellationToken,
) -> Result<StopReason, AcpError> {
    tokio::select! {
        biased;
        () = token.cancelled() => Ok(StopReason::Cancelled),
        ended = end.wait_for(Option::is_some) => match ended.ok().and_then(|end| end.clone()) {
            Some(end) => end,
            None => Err(turn_failed()),
        },
    }
}

fn turn_failed() -> AcpError {
    AcpError::internal("the turn met a bug in vestal; the log says which")
        .advise("the messages until then are stored; send one to go on")
}

/// Takes the mark of a running turn back if the turn itself does not come to it.
struct RunningTurn<'a>(&'a EditorSession);

impl Drop for RunningTurn<'_> {
    fn drop(&mut self) {
        self.0.lock().running = None;
    }
}

impl EditorSession {
    /// Runs the turn of a prompt, and turns for messages that come too late for it.
    async fn run(
        &self,
        conversation: &mut Conversation,
        content: PromptContent,
        token: &CancellationToken,
    ) -> Result<StopReason, AcpError> {
        if token.is_cancelled() {
            return Ok(StopReason::Cancelled);
        }
        let view = Arc::clone(&self.view);
        let sink = EventSink::new(move |event| view.event(event));
        let (ends, _) = watch::channel(None);
        self.lock().running = Some(ends);
        let running = RunningTurn(self);
        let mut content = content;
        let end = loop {
            let has_images = content.has_images();
            let turn = conversation.run(content.message, &sink);
            let turn = self.control.interruptible(token, turn);
            let result = caught("a turn of an editor's session has failed", turn).await;
            let Some(mut result) = result else { break Err(turn_failed()) };
            if has_images && is_blind(&result.outcome) {
                break Err(without_images(conversation).await);
            }
            let end = self.end_of(&result);
            let mut late = std::mem::take(&mut result.pending_steer);
            let mut state = self.lock();
            late.extend(self.control.take_steer());
            if late.is_empty() || end != Ok(StopReason::EndTurn) {
                if let Some(ends) = state.running.take() {
                    ends.send_replace(Some(end.clone()));
                }
                break end;
            }
            content = PromptContent::text(late.join("\n"));
        };
        drop(running);
        self.send_state_of(conversation).await;
        end
    }

    /// Returns why a turn ended, in the protocol's words. The answer has what these don't express.
    fn end_of(&self, result: &TurnResult) -> Result<StopReason, AcpError> {
        match &result.outcome {
            TurnOutcome::Completed => Ok(StopReason::EndTurn),
            TurnOutcome::Interrupted => Ok(StopReason::Cancelled),
            TurnOutcome::Refused => Ok(StopReason::Refusal),
            TurnOutcome::BudgetExhausted => Ok(StopReason::MaxTurnRequests),
            TurnOutcome::Looping { reason } => {
                self.view.say(format!("\n\n[stopped because the model repeats itself: {reason}]"));
                Ok(StopReason::MaxTurnRequests)
            }
            TurnOutcome::Failed(error) => {
                let failure = AcpError::internal(error.to_string());
                Err(match error {
                    TurnError::Model(error) => failure.advise(error.advice()),
                    TurnError::Empty { .. } | TurnError::TooLong(_) => {
                        failure.advise("use another model: /model NAME")
                    }
                    TurnError::Store(_) => failure.advise("`vestal doctor` checks the disk"),
                })
            }
        }
    }

    /// Tells the client the title and how full the context is, where they are new.
    async fn send_state(&self) {
        // While a turn runs, its end tells them.
        let Ok(held) = self.conversation.try_lock() else { return };
        if let Some(conversation) = held.as_ref() {
            self.send_state_of(conversation).await;
        }
    }

    async fn send_state_of(&self, conversation: &Conversation) {
        if let Ok(Some(title)) = conversation.title().await {
            let is_new = {
                let mut state = self.lock();
                let is_new = state.title.as_ref() != Some(&title);
                state.title = Some(title.clone());
                is_new
            };
            if is_new {
                self.view.send(SessionUpdate::SessionInfoUpdate { title });
            }
        }
        self.see_model(conversation);
        let used = conversation.context_used();
        if let Some(size) = used.window {
            self.view.send(SessionUpdate::UsageUpdate { used: used.tokens, size });
        }
    }
}

/// Takes a prompt back whose pictures the model does not take: left in the conversation, it would have
/// every later turn fail.
async fn without_images(conversation: &mut Conversation) -> AcpError {
    if let Err(error) = conversation.undo(1).await {
        tracing::warn!(%error, "a prompt with pictures was not taken back");
    }
    let model = conversation.model().map(|model| model.model.clone());
    let model = model.unwrap_or_else(|| "the model".to_owned());
    AcpError::params(format!("{model} takes no pictures, and the prompt was taken back"))
        .advise("send it without them, or use another model: /model NAME")
}

fn is_blind(outcome: &TurnOutcome) -> bool {
    matches!(outcome, TurnOutcome::Failed(TurnError::Model(error)) if error.refuses_images())
}
