//! Small things a conversation remembers beside its messages.

use serde_json::Value;

use crate::error::Error;
use crate::id::ConversationId;
use crate::store::Store;
use crate::write::Write;
use crate::{Result, row};

impl Store {
    /// Returns what a conversation remembers under a name.
    pub async fn state(&self, id: &ConversationId, name: &str) -> Result<Option<Value>> {
        let mut reader = self.reader().await?;
        let found: Option<Option<String>> = sqlx::query_scalar(
            "SELECT s.value FROM conversations c LEFT JOIN state s \
             ON s.conversation = c.key AND s.name = ? WHERE c.id = ?",
        )
        .bind(name)
        .bind(id.as_str())
        .fetch_optional(&mut *reader)
        .await
        .map_err(|error| self.explain(error))?;
        let Some(text) = found.ok_or_else(|| row::not_found(id))? else { return Ok(None) };
        let value = serde_json::from_str(&text);
        value.map(Some).map_err(|source| Error::Unreadable {
            id: id.clone(),
            what: format!("the state {name:?}"),
            source,
        })
    }

    /// Lets a conversation remember something under a name; `None` forgets it.
    pub async fn set_state(
        &self,
        id: &ConversationId,
        name: &str,
        value: Option<&Value>,
    ) -> Result<()> {
        let mut write = self.write().await?;
        let key = row::key(&mut write, id).await?;
        put(&mut write, key, name, value).await?;
        write.commit().await
    }
}

/// Has the conversation of a row remember something, or forget it.
pub(crate) async fn put(
    write: &mut Write<'_>,
    key: i64,
    name: &str,
    value: Option<&Value>,
) -> Result<()> {
    let query = match value {
        Some(value) => sqlx::query(
            "INSERT INTO state (conversation, name, value) VALUES (?1, ?2, ?3) \
             ON CONFLICT DO UPDATE SET value = ?3",
        )
        .bind(key)
        .bind(name)
        .bind(value.to_string()),
        None => sqlx::query("DELETE FROM state WHERE conversation = ? AND name = ?")
            .bind(key)
            .bind(name),
    };
    query.execute(write.on()).await.map_err(|error| write.explain(error))?;
    Ok(())
}

/// Has the conversation of a row remember all that another does.
pub(crate) async fn copy(write: &mut Write<'_>, from: i64, to: i64) -> Result<()> {
    let query = sqlx::query(
        "INSERT OR REPLACE INTO state (conversation, name, value) \
         SELECT ?2, name, value FROM state WHERE conversation = ?1",
    );
    let done = query.bind(from).bind(to).execute(write.on()).await;
    done.map_err(|error| write.explain(error))?;
    Ok(())
}
