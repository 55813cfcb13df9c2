//! Replaces old messages by a summary.

use async_recursion::async_recursion as boxed;
use tokio_util::sync::CancellationToken;
use vestal_conversations::Error;
use vestal_model::{Message, ModelAnswer, ModelError, ModelRequest};

use super::Conversation;
use crate::compress::{
    SUMMARY_INSTRUCTIONS, SummaryRoom, as_message, clipped, cut, tokens, tokens_of, transcript,
};
use crate::event::{EventSink, TurnEvent};
use crate::limits::LEAST_RESULT;

/// Tokens that are taken for a model's context when nobody has said and the
/// conversation is too long all the same.
const ASSUMED_CONTEXT: u64 = 32_000;

/// Tokens that a summary may take, at most, and the part of the model's context
/// that it may take, as a divisor.
const SUMMARY_TOKENS: u64 = 4_000;
const SUMMARY_SHARE: u64 = 8;

/// Messages at the end that stay when the user asks for a summary.
const STAY_WHEN_ASKED: usize = 4;

/// The part of the conversation that stays then: one of so many.
const PARTS_WHEN_ASKED: u64 = 4;

/// What a conversation became.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compressed {
    /// Messages that the summary stands for.
    pub messages: usize,
    /// Tokens it had, by estimate.
    pub tokens_before: u64,
    /// Tokens it has now, by estimate.
    pub tokens: u64,
}

/// Why a conversation was not compressed. It is as it was.
#[derive(Debug, thiserror::Error)]
pub enum CompressError {
    /// There is too little of it.
    #[error(
        "there is nothing to sum up: its last messages stay word for word, and there are {messages} in all (about {tokens} tokens)"
    )]
    TooShort {
        /// Messages that the model sees.
        messages: usize,
        /// Tokens they take with all the rest, by estimate.
        tokens: u64,
    },
    /// The turn was interrupted.
    #[error("interrupted; the conversation is unchanged")]
    Interrupted,
    /// The model gave no summary.
    #[error("the model gave no summary, and the conversation is unchanged: {0}")]
    Model(ModelError),
    /// The model's summary was empty.
    #[error("the model's summary is empty, and the conversation is unchanged")]
    Empty,
    /// The store has a reason.
    #[error(transparent)]
    Store(#[from] Error),
}

/// What came of asking for a summary.
pub(crate) enum Summarised {
    By(Box<ModelAnswer>),
    Empty,
    Interrupted,
    Failed(ModelError),
}

impl Conversation {
    /// Replaces old messages by a summary at the user's request:
    /// the last turn or so stays word for word. `control` interrupts it.
    #[boxed]
    pub async fn compress(&mut self, events: &EventSink) -> Result<Compressed, CompressError> {
        let running = self.control.begin(self.parent_cancel.as_ref());
        let tokens_before = self.request_tokens();
        let tokens: u64 = self.messages.iter().map(tokens_of).sum();
        let budget = (tokens / PARTS_WHEN_ASKED).min(self.tail_budget());
        let Some(start) = cut(&self.messages, STAY_WHEN_ASKED, budget) else {
            let messages = self.messages.len();
            return Err(CompressError::TooShort { messages, tokens: tokens_before });
        };
        events.emit(TurnEvent::Compressing { tokens: tokens_before });
        let gone = self.messages_to_compress(start);
        let summary = match self.summarise(&gone, &running.token).await {
            Summarised::By(completion) => completion,
            Summarised::Empty => return Err(CompressError::Empty),
            Summarised::Interrupted => return Err(CompressError::Interrupted),
            Summarised::Failed(error) => return Err(CompressError::Model(error)),
        };
        self.replace_by_summary(&gone, &summary.message.text, events).await?;
        Ok(Compressed { messages: start, tokens_before, tokens: self.request_tokens() })
    }

    /// Returns about how many tokens the next request takes: what the provider
    /// counted last, and an estimate of what came since.
    pub(crate) fn request_tokens(&self) -> u64 {
        match self.counted {
            Some((counted, messages)) => {
                let since = self.messages.get(messages..).unwrap_or_default();
                counted + since.iter().map(tokens_of).sum::<u64>()
            }
            None => {
                let shortened = self.shortened();
                let messages = shortened.as_deref().unwrap_or(&self.messages);
                tokens(&self.system, messages, &self.specs)
            }
        }
    }

    /// Returns about how many tokens every request takes, whatever was said.
    pub(crate) fn fixed_tokens(&self) -> u64 {
        tokens(&self.system, &[], &self.specs)
    }

    /// Returns where it is cut to make room; nothing when that would gain nothing.
    pub(crate) fn cut_for_room(&self) -> Option<usize> {
        let compression = self.agent.parts.options.compression;
        cut(&self.messages, compression.protect_last, self.tail_budget())
    }

