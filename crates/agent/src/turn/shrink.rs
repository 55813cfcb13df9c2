//! Summarises what is long past when a conversation grows too long.

use vestal_model::{Completion, Message, Request};

use super::outcome::TurnError;
use super::run::Turn;
use crate::compress::{
    SUMMARY_INSTRUCTIONS, as_message, cut, from_what_is_known, tokens, tokens_of, transcript,
};
use crate::event::Event;

/// Tokens that are taken for a model's context when nobody has said and the
/// conversation is too long all the same.
const ASSUMED_CONTEXT: u64 = 32_000;

/// Tokens that a summary may take.
const SUMMARY_TOKENS: u64 = 4_000;

impl Turn<'_> {
    /// Reports whether the next request would be longer than it should be. As
    /// long as nobody has said what the model can hold, nothing is too long
    /// before the provider says so.
    pub(super) fn is_too_long(&self) -> bool {
        let compression = self.conversation.agent.parts.options.compression;
        let Some(context) = self.conversation.chat.context_length().tokens() else {
            return false;
        };
        compression.enabled && self.request_tokens() > compression.ceiling(context)
    }

    /// Returns about how many tokens the next request takes: what the provider
    /// counted last, and an estimate of what came since.
    fn request_tokens(&self) -> u64 {
        let conversation = &*self.conversation;
        match conversation.counted {
            Some((counted, messages)) => {
                let since = conversation.messages.get(messages..).unwrap_or_default();
                counted + since.iter().map(tokens_of).sum::<u64>()
            }
            None => tokens(&conversation.system, &conversation.messages, &conversation.specs),
        }
    }

    /// Replaces the earlier part of the conversation by a summary, here and in
    /// the store. Does nothing when that would gain nothing.
    pub(super) async fn shrink(&mut self) -> Result<(), TurnError> {
        self.shrunk += 1;
        let compression = self.conversation.agent.parts.options.compression;
        let context = self.conversation.chat.context_length().tokens().unwrap_or(ASSUMED_CONTEXT);
        let budget = compression.tail_budget(context);
        let Some(start) = cut(&self.conversation.messages, compression.protect_last, budget) else {
            return Ok(());
        };
        self.events.tell(Event::Compressing { tokens: self.request_tokens() });
        let gone = self.conversation.messages[..start].to_vec();
        let summary = self.summarise(&gone).await;
        let summary = as_message(&gone, compression.protect_first, &summary);
        self.conversation.replace_beginning(start, summary).await?;
        self.conversation.counted = None;
        self.conversation.sightings.forget();
        let tokens = self.request_tokens();
        self.events.tell(Event::Compressed { messages: start, tokens });
        Ok(())
    }

    /// Counts what a summary took. A count that is lost costs no word.
    async fn count_summary(&mut self, completion: &Completion) {
        self.usage += completion.usage;
        self.cost.add(completion.cost);
        let Completion { provider, model, usage, cost, .. } = completion;
        let store = &self.conversation.agent.parts.store;
        let id = &self.conversation.id;
        if let Err(error) = store.record_usage(id, provider, model, usage, Some(*cost)).await {
            tracing::warn!(%error, "what a summary took could not be counted");
        }
    }

    /// Has a model write the summary. Where none can, what is known has to do:
    /// the work goes on either way.
    async fn summarise(&mut self, gone: &[Message]) -> String {
        let messages = [Message::user(transcript(gone))];
        let request = Request {
            system: SUMMARY_INSTRUCTIONS,
            messages: &messages,
            tools: &[],
            max_output_tokens: Some(SUMMARY_TOKENS),
        };
        let mut unwatched = |_| ();
        let asked = tokio::select! {
            biased;
            () = self.cancel.cancelled() => return from_what_is_known(gone),
            asked = self.conversation.chat.complete(&request, &mut unwatched) => asked,
        };
        self.model_calls += 1;
        match asked {
            Ok(completion) if !completion.message.text.trim().is_empty() => {
                self.count_summary(&completion).await;
                completion.message.text
            }
            Ok(_) => from_what_is_known(gone),
            Err(error) => {
                let text = format!("no summary could be had, so the essentials were kept: {error}");
                self.events.tell(Event::Warning { text });
                from_what_is_known(gone)
            }
        }
    }
}
