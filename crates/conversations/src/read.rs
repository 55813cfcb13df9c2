//! Reading a conversation.

use sqlx::Row as _;

use crate::conversation::Conversation;
use crate::id::ConversationId;
use crate::message::{Seq, Standing, Stored};
use crate::store::Store;
use crate::{Result, row};

/// The numbers that messages can have.
const EVERY: (Seq, Seq) = (Seq(i64::MIN), Seq(i64::MAX));

impl Store {
    /// Returns a conversation without its messages.
    pub async fn get(&self, id: &ConversationId) -> Result<Conversation> {
        let mut reader = self.reader().await?;
        let found = sqlx::query(concat!(
            "SELECT ",
            row::conversation_columns!(),
            " FROM conversations c LEFT JOIN conversations p ON p.key = c.parent WHERE c.id = ?"
        ))
        .bind(id.as_str())
        .fetch_optional(&mut *reader)
        .await
        .map_err(|error| self.explain(error))?
        .ok_or_else(|| row::not_found(id))?;
        row::conversation(&found).map_err(|error| self.explain(error))
    }

    /// Returns what the model is told before the conversation.
    pub async fn system_prompt(&self, id: &ConversationId) -> Result<String> {
        let mut reader = self.reader().await?;
        sqlx::query_scalar(
            "SELECT p.text FROM conversations c JOIN prompts p ON p.conversation = c.key \
             WHERE c.id = ?",
        )
        .bind(id.as_str())
        .fetch_optional(&mut *reader)
        .await
        .map_err(|error| self.explain(error))?
        .ok_or_else(|| row::not_found(id))
    }

    /// Returns what the model sees: the messages that were neither taken back
    /// nor replaced by a summary, in order.
    pub async fn messages(&self, id: &ConversationId) -> Result<Vec<Stored>> {
        self.read(id, Some(Standing::Active), EVERY).await
    }

    /// Returns every message there ever was, in order; each tells whether it
    /// still counts.
    pub async fn history(&self, id: &ConversationId) -> Result<Vec<Stored>> {
        self.read(id, None, EVERY).await
    }

    /// Returns every message there ever was with a number from the first to the
    /// last of these, in order; each tells whether it still counts.
    pub async fn history_between(
        &self,
        id: &ConversationId,
        first: Seq,
        last: Seq,
    ) -> Result<Vec<Stored>> {
        self.read(id, None, (first, last)).await
    }

    async fn read(
        &self,
        id: &ConversationId,
        only: Option<Standing>,
        (first, last): (Seq, Seq),
    ) -> Result<Vec<Stored>> {
        let mut reader = self.reader().await?;
        // One statement, so that no other process's write is seen by half; a
        // conversation without messages is a row without a number.
        let rows = sqlx::query(
            "SELECT m.seq, m.kind, m.at, m.undone, m.archived_by, m.provider, m.model, m.usage, \
             m.cost, m.body FROM conversations c LEFT JOIN messages m \
             ON m.conversation = c.key AND (NOT ?2 OR (m.undone = 0 AND m.archived_by IS NULL)) \
             AND m.seq BETWEEN ?3 AND ?4 WHERE c.id = ?1 ORDER BY m.place, m.seq",
        )
        .bind(id.as_str())
        .bind(only.is_some())
        .bind(first.0)
        .bind(last.0)
        .fetch_all(&mut *reader)
        .await
        .map_err(|error| self.explain(error))?;
        drop(reader);
        if rows.is_empty() {
            return Err(row::not_found(id));
        }
        let mut messages = Vec::with_capacity(rows.len());
        for row in &rows {
            let seq: Option<i64> = row.try_get("seq").map_err(|error| self.explain(error))?;
            if seq.is_some() {
                messages.push(row::stored(self, id, row)?);
            }
        }
        Ok(messages)
    }
}
