//! Who answers.

use vestal_conversations::Error;
use vestal_model::{ContextLimit, Endpoint};

use super::Conversation;

impl Conversation {
    /// Has others asked from the next turn on, in this conversation only: the
    /// first of the chain, and where that fails the next. Whoever resumes the
    /// conversation goes on with the same model.
    pub async fn set_chain(&mut self, chain: Vec<Endpoint>) -> Result<(), Error> {
        if let Some(Endpoint { name, model, .. }) = chain.first() {
            self.agent.parts.store.set_model(&self.id, name, model).await?;
        }
        self.chat = self.agent.parts.models.chat(chain.clone());
        self.chain = chain;
        // Others count tokens differently, and hold more or less of them.
        self.counted = None;
        self.shown_of_results = None;
        self.without_optional_pictures = false;
        Ok(())
    }

    /// Returns the model that was chosen; none if none is configured.
    pub fn model(&self) -> Option<&Endpoint> {
        self.chain.first()
    }

    /// Returns the model that is asked next: the chosen one, or where that
    /// failed a moment ago the one that was asked in its place.
    pub fn endpoint(&self) -> Option<&Endpoint> {
        self.chat.endpoint()
    }

    /// Returns how much that one can hold.
    pub fn context_length(&self) -> ContextLimit {
        self.chat.context_length()
    }
}
