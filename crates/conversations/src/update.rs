//! Changing what a conversation is, other than by its messages.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use crate::id::ConversationId;
use crate::store::Store;
use crate::{Result, row};

impl Store {
    /// Changes what the model is told before the conversation.
    pub async fn set_system_prompt(&self, id: &ConversationId, text: &str) -> Result<()> {
        let mut write = self.write().await?;
        let key = row::key(&mut write, id).await?;
        let query = sqlx::query("UPDATE prompts SET text = ? WHERE conversation = ?");
        let done = query.bind(text).bind(key).execute(write.on()).await;
        done.map_err(|error| write.explain(error))?;
        write.commit().await
    }

    /// Changes which model is asked.
    pub async fn set_model(&self, id: &ConversationId, provider: &str, model: &str) -> Result<()> {
        let mut write = self.write().await?;
        let key = row::key(&mut write, id).await?;
        let query = sqlx::query("UPDATE conversations SET provider = ?, model = ? WHERE key = ?");
        let done = query.bind(provider).bind(model).bind(key).execute(write.on()).await;
        done.map_err(|error| write.explain(error))?;
        write.commit().await
    }

    /// Changes the directory of the host it is at home in.
    pub async fn set_cwd(&self, id: &ConversationId, cwd: &Path) -> Result<()> {
        let mut write = self.write().await?;
        let key = row::key(&mut write, id).await?;
        let query = sqlx::query("UPDATE conversations SET cwd = ? WHERE key = ?");
        let done = query.bind(cwd.as_os_str().as_bytes()).bind(key).execute(write.on()).await;
        done.map_err(|error| write.explain(error))?;
        write.commit().await
    }

    /// Marks a conversation as in use now, also one that had ended.
    pub async fn touch(&self, id: &ConversationId) -> Result<()> {
        let mut write = self.write().await?;
        let key = row::key(&mut write, id).await?;
        let query = sqlx::query(
            "UPDATE conversations SET updated_at = max(updated_at, ?), ended_at = NULL, \
             end_reason = NULL WHERE key = ?",
        );
        let done = query.bind(row::now()).bind(key).execute(write.on()).await;
        done.map_err(|error| write.explain(error))?;
        write.commit().await
    }

    /// Marks a conversation as ended. Whoever uses it again undoes that.
    pub async fn end(&self, id: &ConversationId, reason: &str) -> Result<()> {
        let mut write = self.write().await?;
        let key = row::key(&mut write, id).await?;
        let query = sqlx::query(
            "UPDATE conversations SET ended_at = ?1, end_reason = ?2, \
             updated_at = max(updated_at, ?1) WHERE key = ?3",
        );
        let done = query.bind(row::now()).bind(reason).bind(key).execute(write.on()).await;
        done.map_err(|error| write.explain(error))?;
        write.commit().await
    }
}
