//! What a person may want to know of a conversation.

use vestal_conversations::{Error, ModelTotals, Title};

use super::Conversation;
use crate::notebook::{Notebook, Todo};

/// How full the model's context is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContextUsed {
    /// Tokens that the next request takes, as far as that is known.
    pub tokens: u64,
    /// Tokens that the model can hold, if anybody has said.
    pub window: Option<u64>,
}

impl Conversation {
    /// Gives it a title that no other conversation has, and returns it as it became.
    pub async fn set_title(&mut self, title: &str) -> Result<String, Error> {
        let title = Title::Given(title.to_owned());
        let title = self.agent.parts.store.set_title(&self.id, &title).await?;
        // What is said first is not to change it again.
        self.untitled = false;
        Ok(title)
    }

    /// Tells the model something that a person did beside the conversation, as
    /// to go back to an earlier state of the sandbox. It reads that with what is
    /// said next.
    pub async fn remark(&mut self, words: &str) -> Result<(), Error> {
        self.note(&format!("[{words}]")).await
    }

    /// Returns its title, if it has one.
    pub async fn title(&self) -> Result<Option<String>, Error> {
        Ok(self.agent.parts.store.get(&self.id).await?.title)
    }

    /// Returns how full the model's context is.
    pub fn context_used(&self) -> ContextUsed {
        let window = self.chat.context_length().tokens();
        ContextUsed { tokens: self.request_tokens(), window }
    }

    /// Returns what each model took over the whole conversation, whoever held
    /// it; what was taken back included, what children took not: see
    /// [`Agent::usage`](crate::Agent::usage).
    pub async fn usage(&self) -> Result<Vec<ModelTotals>, Error> {
        self.agent.parts.store.usage(Some(&self.id)).await
    }

    /// Returns what the model has put on its list.
    pub fn todos(&self) -> Vec<Todo> {
        self.notebook.read().todos
    }

    /// Returns what it remembers beside its messages: the model's list, and the
    /// jobs it wants to hear of.
    pub fn notebook(&self) -> &Notebook {
        &self.notebook
    }
}
