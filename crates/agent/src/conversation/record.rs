//! Puts what was said on record, before anything follows from it.

use vestal_conversations::{Error, NewMessage};
use vestal_model::{AssistantMessage, Completion, Message, Part, ToolResult};

use super::Conversation;
use crate::notebook::Notes;
use crate::redact::Redactor;

/// What the store knows the notes by.
pub(crate) const NOTES: &str = "notes";

impl Conversation {
    /// Stores messages and then lets the model see them.
    pub(crate) async fn say(&mut self, messages: Vec<Message>) -> Result<(), Error> {
        let news: Vec<NewMessage> =
            messages.iter().map(|message| self.for_the_record(message).into()).collect();
        let seqs = self.agent.parts.store.append(&self.id, &news).await?;
        if let (Some(Message::User(_)), Some(first)) = (messages.first(), seqs.first()) {
            self.noted_since.get_or_insert(*first);
        }
        self.seqs.extend(seqs);
        self.messages.extend(messages);
        Ok(())
    }

    /// Stores what somebody said during a turn, which it belongs to, and then
    /// lets the model see it.
    pub(crate) async fn say_aside(&mut self, words: &str) -> Result<(), Error> {
        let message = Message::user(words);
        let aside = NewMessage::aside(self.for_the_record(&message));
        let seqs = self.agent.parts.store.append(&self.id, &[aside]).await?;
        self.seqs.extend(seqs);
        self.messages.push(message);
        Ok(())
    }

    /// Stores something that the program tells the model.
    pub(crate) async fn note(&mut self, words: &str) -> Result<(), Error> {
        let message = Message::user(words);
        let note = NewMessage::note(message.clone());
        let seqs = self.agent.parts.store.append(&self.id, &[note]).await?;
        self.seqs.extend(seqs);
        self.messages.push(message);
        Ok(())
    }

    /// Puts a summary in the place of the first messages.
    pub(crate) async fn replace_beginning(
        &mut self,
        count: usize,
        summary: Message,
    ) -> Result<(), Error> {
        let Some(last) = count.checked_sub(1).and_then(|last| self.seqs.get(last)).copied() else {
            return Ok(());
        };
        let record = NewMessage::note(self.for_the_record(&summary));
        let seqs = self.agent.parts.store.compact(&self.id, last, &[record]).await?;
        self.messages.splice(..count, [summary]);
        self.seqs.splice(..count, seqs);
        Ok(())
    }

    /// Stores an answer of the model's with what it took.
    pub(crate) async fn answered(&mut self, completion: Completion) -> Result<(), Error> {
        let Completion { message, usage, cost, provider, model } = completion;
        let message = Message::Assistant(message);
        let mut new = NewMessage::from(self.for_the_record(&message));
        new.usage = Some(usage);
        new.cost = Some(cost);
        new.provider = Some(provider);
        new.model = Some(model);
        let seqs = self.agent.parts.store.append(&self.id, &[new]).await?;
        self.seqs.extend(seqs);
        self.messages.push(message);
        self.counted = Some((usage.total(), self.messages.len()));
        Ok(())
    }

    /// Counts what an answer took that is no message of the conversation.
    pub(crate) async fn count(&self, completion: &Completion) {
        let Completion { provider, model, usage, cost, .. } = completion;
        let store = &self.agent.parts.store;
        // A count that is lost costs no word.
        if let Err(error) = store.record_usage(&self.id, provider, model, usage, Some(*cost)).await
        {
            tracing::warn!(%error, "what an answer took could not be counted");
        }
    }

    /// Stores the notes if they have changed.
    pub(crate) async fn keep_notes(&mut self) -> Result<(), Error> {
        let notes = self.notebook.read();
        if notes != self.stored_notes {
            // First: notes that came to be stored without those before them
            // could not be taken back.
            self.keep_notes_before().await?;
            self.store_notes(notes).await?;
        }
        self.noted_since = None;
        Ok(())
    }

    pub(crate) async fn store_notes(&mut self, notes: Notes) -> Result<(), Error> {
        let value = serde_json::json!(notes);
        self.agent.parts.store.set_state(&self.id, NOTES, Some(&value)).await?;
        self.stored_notes = notes;
        Ok(())
    }

    /// Returns a message as it is stored: without secrets. In this process the
    /// model goes on with what was really said.
    fn for_the_record(&self, message: &Message) -> Message {
        masked(&self.agent.parts.redactor, message)
    }
}

/// Returns a message without secrets.
pub(crate) fn masked(redactor: &Redactor, message: &Message) -> Message {
    let mask = |text: &str| redactor.redact(text).into_owned();
    match message {
        Message::User(user) => {
            let mut user = user.clone();
            for part in &mut user.parts {
                if let Part::Text { text } = part {
                    *text = mask(text);
                }
            }
            Message::User(user)
        }
        Message::Assistant(said) => {
            let mut calls = said.calls.clone();
            for call in &mut calls {
                call.arguments = redactor.redact_result(&call.arguments).into_owned();
            }
            // Reasoning goes back to its provider as it came, or not at all.
            Message::Assistant(AssistantMessage { text: mask(&said.text), calls, ..said.clone() })
        }
        Message::Tool(result) => {
            let content = redactor.redact_result(&result.content).into_owned();
            Message::Tool(ToolResult { content, ..result.clone() })
        }
    }
}
