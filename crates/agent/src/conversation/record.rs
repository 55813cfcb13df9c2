//! Stores what is said before anything follows from it, and takes turns back.

use std::collections::HashSet;

use async_recursion::async_recursion as boxed;
use serde::{Deserialize, Serialize};
use vestal_conversations::{ConversationId, ConversationStore, Error, NewMessage, Seq};
use vestal_model::{AssistantMessage, Message, ModelAnswer, Part, ToolResult, UserMessage};

use super::Conversation;
use crate::notebook::Notes;
use crate::redact::Redactor;

/// The key of the notes in the store.
pub(crate) const NOTES: &str = "notes";

impl Conversation {
    /// Takes over what was said elsewhere, by a client's account, before anything is said here.
    #[boxed]
    pub async fn take_over(&mut self, messages: Vec<Message>) -> Result<(), Error> {
        self.append(messages).await
    }

    /// Stores messages and then lets the model see them.
    pub(crate) async fn append(&mut self, messages: Vec<Message>) -> Result<(), Error> {
        let news: Vec<NewMessage> =
            messages.iter().map(|message| self.for_store(message).into()).collect();
        let seqs = self.agent.parts.store.append(&self.id, &news).await?;
        if let (Some(Message::User(_)), Some(first)) = (messages.first(), seqs.first()) {
            self.noted_since.get_or_insert(*first);
        }
        self.seqs.extend(seqs);
        self.messages.extend(messages);
        Ok(())
    }

    /// Stores what the user said during a turn, as a part of that turn, and then
    /// lets the model see it.
    pub(crate) async fn append_aside(&mut self, words: &str) -> Result<(), Error> {
        let message = Message::user(words);
        let aside = NewMessage::aside(self.for_store(&message));
        let seqs = self.agent.parts.store.append(&self.id, &[aside]).await?;
        self.seqs.extend(seqs);
        self.messages.push(message);
        Ok(())
    }

    /// Stores something that the program tells the model.
    pub(crate) async fn append_note(&mut self, words: &str) -> Result<(), Error> {
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
        let record = NewMessage::note(self.for_store(&summary));
        let seqs = self.agent.parts.store.compact(&self.id, last, &[record]).await?;
        self.messages.splice(..count, [summary]);
        self.seqs.splice(..count, seqs);
        Ok(())
    }

    /// Stores an answer of the model's with what it took.
    pub(crate) async fn append_answer(&mut self, completion: ModelAnswer) -> Result<(), Error> {
        let ModelAnswer { message, usage, cost, provider, model } = completion;
        let message = Message::Assistant(message);
        let mut new = NewMessage::from(self.for_store(&message));
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

    /// Counts what an answer took that is not a message of the conversation.
    pub(crate) async fn record_usage(&self, completion: &ModelAnswer) {
        let ModelAnswer { provider, model, usage, cost, .. } = completion;
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
    /// model continues with what was really said.
    fn for_store(&self, message: &Message) -> Message {
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
        Message::Assistant(answer) => {
            let mut calls = answer.calls.clone();
            for call in &mut calls {
                call.arguments = redactor.redact_result(&call.arguments).into_owned();
            }
            // Reasoning goes back to its provider as it came, or not at all.
            Message::Assistant(AssistantMessage {
                text: mask(&answer.text),
                calls,
                ..answer.clone()
            })
        }
        Message::Tool(result) => {
            let content = redactor.redact_result(&result.content).into_owned();
            Message::Tool(ToolResult { content, ..result.clone() })
        }
    }
}

/// The key of the notes of earlier turns in the store.
const NOTES_BEFORE: &str = "notes_before";

/// Turns that changed the notes and can be taken back together with them.
const MOST: usize = 100;

/// What was taken back.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct UndoneTurns {
    /// Turns.
    pub turns: u64,
    /// Messages in them.
    pub messages: usize,
    /// What a person said at the beginning of the first of them.
    pub first_message: Option<UserMessage>,
}

/// The notes as they were before a turn changed them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NotesBefore {
    /// What was said at the beginning of that turn.
    turn: Seq,
    notes: Notes,
}

