//! The turn loop.

use std::borrow::Cow;
use std::time::Instant;

use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;
use vestal_conversations::{Seq, Title};
use vestal_model::{AssistantMessage, FinishReason, Message, Part, TokenUsage, UserMessage};

use super::ask::AskOutcome;
use super::calls::CallsOutcome;
use super::control::{LoopWatch, RunningTurn};
use super::outcome::{CostSum, TurnError, TurnOutcome, TurnResult};
use crate::conversation::Conversation;
use crate::event::{EventSink, TurnEvent};
use crate::tools::job_updates;

/// How often an answer that was cut off at the output limit is continued.
const CONTINUATIONS: u32 = 3;

/// How often an empty answer is requested again.
const EMPTY_ANSWERS: u32 = 3;

/// Characters of the first message that become the title.
const TITLE: usize = 60;

const GO_ON: &str = "[The answer was cut off at the output limit. Go on exactly where it stopped, without repeating anything.]";

const SAY_SOMETHING: &str = "[The last answer was empty. Answer with text, or call a tool.]";

const SUM_UP: &str = "[The limit of model calls for this turn is reached: no more tools can be called. Sum up what was done, its results and what is left.]";

/// What a turn begins with.
#[derive(Debug)]
pub(crate) enum TurnInput {
    /// A message of the user.
    Message(UserMessage),
    /// News of background jobs that the model watches.
    JobUpdates(Vec<String>),
}

/// Runs a turn to its end, whatever that is.
pub(crate) async fn run(
    conversation: &mut Conversation,
    input: TurnInput,
    events: &EventSink,
) -> TurnResult {
    // Log entries in this scope belong to this conversation.
    let span = tracing::info_span!("turn", session = %conversation.id);
    run_to_end(conversation, input, events).instrument(span).await
}

async fn run_to_end(
    conversation: &mut Conversation,
    input: TurnInput,
    events: &EventSink,
) -> TurnResult {
    let began = Instant::now();
    events.emit(TurnEvent::TurnStarted { conversation: conversation.id.clone() });
    for name in std::mem::take(&mut conversation.unknown_tools) {
        let text = format!("the settings name an unknown tool or toolset {name:?}");
        events.emit(TurnEvent::Warning { text });
    }
    for text in conversation.memory.take_notices() {
        events.emit(TurnEvent::Warning { text });
    }
    let running = conversation.control.begin(conversation.parent_cancel.as_ref());
    conversation.refresh_tools(events, &running.token).await;
    let rails = conversation.agent.parts.options.guardrails;
    let mut turn = Turn::new(conversation, events, &running, rails);
    let outcome = match turn.work(input).await {
        Ok(outcome) => outcome,
        Err(error) => TurnOutcome::Failed(error),
    };
    let outcome = turn.finish(outcome).await;
    let result = turn.result(outcome, began);
    drop(running);
    events.emit(TurnEvent::TurnEnded { outcome: result.outcome.word().to_owned() });
    result
}

/// A turn under way.
pub(super) struct Turn<'a> {
    pub(super) conversation: &'a mut Conversation,
    pub(super) events: &'a EventSink,
    pub(super) cancel: CancellationToken,
    pub(super) watch: LoopWatch,
    pub(super) model_calls: u32,
    pub(super) tool_calls: u32,
    pub(super) shrunk: u32,
    pub(super) usage: TokenUsage,
    pub(super) cost: CostSum,
    pub(super) provider: String,
    pub(super) model: String,
    pub(super) last_prompt_tokens: u64,
    /// What began the turn, and what a memory knows about it.
    pub(super) begun_by: Option<(Seq, Option<String>)>,
    text: String,
    reasoning: String,
}

impl<'a> Turn<'a> {
    fn new(
        conversation: &'a mut Conversation,
        events: &'a EventSink,
        running: &RunningTurn,
        rails: super::Guardrails,
    ) -> Self {
        Self {
            conversation,
            events,
            cancel: running.token.clone(),
            watch: LoopWatch::new(rails),
            model_calls: 0,
            tool_calls: 0,
            shrunk: 0,
            usage: TokenUsage::default(),
            cost: CostSum::default(),
            provider: String::new(),
            model: String::new(),
            last_prompt_tokens: 0,
            begun_by: None,
            text: String::new(),
            reasoning: String::new(),
        }
    }

