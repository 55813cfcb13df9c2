//! Takes turns back.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use vestal_conversations::{Error, Seq};
use vestal_model::{Message, UserMessage};

use super::Conversation;
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
        if let Some((first, _)) = gone.first() {
            self.restore_notes(*first).await?;
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
        let mut before = self.notes_before().await?;
        before.push(NotesBefore { turn, notes: self.stored_notes.clone() });
        let surplus = before.len().saturating_sub(MOST);
        before.drain(..surplus);
        self.store_notes_before(&before).await
    }

    /// Brings the notes back that there were before a turn.
    async fn restore_notes(&mut self, turn: Seq) -> Result<(), Error> {
        let mut before = self.notes_before().await?;
        let Some(place) = before.iter().position(|before| before.turn >= turn) else {
            return Ok(());
        };
        let Some(NotesBefore { notes, .. }) = before.drain(place..).next() else { return Ok(()) };
        self.notebook.write(|now| now.clone_from(&notes));
        self.store_notes(notes).await?;
        self.store_notes_before(&before).await
    }

    async fn notes_before(&self) -> Result<Vec<NotesBefore>, Error> {
        let before = self.agent.parts.store.state(&self.id, NOTES_BEFORE).await?;
        // Notes that cannot be read are a loss of convenience, not of words.
        Ok(before.and_then(|before| serde_json::from_value(before).ok()).unwrap_or_default())
    }

    async fn store_notes_before(&self, before: &[NotesBefore]) -> Result<(), Error> {
        let value = (!before.is_empty()).then(|| serde_json::json!(before));
        self.agent.parts.store.set_state(&self.id, NOTES_BEFORE, value.as_ref()).await
    }
}
