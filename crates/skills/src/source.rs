//! Skills as a conversation looks at them when a turn begins.

use std::sync::Arc;

use async_trait::async_trait;
use vestal_agent::{Tool, ToolSource};

use crate::skills::Skills;

/// What is wrong with a skill is told in the conversation, once, and each turn
/// has the variables that skills ask for when it begins. The tools are not from
/// here: they are always there, see [`Skills::add_to`].
#[async_trait]
impl ToolSource for Skills {
    async fn settle(&self) {}

    fn version(&self) -> u64 {
        0
    }

    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        Vec::new()
    }

    fn take_news(&self) -> Vec<String> {
        self.equip_again();
        Self::take_news(self)
    }
}
