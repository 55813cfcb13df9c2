//! The mode of a conversation: kept in the store, and told to the model.

use async_recursion::async_recursion as boxed;
use vestal_conversations::Error;

use super::Conversation;
use crate::mode::{
    ConversationMode, MODE, ModeSwitch, PLAN_OFF, PLAN_ON, PLAN_ON_FOR_CHILD, StoredMode,
};

impl Conversation {
    /// Returns how it works.
    pub fn mode(&self) -> ConversationMode {
        self.mode.get()
    }

    /// Returns what switches the mode, also while a turn runs.
    pub fn mode_switch(&self) -> ModeSwitch {
        self.mode.clone()
    }

    /// Switches to a mode, in this conversation only and also when it is resumed. The model is
    /// told with the next message.
    #[boxed]
    pub async fn set_mode(&mut self, mode: ConversationMode) -> Result<(), Error> {
        self.mode.set(mode);
        self.choose_tools();
        self.store_mode(self.stored_mode.told).await
    }

    /// Tells the model of the mode, if it was switched since it was told last.
    pub(crate) async fn tell_mode(&mut self) -> Result<(), Error> {
        let mode = self.mode.get();
        if mode != self.stored_mode.told {
            let words = match mode {
                ConversationMode::Plan if self.depth > 0 => PLAN_ON_FOR_CHILD,
                ConversationMode::Plan => PLAN_ON,
                ConversationMode::Work => PLAN_OFF,
            };
            // First: told twice is better than not at all.
            self.append_note(&format!("[{words}]")).await?;
        }
        if self.stored_mode.mode != mode {
            self.choose_tools();
        }
        self.store_mode(mode).await
    }

    /// Stores the mode after calls, of which one may have switched it: its result told the model.
    pub(crate) async fn keep_mode(&mut self) -> Result<(), Error> {
        let mode = self.mode.get();
        if self.stored_mode.mode == mode {
            return Ok(());
        }
        let told = if self.approved_plan() { mode } else { self.stored_mode.told };
        self.store_mode(told).await
    }

    /// Reports whether the last results of tools have the approval of a plan among them.
    fn approved_plan(&self) -> bool {
        let results = self.messages.iter().rev().map_while(|message| match message {
            vestal_model::Message::Tool(result) => Some(result),
            vestal_model::Message::User(_) | vestal_model::Message::Assistant(_) => None,
        });
        results.into_iter().any(|result| {
            result.name == crate::tools::PRESENT_PLAN && result.content.contains("\"approved\"")
        })
    }

    async fn store_mode(&mut self, told: ConversationMode) -> Result<(), Error> {
        let stored = StoredMode { mode: self.mode.get(), told };
        if stored == self.stored_mode {
            return Ok(());
        }
        let value = serde_json::json!(stored);
        self.agent.parts.store.set_state(&self.id, MODE, Some(&value)).await?;
        self.stored_mode = stored;
        Ok(())
    }
}
