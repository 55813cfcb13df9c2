//! Asks the model within its context until somebody interrupts, and keeps the
//! answer on record while it comes.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};
use vestal_conversations::{ConversationId, ConversationStore, Error, NewMessage, Seq};
use vestal_model::{
    AnswerProgress, AssistantMessage, FinishReason, Message, ModelAnswer, ModelError, ModelRequest,
};

use super::outcome::TurnError;
use super::run::Turn;
use crate::compress::{SummaryRoom, summary_without_model};
use crate::conversation::Summarised;
use crate::event::{EventSink, TurnEvent};
use crate::redact::Redactor;

/// How often one turn may summarise.
const SHRINKS: u32 = 3;

/// The result of a request.
pub(super) enum AskOutcome {
    /// The model answered.
    Answered(ModelAnswer),
    /// The turn was interrupted; this much of the answer had come.
    Interrupted(String),
}

impl Turn<'_> {
    /// Asks the model. `hint` goes into this request only and is not stored.
    pub(super) async fn ask(&mut self, hint: Option<&str>) -> Result<AskOutcome, TurnError> {
        loop {
            if self.is_too_long() && self.shrunk < SHRINKS {
                self.shrink().await?;
            }
            if self.cancel.is_cancelled() {
                return Ok(AskOutcome::Interrupted(String::new()));
            }
            let answer = self.ask_once(hint).await;
            match answer {
                Err(error @ ModelError::ContextOverflow { .. }) => {
                    if !self.make_room().await? {
                        return Err(TurnError::TooLong(error.to_string()));
                    }
                }
                Err(error) => return Err(error.into()),
                Ok(answer) => {
                    if let AskOutcome::Answered(completion) = &answer {
                        self.count(completion);
                    }
                    return Ok(answer);
                }
            }
        }
    }

    pub(super) fn may_shrink(&self) -> bool {
        self.conversation.agent.parts.options.compression.enabled && self.shrunk < SHRINKS
    }

    async fn ask_once(&mut self, hint: Option<&str>) -> Result<AskOutcome, ModelError> {
        let conversation = &*self.conversation;
        let mut messages = self.messages_with_memory();
        if let Some(words) = hint {
            messages.to_mut().push(Message::user(words));
        }
        let request = ModelRequest {
            system: &conversation.system,
            messages: &messages,
            tools: &conversation.specs,
            max_output_tokens: conversation.agent.parts.options.max_output_tokens,
            reasoning: conversation.reasoning,
        };
        let text_so_far = PartialText::default();
        let mut watch = |progress| emit_progress(self.events, &text_so_far, progress);
        let parts = &conversation.agent.parts;
        // A child is never resumed, so its unfinished answer is not stored.
        let last = conversation.seqs.last().copied().filter(|_| conversation.depth == 0);
        let recorder = PartialRecorder::begin(
            &parts.store,
            &conversation.id,
            last,
            &text_so_far,
            &parts.redactor,
        );
        // Dropping the call closes the provider's connection.
        let answer = tokio::select! {
            biased;
            () = self.cancel.cancelled() => None,
            answer = conversation.chat.complete(&request, &mut watch) => Some(answer),
        };
        if let Some(recorder) = recorder {
            match &answer {
                Some(Err(_)) => recorder.forget(&parts.store, &conversation.id).await,
                Some(Ok(_)) | None => recorder.end().await,
            }
        }
        self.model_calls += 1;
        match answer {
            None => Ok(AskOutcome::Interrupted(text_so_far.get())),
            Some(answer) => answer.map(AskOutcome::Answered),
        }
    }

    fn count(&mut self, completion: &ModelAnswer) {
        self.usage += completion.usage;
        self.cost.add(completion.cost);
        self.last_prompt_tokens = completion.usage.prompt();
        self.provider.clone_from(&completion.provider);
        self.model.clone_from(&completion.model);
        self.events.emit(TurnEvent::ModelCalled {
            provider: completion.provider.clone(),
            model: completion.model.clone(),
            usage: completion.usage,
            cost: completion.cost,
            finish: completion.message.finish,
        });
    }
}

