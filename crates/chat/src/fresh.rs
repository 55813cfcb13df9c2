//! Settings that somebody changed while the chat runs.

use std::sync::Arc;

use vestal_agent::Conversation;
use vestal_agent::settings::endpoints;
use vestal_config::Settings;
use vestal_model::Endpoint;

use crate::chat::Chat;

impl Chat {
    /// Reads `config.yaml` and `.env` again.
    pub(crate) fn reread_settings(&mut self) {
        self.settings = Arc::new(self.settings.reload());
    }
}

/// Returns who is to be asked in a conversation in place of who is: the same
/// model at the same provider, where its address or its key is another by now.
/// Whoever puts a wrong key right need not begin the chat anew.
pub(crate) fn chain(settings: &Settings, conversation: &Conversation) -> Option<Vec<Endpoint>> {
    let asked = conversation.model()?;
    let chain = endpoints(settings, Some(&format!("{}:{}", asked.name, asked.model))).ok()?;
    let now = chain.first()?;
    let is_same_model = now.name == asked.name && now.model == asked.model;
    let is_same = now.base_url == asked.base_url && now.key == asked.key && now.api == asked.api;
    (is_same_model && !is_same).then_some(chain)
}