    /// Returns the first messages, which are about to give way.
    pub(crate) fn messages_to_compress(&mut self, count: usize) -> Vec<Message> {
        let gone = self.messages.get(..count).unwrap_or_default().to_vec();
        self.memory.compressing((&self.agent.parts.store, &self.id), &gone);
        gone
    }

    /// Asks a model for a summary of messages, and counts what that used.
    pub(crate) async fn summarise(
        &self,
        gone: &[Message],
        cancel: &CancellationToken,
    ) -> Summarised {
        let window = self.chat.context_length().tokens();
        let messages = [Message::user(transcript(gone, &SummaryRoom::of(window)))];
        let most = window.map_or(SUMMARY_TOKENS, |window| window / SUMMARY_SHARE);
        let request = ModelRequest {
            system: SUMMARY_INSTRUCTIONS,
            messages: &messages,
            tools: &[],
            max_output_tokens: Some(most.clamp(1, SUMMARY_TOKENS)),
            // A summary has little room, none of it to think.
            reasoning: Some(vestal_model::ReasoningOptions::AUTO),
        };
        let mut unwatched = |_| ();
        let asked = tokio::select! {
            biased;
            () = cancel.cancelled() => return Summarised::Interrupted,
            asked = self.chat.complete(&request, &mut unwatched) => asked,
        };
        let completion = match asked {
            Ok(completion) => completion,
            Err(error) => return Summarised::Failed(error),
        };
        self.record_usage(&completion).await;
        if completion.message.text.trim().is_empty() {
            return Summarised::Empty;
        }
        Summarised::By(Box::new(completion))
    }

    /// Replaces the first messages by a summary, here and in the store.
    pub(crate) async fn replace_by_summary(
        &mut self,
        gone: &[Message],
        summary: &str,
        events: &EventSink,
    ) -> Result<(), Error> {
        let quoted = self.agent.parts.options.compression.protect_first;
        let room = SummaryRoom::of(self.chat.context_length().tokens());
        self.replace_beginning(gone.len(), as_message(gone, quoted, summary, &room)).await?;
        self.counted = None;
        self.observed_files.clear();
        events.emit(TurnEvent::Compressed { messages: gone.len(), tokens: self.request_tokens() });
        Ok(())
    }

    /// Shows the model less of the longest results of tools, which stay whole
    /// in the store. Returns how many bytes of each it sees; none when that would
    /// gain nothing.
    pub(crate) fn shorten_results(&mut self) -> Option<usize> {
        let whole = self.messages.iter().filter_map(|message| match message {
            Message::Tool(result) => Some(result.content.len()),
            Message::User(_) | Message::Assistant(_) => None,
        });
        let longest = whole.max()?.min(self.shown_of_results.unwrap_or(usize::MAX));
        if longest <= LEAST_RESULT {
            return None;
        }
        let limits = &self.agent.parts.options.limits;
        let budget = limits.within(self.chat.context_length().tokens(), 1).result_bytes;
        let shown = budget.min(longest / 2).max(LEAST_RESULT);
        self.shown_of_results = Some(shown);
        Some(shown)
    }

    /// Hides optional pictures from the model; they stay in the
    /// store. Returns how many; none when there are none, or it sees none already.
    pub(crate) fn leave_out_pictures(&mut self) -> Option<usize> {
        if self.without_optional_pictures {
            return None;
        }
        let counts = self.messages.iter().map(|message| match message {
            Message::User(message) => {
                message.parts.iter().filter(|part| part.is_optional()).count()
            }
            Message::Tool(result) => result.images.len(),
            Message::Assistant(_) => 0,
        });
        let count: usize = counts.sum();
        self.without_optional_pictures = count > 0;
        (count > 0).then_some(count)
    }

    /// Returns the messages as the model sees them, where it sees less than there is.
    pub(crate) fn shortened(&self) -> Option<Vec<Message>> {
        if self.shown_of_results.is_none() && !self.without_optional_pictures {
            return None;
        }
        let most = self.shown_of_results.unwrap_or(usize::MAX);
        let mut messages = self.messages.clone();
        for message in &mut messages {
            if let Message::Tool(result) = message
                && self.without_optional_pictures
            {
                result.images.clear();
            }
            match message {
                Message::Tool(result) if result.content.len() > most => {
                    result.content = clipped(&result.content, most);
                }
                Message::User(message) if self.without_optional_pictures => {
                    message.parts.retain(|part| !part.is_optional());
                }
                Message::User(_) | Message::Assistant(_) | Message::Tool(_) => {}
            }
        }
        Some(messages)
    }

    fn tail_budget(&self) -> u64 {
        let context = self.chat.context_length().tokens().unwrap_or(ASSUMED_CONTEXT);
        self.agent.parts.options.compression.tail_budget(context)
    }
}