impl Conversation {
    /// Takes the last turns back: what was said in them, the notes made in them,
    /// and what they showed of files. It is so for every process, for good. What
    /// was done in the sandbox stays done. Turns that a summary stands for stay.
    #[boxed]
    pub async fn undo(&mut self, turns: u32) -> Result<UndoneTurns, Error> {
        let store = &self.agent.parts.store;
        let undone = store.undo(&self.id, turns).await?;
        if undone.messages == 0 {
            return Ok(UndoneTurns::default());
        }
        // What is left is kept as it is here, secrets and all, not read again.
        let left: HashSet<Seq> =
            store.messages(&self.id).await?.into_iter().map(|stored| stored.seq).collect();
        let (mut messages, mut seqs, mut gone) = (Vec::new(), Vec::new(), Vec::new());
        for (seq, message) in self.seqs.drain(..).zip(self.messages.drain(..)) {
            if left.contains(&seq) {
                seqs.push(seq);
                messages.push(message);
            } else {
                gone.push((seq, message));
            }
        }
        (self.seqs, self.messages) = (seqs, messages);
        self.counted = None;
        self.observed_files.clear();
        if let Some((first, _)) = gone.first()
            && let Some(notes) = restore_notes(&self.agent.parts.store, &self.id, *first).await?
        {
            self.notebook.write(|now| now.clone_from(&notes));
            self.stored_notes = notes;
        }
        let first_message = gone.iter().find_map(|(_, message)| match message {
            Message::User(prompt) => Some(prompt.clone()),
            Message::Assistant(_) | Message::Tool(_) => None,
        });
        Ok(UndoneTurns { turns: undone.turns, messages: gone.len(), first_message })
    }

    /// Takes the last turn back and returns what was said at its beginning, to
    /// be said again; nothing if there is none to be taken back.
    #[boxed]
    pub async fn retry(&mut self) -> Result<Option<UserMessage>, Error> {
        Ok(self.undo(1).await?.first_message)
    }

    /// Keeps the notes as they were before the turn that has changed them.
    pub(crate) async fn keep_notes_before(&mut self) -> Result<(), Error> {
        // Of the first words since the notes were kept: what is said to steer a
        // turn belongs to it.
        let Some(turn) = self.noted_since.take() else { return Ok(()) };
        let store = &self.agent.parts.store;
        let mut before = notes_before(store, &self.id).await?;
        before.push(NotesBefore { turn, notes: self.stored_notes.clone() });
        let surplus = before.len().saturating_sub(MOST);
        before.drain(..surplus);
        store_notes_before(store, &self.id, &before).await
    }
}

/// Takes the last turns of a conversation back that nobody holds: what was said
/// in them, and the notes made in them. The caller holds the conversation's
/// lease.
#[boxed]
pub async fn undo_stored(
    store: &ConversationStore,
    id: &ConversationId,
    turns: u32,
) -> Result<vestal_conversations::UndoneMessages, Error> {
    let before: Vec<Seq> = seqs(store, id).await?;
    let undone = store.undo(id, turns).await?;
    let left: HashSet<Seq> = seqs(store, id).await?.into_iter().collect();
    if let Some(first) = before.into_iter().find(|seq| !left.contains(seq)) {
        restore_notes(store, id, first).await?;
    }
    Ok(undone)
}

async fn seqs(store: &ConversationStore, id: &ConversationId) -> Result<Vec<Seq>, Error> {
    Ok(store.messages(id).await?.into_iter().map(|stored| stored.seq).collect())
}

/// Brings the notes back that there were before a turn, and returns them if the
/// turn or one after it had changed them.
async fn restore_notes(
    store: &ConversationStore,
    id: &ConversationId,
    turn: Seq,
) -> Result<Option<Notes>, Error> {
    let mut before = notes_before(store, id).await?;
    let Some(place) = before.iter().position(|before| before.turn >= turn) else {
        return Ok(None);
    };
    let Some(NotesBefore { notes, .. }) = before.drain(place..).next() else { return Ok(None) };
    let value = serde_json::json!(notes);
    store.set_state(id, NOTES, Some(&value)).await?;
    store_notes_before(store, id, &before).await?;
    Ok(Some(notes))
}

async fn notes_before(
    store: &ConversationStore,
    id: &ConversationId,
) -> Result<Vec<NotesBefore>, Error> {
    let before = store.state(id, NOTES_BEFORE).await?;
    // Notes that cannot be read are a loss of convenience, not of words.
    Ok(before.and_then(|before| serde_json::from_value(before).ok()).unwrap_or_default())
}

async fn store_notes_before(
    store: &ConversationStore,
    id: &ConversationId,
    before: &[NotesBefore],
) -> Result<(), Error> {
    let value = (!before.is_empty()).then(|| serde_json::json!(before));
    store.set_state(id, NOTES_BEFORE, value.as_ref()).await
}
