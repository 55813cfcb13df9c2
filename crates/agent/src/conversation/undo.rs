//! Takes turns back.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use vestal_conversations::{ConversationId, Error, Seq, Store};
use vestal_model::{Message, UserMessage};

use super::Conversation;
use super::record::NOTES;
use crate::notebook::Notes;

/// What the store knows the notes of earlier turns by.
const NOTES_BEFORE: &str = "notes_before";

/// Turns that changed the notes and can be taken back together with them.
const MOST: usize = 100;

/// What was taken back.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Undone {
    /// Turns.
    pub turns: u64,
    /// Messages in them.
    pub messages: usize,
    /// What a person said at the beginning of the first of them.
    pub said: Option<UserMessage>,
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
    pub async fn undo(&mut self, turns: u32) -> Result<Undone, Error> {
        let store = &self.agent.parts.store;
        let undone = store.undo(&self.id, turns).await?;
        if undone.messages == 0 {
            return Ok(Undone::default());
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
        self.sightings.forget();
        if let Some((first, _)) = gone.first()
            && let Some(notes) = restore_notes(&self.agent.parts.store, &self.id, *first).await?
        {
            self.notebook.write(|now| now.clone_from(&notes));
            self.stored_notes = notes;
        }
        let said = gone.iter().find_map(|(_, message)| match message {
            Message::User(said) => Some(said.clone()),
            Message::Assistant(_) | Message::Tool(_) => None,
        });
        Ok(Undone { turns: undone.turns, messages: gone.len(), said })
    }

    /// Takes the last turn back and returns what was said at its beginning, to
    /// be said again; nothing if there is none to be taken back.
    pub async fn retry(&mut self) -> Result<Option<UserMessage>, Error> {
        Ok(self.undo(1).await?.said)
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
/// in them, and the notes made in them. Whoever calls it has the conversation's
/// lease.
pub async fn undo_stored(
    store: &Store,
    id: &ConversationId,
    turns: u32,
) -> Result<vestal_conversations::Undone, Error> {
    let before: Vec<Seq> = seqs(store, id).await?;
    let undone = store.undo(id, turns).await?;
    let left: HashSet<Seq> = seqs(store, id).await?.into_iter().collect();
    if let Some(first) = before.into_iter().find(|seq| !left.contains(seq)) {
        restore_notes(store, id, first).await?;
    }
    Ok(undone)
}

async fn seqs(store: &Store, id: &ConversationId) -> Result<Vec<Seq>, Error> {
    Ok(store.messages(id).await?.into_iter().map(|stored| stored.seq).collect())
}

/// Brings the notes back that there were before a turn, and returns them if the
/// turn or one after it had changed them.
async fn restore_notes(
    store: &Store,
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

async fn notes_before(store: &Store, id: &ConversationId) -> Result<Vec<NotesBefore>, Error> {
    let before = store.state(id, NOTES_BEFORE).await?;
    // Notes that cannot be read are a loss of convenience, not of words.
    Ok(before.and_then(|before| serde_json::from_value(before).ok()).unwrap_or_default())
}

async fn store_notes_before(
    store: &Store,
    id: &ConversationId,
    before: &[NotesBefore],
) -> Result<(), Error> {
    let value = (!before.is_empty()).then(|| serde_json::json!(before));
    store.set_state(id, NOTES_BEFORE, value.as_ref()).await
}
