//! Memory that lasts from conversation to conversation.

mod feed;

use std::time::Duration;

use async_trait::async_trait;
use vestal_conversations::ConversationId;
use vestal_model::Message;

pub(crate) use feed::MemoryFeed;

/// A memory. Nothing it does costs a turn its answer: it is waited
/// for no longer than its [`MemoryTimeouts`] says, what fails is reported once to the
/// person, and the conversation continues without it.
///
/// A panic counts as a failure only in a program that unwinds. With
/// `panic = "abort"`, as in this workspace's release profile, it ends the
/// program: return an error instead. What was said is stored by then.
///
/// A turn is reported in the background and in order, one thing of a conversation at
/// a time; several conversations are reported at once. Each is reported once at most,
/// and not at all if the process is killed or ends before its turn has come.
/// None of the functions may block the thread it is called on, because nothing
/// can end that.
#[async_trait]
pub trait Memory: Send + Sync {
    /// Returns its name, for people.
    fn name(&self) -> &str;

    /// Returns what a model should know when a conversation begins. It is frozen
    /// into the conversation's prompt, so that the provider's cache stays warm.
    async fn recall(&self) -> Recalled;

    /// Returns what is known about what was just said, put before the model with
    /// this one message and stored nowhere.
    async fn prefetch(&self, message: &str) -> Result<Option<String>, String> {
        let _ = message;
        Ok(None)
    }

    /// Reports whether it follows what happens in a conversation. One that
    /// does not costs nothing after [`Memory::recall`].
    fn listens(&self) -> bool {
        true
    }

    /// Hears of a turn that is complete, with everything that was said in it. It
    /// is not told later that one was taken back.
    async fn sync_turn(&self, turn: &CompletedTurn<'_>) -> Result<(), String> {
        let _ = turn;
        Ok(())
    }

    /// Hears of messages that a summary will stand for from now on.
    async fn before_compression(
        &self,
        conversation: &ConversationId,
        messages: &[Message],
    ) -> Result<(), String> {
        let _ = (conversation, messages);
        Ok(())
    }

    /// Hears that this process is done with a conversation.
    async fn conversation_ended(&self, conversation: &ConversationId) -> Result<(), String> {
        let _ = conversation;
        Ok(())
    }
}

/// What a model should know when a conversation begins.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recalled {
    /// A section of the prompt; none: nothing is known.
    pub words: Option<String>,
    /// What a person should be told: a file that cannot be read, …
    pub notices: Vec<String>,
}

/// A turn that ended with an answer.
#[derive(Debug, Clone, Copy)]
pub struct CompletedTurn<'a> {
    /// The conversation it belongs to.
    pub conversation: &'a ConversationId,
    /// What was said in it, from the person's words to the answer, as it is
    /// stored: secrets masked, and whole even where a summary stands for it.
    pub messages: &'a [Message],
}

/// How long a memory is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryTimeouts {
    /// For its notes when a conversation begins.
    pub recall: Duration,
    /// For what it knows about a message.
    pub prefetch: Duration,
    /// For it to process one notification. Nobody waits meanwhile, but
    /// the notifications after it.
    pub delivery: Duration,
    /// For it to take in the rest when a conversation is closed.
    pub closing: Duration,
    /// Characters of what it knows about a message.
    pub prefetch_chars: usize,
}

impl Default for MemoryTimeouts {
    fn default() -> Self {
        Self {
            recall: Duration::from_secs(2),
            prefetch: Duration::from_secs(2),
            delivery: Duration::from_mins(1),
            closing: Duration::from_secs(10),
            prefetch_chars: 8_000,
        }
    }
}
