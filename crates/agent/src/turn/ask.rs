//! Asks the model, within its context and until somebody interrupts.

use vestal_model::{Completion, Message, ModelError, Progress, Request};

use super::outcome::TurnError;
use super::partial::{Keeper, Words};
use super::run::Turn;
use crate::event::{Event, EventSink};

/// Times that one turn may summarise.
const SHRINKS: u32 = 3;

/// What came of asking.
pub(super) enum Answer {
    /// The model answered.
    Said(Completion),
    /// Somebody interrupted; this much had been said.
    Interrupted(String),
}

impl Turn<'_> {
    /// Asks the model. `whisper` is said to it this once and not put on record.
    pub(super) async fn ask(&mut self, whisper: Option<&str>) -> Result<Answer, TurnError> {
        loop {
            if self.is_too_long() && self.shrunk < SHRINKS {
                self.shrink().await?;
            }
            if self.cancel.is_cancelled() {
                return Ok(Answer::Interrupted(String::new()));
            }
            let answer = self.ask_once(whisper).await;
            match answer {
                Err(error @ ModelError::ContextOverflow { .. }) => {
                    if !self.make_room().await? {
                        return Err(TurnError::TooLong(error.to_string()));
                    }
                }
                Err(error) => return Err(error.into()),
                Ok(answer) => {
                    if let Answer::Said(completion) = &answer {
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

    async fn ask_once(&mut self, whisper: Option<&str>) -> Result<Answer, ModelError> {
        let conversation = &*self.conversation;
        let mut messages = self.messages_with_memory();
        if let Some(words) = whisper {
            messages.to_mut().push(Message::user(words));
        }
        let request = Request {
            system: &conversation.system,
            messages: &messages,
            tools: &conversation.specs,
            max_output_tokens: conversation.agent.parts.options.max_output_tokens,
        };
        let said = Words::default();
        let mut watch = |progress| tell(self.events, &said, progress);
        let parts = &conversation.agent.parts;
        // Nobody resumes a child: what it says is for its parent.
        let last = conversation.seqs.last().copied().filter(|_| conversation.depth == 0);
        let keeper = Keeper::begin(&parts.store, &conversation.id, last, &said, &parts.redactor);
        // Dropping the call closes the provider's connection.
        let answer = tokio::select! {
            biased;
            () = self.cancel.cancelled() => None,
            answer = conversation.chat.complete(&request, &mut watch) => Some(answer),
        };
        if let Some(keeper) = keeper {
            match &answer {
                Some(Err(_)) => keeper.forget(&parts.store, &conversation.id).await,
                Some(Ok(_)) | None => keeper.end().await,
            }
        }
        self.model_calls += 1;
        match answer {
            None => Ok(Answer::Interrupted(said.get())),
            Some(answer) => answer.map(Answer::Said),
        }
    }

    fn count(&mut self, completion: &Completion) {
        self.usage += completion.usage;
        self.cost.add(completion.cost);
        self.last_prompt_tokens = completion.usage.prompt();
        self.provider.clone_from(&completion.provider);
        self.model.clone_from(&completion.model);
        self.events.tell(Event::ModelCalled {
            provider: completion.provider.clone(),
            model: completion.model.clone(),
            usage: completion.usage,
            cost: completion.cost,
            finish: completion.message.finish,
        });
    }
}

/// Tells those who watch, and keeps what is said in case it is all there will be.
fn tell(events: &EventSink, said: &Words, progress: Progress) {
    events.tell(match progress {
        Progress::Text(text) => {
            said.push(&text);
            Event::Text { text }
        }
        Progress::Reasoning(text) => Event::Reasoning { text },
        Progress::Call { name } => Event::CallAnnounced { name },
        Progress::Retrying { after, reason, .. } => {
            said.clear();
            Event::Discarded { reason, retry_after: Some(after) }
        }
        Progress::FellBack { provider, model, reason } => {
            said.clear();
            let reason = format!("{reason}; asking {model} of {provider} instead");
            Event::Discarded { reason, retry_after: None }
        }
    });
}