/// Emits an event, and keeps the text in case the answer is cut off.
fn emit_progress(events: &EventSink, text_so_far: &PartialText, progress: AnswerProgress) {
    events.emit(match progress {
        AnswerProgress::Text(text) => {
            text_so_far.push(&text);
            TurnEvent::Text { text }
        }
        AnswerProgress::Reasoning(text) => TurnEvent::Reasoning { text },
        AnswerProgress::Call { name } => TurnEvent::CallAnnounced { name },
        AnswerProgress::Retrying { after, reason, .. } => {
            text_so_far.clear();
            TurnEvent::Discarded { reason, retry_after: Some(after) }
        }
        AnswerProgress::FellBack { provider, model, reason } => {
            text_so_far.clear();
            let reason = format!("{reason}; asking {model} of {provider} instead");
            TurnEvent::Discarded { reason, retry_after: None }
        }
    });
}

impl Turn<'_> {
    /// Returns whether the next request would be too long. While the context length of the
    /// model is unknown, only the provider's refusal tells.
    pub(super) fn is_too_long(&self) -> bool {
        let compression = self.conversation.agent.parts.options.compression;
        let Some(context) = self.conversation.chat.context_length().tokens() else {
            return false;
        };
        let ceiling = compression.ceiling(context, self.conversation.fixed_tokens());
        compression.enabled && self.conversation.request_tokens() > ceiling
    }

    /// Replaces the earlier part of the conversation by a summary, here and in
    /// the store. Does nothing when that would gain nothing, or when the turn is
    /// interrupted. If no model gives a summary, one is made of the messages
    /// themselves.
    pub(super) async fn shrink(&mut self) -> Result<(), TurnError> {
        let Some(start) = self.conversation.cut_for_room() else { return Ok(()) };
        self.shrunk += 1;
        let tokens = self.conversation.request_tokens();
        self.events.emit(TurnEvent::Compressing { tokens });
        let gone = self.conversation.messages_to_compress(start);
        let room = SummaryRoom::of(self.conversation.chat.context_length().tokens());
        let summarised = self.conversation.summarise(&gone, &self.cancel).await;
        self.model_calls += u32::from(!matches!(summarised, Summarised::Interrupted));
        let summary = match summarised {
            Summarised::By(completion) => {
                self.usage += completion.usage;
                self.cost.add(completion.cost);
                completion.message.text
            }
            // The turn ends here, and the next one may ask for a summary again.
            Summarised::Interrupted => return Ok(()),
            Summarised::Empty => summary_without_model(&gone, &room),
            Summarised::Failed(error) => {
                let text = format!(
                    "the model gave no summary, so the messages of the user and the last calls were kept instead: {error}"
                );
                self.events.emit(TurnEvent::Warning { text });
                summary_without_model(&gone, &room)
            }
        };
        self.conversation.replace_by_summary(&gone, &summary, self.events).await?;
        Ok(())
    }

    /// Makes a conversation shorter that the model has refused: what is long past
    /// is summarised and, where that gains nothing, the model sees no picture that
    /// words do without, then less of the longest results. Reports whether it is
    /// shorter now.
    pub(super) async fn make_room(&mut self) -> Result<bool, TurnError> {
        let before = self.conversation.messages.len();
        if self.may_shrink() {
            self.shrink().await?;
        }
        if self.conversation.messages.len() != before || self.cancel.is_cancelled() {
            return Ok(true);
        }
        if let Some(count) = self.conversation.leave_out_pictures() {
            let text = format!("the model cannot hold {count} pictures; it reads the words alone");
            self.events.emit(TurnEvent::Warning { text });
            return Ok(true);
        }
        let Some(shown) = self.conversation.shorten_results() else { return Ok(false) };
        let text = format!(
            "the model cannot hold the results of its tools; it sees {shown} bytes of each that is longer"
        );
        self.events.emit(TurnEvent::Warning { text });
        Ok(true)
    }
}

