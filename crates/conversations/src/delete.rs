//! Forgetting a conversation.

use crate::id::ConversationId;
use crate::store::Store;
use crate::{Result, row};

impl Store {
    /// Deletes a conversation with its messages, state and usage. Those that
    /// come from it stay, and have no parent any more.
    ///
    /// Whoever deletes should hold the conversation's [lease](Store::lease).
    pub async fn delete(&self, id: &ConversationId) -> Result<()> {
        let mut write = self.write().await?;
        let key = row::key(&mut write, id).await?;
        sqlx::query("DELETE FROM conversations WHERE key = ?")
            .bind(key)
            .execute(write.on())
            .await
            .map_err(|error| write.explain(error))?;
        write.commit().await
    }
}
