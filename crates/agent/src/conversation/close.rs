//! Ends this process's part in a conversation.

use vestal_conversations::Error;

use super::Conversation;

/// Why a conversation is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndReason {
    /// It was one question and one answer.
    OneShot,
    /// The person left.
    Left,
    /// Another one was begun in its place.
    NewConversation,
    /// The child has done its part.
    Delegated,
}

impl EndReason {
    /// Returns the word that is stored.
    pub const fn word(self) -> &'static str {
        match self {
            Self::OneShot => "one_shot",
            Self::Left => "left",
            Self::NewConversation => "new_conversation",
            Self::Delegated => "delegated",
        }
    }
}

impl Conversation {
    /// Closes the conversation: its end is stored, and the sandbox is let go
    /// of as the settings say. It can be resumed; one in which nothing was ever
    /// said is forgotten. What its memory has not heard
    /// yet is waited for, but not for ever.
    pub async fn close(mut self, reason: EndReason) -> Result<(), Error> {
        self.keep_notes().await?;
        let left = if self.depth == 0 {
            self.workshop.close()
        } else {
            // A child's shell is of no use to anybody after it: kept, each part
            // ever handed out would leave one behind in the sandbox.
            match self.workshop.attached() {
                Some(sandbox) => sandbox.reset_session(self.workshop.session()).await,
                None => Ok(()),
            }
        };
        if let Err(error) = left {
            tracing::warn!(%error, "the sandbox could not be left as it should be");
        }
        // A command of the person's own is on record without a title.
        let nothing_was_said = self.untitled && self.messages.is_empty();
        let Self { agent, id, memory, _lease: lease, .. } = self;
        let store = &agent.parts.store;
        let ended = if nothing_was_said {
            // Somebody looked in and left: there is nothing to go on with.
            store.delete(&id).await
        } else {
            store.end(&id, reason.word()).await
        };
        // All is stored: whoever wants to go on with it need not wait for the memory.
        drop(lease);
        memory.close((store, &id)).await;
        ended
    }
}
