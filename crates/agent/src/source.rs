//! Tools that come and go while the program runs.

use std::sync::Arc;

use async_trait::async_trait;

use crate::tool::Tool;

/// Somebody who has tools, though perhaps not yet, or not any more: a server
/// that is still being asked, or one that went away and came back.
///
/// A conversation looks at its sources when a turn begins, never during one: a
/// model that was told of a tool keeps it until its turn has ended.
#[async_trait]
pub trait ToolSource: Send + Sync {
    /// Waits until the tools are known, but no longer than a turn should be kept
    /// from beginning.
    async fn settle(&self);

    /// Returns a number that changes whenever the tools have.
    fn version(&self) -> u64;

    /// Returns the tools there are now.
    fn tools(&self) -> Vec<Arc<dyn Tool>>;

    /// Reports whether a tool or a toolset of this name may be its, now or later:
    /// nobody is told then that there is none.
    fn may_offer(&self, name: &str) -> bool {
        let _ = name;
        false
    }

    /// Takes what a person should be told about the source; each thing once.
    fn take_news(&self) -> Vec<String>;
}