    async fn work(&mut self, input: TurnInput) -> Result<TurnOutcome, TurnError> {
        let cancel = self.cancel.clone();
        self.conversation.settle_calls(&cancel, self.events).await?;
        self.conversation.tell_mode().await?;
        match input {
            TurnInput::Message(input) => {
                let message = input.text();
                self.conversation.append(vec![Message::User(input)]).await?;
                self.set_title_from(&message).await;
                self.prefetch_memory(&message).await;
            }
            TurnInput::JobUpdates(news) => {
                for words in news {
                    self.conversation.append_note(&words).await?;
                }
                // After a crash, the resumed conversation must not get the same news again.
                self.conversation.keep_notes().await?;
            }
        }
        let mut continuations = 0;
        let mut empty = 0;
        loop {
            if self.cancel.is_cancelled() {
                return Ok(TurnOutcome::Interrupted);
            }
            if self.model_calls >= self.conversation.max_turns {
                return self.sum_up().await;
            }
            self.take_updates().await?;
            let hint = (empty > 0).then_some(SAY_SOMETHING);
            let completion = match self.ask(hint).await? {
                AskOutcome::Interrupted(partial) => return self.interrupted(partial).await,
                AskOutcome::Answered(completion) => completion,
            };
            let AssistantMessage { text, calls, finish, .. } = &completion.message;
            let (finish, calls) = (*finish, calls.clone());
            if text.trim().is_empty() && calls.is_empty() && finish != FinishReason::Refused {
                empty += 1;
                self.conversation.record_usage(&completion).await;
                if empty >= EMPTY_ANSWERS {
                    return Err(TurnError::Empty { model: completion.model, times: empty });
                }
                continue;
            }
            empty = 0;
            self.keep_text(&completion.message, continuations > 0);
            self.conversation.append_answer(completion).await?;
            if !calls.is_empty() {
                continuations = 0;
                match self.run_calls(&calls).await? {
                    CallsOutcome::All => continue,
                    CallsOutcome::Interrupted => return Ok(TurnOutcome::Interrupted),
                    CallsOutcome::Looping(reason) => return Ok(TurnOutcome::Looping { reason }),
                }
            }
            match finish {
                FinishReason::Refused => return Ok(TurnOutcome::Refused),
                FinishReason::Length if continuations < CONTINUATIONS => {
                    continuations += 1;
                    self.conversation.append_note(GO_ON).await?;
                }
                FinishReason::Stop
                | FinishReason::ToolCalls
                | FinishReason::Length
                | FinishReason::Interrupted => {
                    return Ok(TurnOutcome::Completed);
                }
            }
        }
    }

    /// Makes the first words of a conversation without a title its title. A failure is
    /// ignored: the words themselves are stored.
    async fn set_title_from(&mut self, words: &str) {
        if !std::mem::take(&mut self.conversation.untitled) {
            return;
        }
        let redactor = &self.conversation.agent.parts.redactor;
        let words =
            redactor.redact(words.lines().find(|line| !line.trim().is_empty()).unwrap_or(""));
        let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
        let title: String = words.chars().take(TITLE).collect();
        if title.is_empty() {
            return;
        }
        let store = &self.conversation.agent.parts.store;
        let named = store.set_title(&self.conversation.id, &Title::Generated(title)).await;
        if let Err(error) = named {
            self.events.emit(TurnEvent::Warning { text: format!("it has no title: {error}") });
        }
    }

    /// Adds messages that the user sent during the turn, and news of watched jobs, to the
    /// conversation.
    async fn take_updates(&mut self) -> Result<(), TurnError> {
        let news = job_updates(&self.context("")).await;
        if !news.is_empty() {
            for text in news {
                self.conversation.append_note(&text).await?;
            }
            self.conversation.keep_notes().await?;
        }
        for text in self.conversation.control.take_steer() {
            self.conversation.append_aside(&text).await?;
            self.events.emit(TurnEvent::Steered { text });
        }
        Ok(())
    }

    /// Stores the part of an answer that had come.
    async fn interrupted(&mut self, partial: String) -> Result<TurnOutcome, TurnError> {
        if !partial.trim().is_empty() {
            self.text.clone_from(&partial);
            let finish = FinishReason::Interrupted;
            let answer = AssistantMessage { text: partial, finish, ..AssistantMessage::default() };
            self.conversation.append(vec![Message::Assistant(answer)]).await?;
        }
        Ok(TurnOutcome::Interrupted)
    }