/// The key of an unfinished answer in the store.
const PARTIAL: &str = "partial_answer";

/// Time between two writes of an answer that grows.
const PERIOD: Duration = Duration::from_secs(1);

/// How much longer than a write the time to the next one is at least: a slow
/// disk is kept busy for a twentieth of the time.
const REST: u32 = 20;

/// An unfinished answer on record.
#[derive(Debug, Serialize, Deserialize)]
struct Partial {
    /// The message it comes after. If another one is there by now, that is the
    /// answer, and this is what was left of it.
    after: i64,
    text: String,
}

/// The words of an answer, as they come.
#[derive(Debug, Clone, Default)]
pub(super) struct PartialText(Arc<Mutex<String>>);

impl PartialText {
    pub(super) fn push(&self, text: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push_str(text);
    }

    pub(super) fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    pub(super) fn get(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Keeps an answer that comes on record, until it is stopped.
pub(super) struct PartialRecorder {
    keeping: JoinHandle<()>,
    /// Stops it when dropped: a turn that is given up keeps nothing more.
    stop: DropGuard,
}

impl PartialRecorder {
    /// Begins to keep what comes after a message.
    pub(super) fn begin(
        store: &ConversationStore,
        id: &ConversationId,
        after: Option<Seq>,
        words: &PartialText,
        redactor: &Arc<Redactor>,
    ) -> Option<Self> {
        let after = after?.0;
        let stop = CancellationToken::new();
        let (store, id, words) = (store.clone(), id.clone(), words.clone());
        let (redactor, stopped) = (Arc::clone(redactor), stop.clone());
        let keeping = tokio::spawn(async move {
            let (mut kept, mut pause) = (0, PERIOD);
            while stopped.run_until_cancelled(tokio::time::sleep(pause)).await.is_some() {
                let text = words.get();
                if text.len() == kept {
                    continue;
                }
                kept = text.len();
                let began = Instant::now();
                let partial = Partial { after, text: redactor.redact(&text).into_owned() };
                let value = serde_json::json!(partial);
                // It is tried again with the next words.
                if let Err(error) = store.set_state(&id, PARTIAL, Some(&value)).await {
                    tracing::debug!(%error, "an answer that comes is not on record");
                }
                pause = PERIOD.max(began.elapsed() * REST);
            }
        });
        Some(Self { keeping, stop: stop.drop_guard() })
    }

    /// Stops. What was kept stays: once the caller has stored the answer, it
    /// counts no more.
    pub(super) async fn end(self) {
        let Self { keeping, stop } = self;
        drop(stop);
        if let Err(error) = keeping.await {
            tracing::debug!(%error, "the recorder of an answer broke");
        }
    }

    /// Stops, and forgets what was kept of an answer that failed.
    pub(super) async fn forget(self, store: &ConversationStore, id: &ConversationId) {
        self.end().await;
        if let Err(error) = store.set_state(id, PARTIAL, None).await {
            tracing::debug!(%error, "an answer that failed is still on record");
        }
    }
}

/// Makes what was kept of an answer a message, when a conversation is resumed
/// whose process died while the answer came.
pub(crate) async fn recover(
    store: &ConversationStore,
    id: &ConversationId,
    last: Option<Seq>,
) -> Result<Option<(Seq, Message)>, Error> {
    let Some(kept) = store.state(id, PARTIAL).await? else { return Ok(None) };
    let mut recovered = None;
    if let Ok(Partial { after, text }) = serde_json::from_value(kept)
        && last.is_some_and(|last| last.0 == after)
        && !text.trim().is_empty()
    {
        let finish = FinishReason::Interrupted;
        let message =
            Message::Assistant(AssistantMessage { text, finish, ..AssistantMessage::default() });
        let seqs = store.append(id, &[NewMessage::from(message.clone())]).await?;
        recovered = seqs.first().map(|seq| (*seq, message));
    }
    store.set_state(id, PARTIAL, None).await?;
    Ok(recovered)
}
