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
    /// of as the settings say. It can be resumed.
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
        self.agent.parts.store.end(&self.id, reason.word()).await
    }
}