    /// Asks the model for a summary when it has used up its calls.
    async fn sum_up(&mut self) -> Result<TurnOutcome, TurnError> {
        let specs = std::mem::take(&mut self.conversation.specs);
        let answer = self.ask(Some(SUM_UP)).await;
        self.conversation.specs = specs;
        match answer? {
            AskOutcome::Interrupted(partial) => self.interrupted(partial).await,
            AskOutcome::Answered(mut completion) => {
                // The request had no tools, so calls in the answer are ignored.
                completion.message.calls.clear();
                if completion.message.text.trim().is_empty() {
                    self.conversation.record_usage(&completion).await;
                } else {
                    self.keep_text(&completion.message, false);
                    self.conversation.append_answer(completion).await?;
                }
                Ok(TurnOutcome::BudgetExhausted)
            }
        }
    }

    fn keep_text(&mut self, answer: &AssistantMessage, goes_on: bool) {
        if !goes_on {
            self.text.clear();
        }
        self.text.push_str(&answer.text);
        let thoughts: Vec<&str> =
            answer.reasoning.iter().map(|block| block.text.as_str()).collect();
        self.reasoning = thoughts.join("\n");
    }

    /// Does what is due at the end of every turn. No failure here loses the answer: a
    /// failure to store the notes is reported as a notice.
    async fn finish(&mut self, outcome: TurnOutcome) -> TurnOutcome {
        if let Err(error) = self.conversation.keep_notes().await {
            self.events
                .emit(TurnEvent::Warning { text: format!("the notes could not be kept: {error}") });
        }
        if let Some(sandbox) = self.conversation.sandbox.attached() {
            sandbox.bring_back().await;
            for text in sandbox.take_sync_notes() {
                self.events.emit(TurnEvent::Warning { text });
            }
        }
        // A child works in its parent's sandbox: its turn is not the end of the parent's.
        if self.conversation.depth == 0
            && let Err(error) = self.conversation.sandbox.turn_ended()
        {
            self.events.emit(TurnEvent::Warning { text: format!("after the turn: {error}") });
        }
        if outcome.is_completed() {
            self.notify_memory();
        }
        outcome
    }

    fn result(&mut self, outcome: TurnOutcome, began: Instant) -> TurnResult {
        TurnResult {
            conversation: self.conversation.id.clone(),
            outcome,
            text: std::mem::take(&mut self.text),
            reasoning: std::mem::take(&mut self.reasoning),
            model_calls: self.model_calls,
            tool_calls: self.tool_calls,
            usage: self.usage,
            cost: self.cost,
            provider: std::mem::take(&mut self.provider),
            model: std::mem::take(&mut self.model),
            last_prompt_tokens: self.last_prompt_tokens,
            pending_steer: self.conversation.control.take_steer(),
            took: began.elapsed(),
        }
    }
}

impl Turn<'_> {
    /// Asks the memory about the new message.
    pub(super) async fn prefetch_memory(&mut self, message: &str) {
        let Some(begin) = self.conversation.seqs.last().copied() else { return };
        let known = tokio::select! {
            biased;
            () = self.cancel.cancelled() => None,
            known = self.conversation.memory.prefetch(message) => known,
        };
        self.begun_by = Some((begin, known));
    }

    /// Returns the messages for the request. What the memory knows is added to the message
    /// it is about, in the requests of this turn only.
    pub(super) fn messages_with_memory(&self) -> Cow<'_, [Message]> {
        let messages = match self.conversation.shortened() {
            Some(shortened) => Cow::Owned(shortened),
            None => Cow::Borrowed(self.conversation.messages.as_slice()),
        };
        let Some((begin, Some(known))) = &self.begun_by else { return messages };
        // If a summary has replaced that message, it covers this, too.
        let place = self.conversation.seqs.iter().position(|seq| seq == begin);
        let Some(place) = place else { return messages };
        let mut messages = messages;
        if matches!(messages.get(place), Some(Message::User(_)))
            && let Some(Message::User(user)) = messages.to_mut().get_mut(place)
        {
            user.parts.push(Part::Text { text: known.clone() });
        }
        messages
    }

    /// Gives the completed turn to the memory.
    pub(super) fn notify_memory(&mut self) {
        let conversation = &mut *self.conversation;
        if let (Some((first, _)), Some(last)) = (&self.begun_by, conversation.seqs.last()) {
            let place = (&conversation.agent.parts.store, &conversation.id);
            conversation.memory.turn_completed(place, *first, *last);
        }
    }
}
