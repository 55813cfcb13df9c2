//! Taking over conversations that were held in another program.
//!
//! A conversation is created first, then filled in batches, each one transaction with a record of how far it
//! is. So one that was interrupted is continued by whoever comes next, and one that was continued here is
//! known by its last number.

use async_recursion::async_recursion as boxed;
use jiff::Timestamp;
use serde_json::Value;

use crate::conversation::{ConversationEnd, ConversationId, New};
use crate::history::{EncodedMessage, insert_message, reserve};
use crate::lifecycle::{insert_conversation, put_state};
use crate::message::{NewMessage, Seq};
use crate::store::ConversationStore;
use crate::{Result, row};

/// A message of another program.
#[derive(Debug, Clone, PartialEq)]
pub struct ImportedMessage {
    /// Its content.
    pub message: NewMessage,
    /// When it was sent.
    pub at: Timestamp,
    /// Whether it still counts there.
    pub standing: ImportedStanding,
}

/// Whether an imported message is part of the conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImportedStanding {
    /// The model sees it.
    Active,
    /// The message of this number, and others behind it, replaced it.
    Compacted(Seq),
    /// It was undone.
    Undone,
}

impl ConversationStore {
    /// Creates a conversation that began earlier, without messages.
    #[boxed]
    pub async fn import(&self, new: &New, started_at: Timestamp) -> Result<ConversationId> {
        let mut write = self.write().await?;
        let created = insert_conversation(&mut write, new).await?;
        sqlx::query("UPDATE conversations SET started_at = ?1, updated_at = ?1 WHERE key = ?2")
            .bind(started_at.as_microsecond())
            .bind(created.key)
            .execute(write.on())
            .await
            .map_err(|error| write.explain(error))?;
        write.commit().await?;
        Ok(created.id)
    }

    /// Appends messages with the times they have, and sets an entry of the state, all in one
    /// transaction. Returns the number of the last message.
    #[boxed]
    pub async fn import_messages(
        &self,
        id: &ConversationId,
        messages: &[ImportedMessage],
        (name, value): (&str, &Value),
    ) -> Result<Seq> {
        let new: Vec<_> = messages.iter().map(|own| EncodedMessage::new(&own.message)).collect();
        let new = new.into_iter().collect::<Result<Vec<_>>>()?;
        let mut write = self.write().await?;
        let key = row::key(&mut write, id).await?;
        let updated: i64 = sqlx::query_scalar("SELECT updated_at FROM conversations WHERE key = ?")
            .bind(key)
            .fetch_one(write.on())
            .await
            .map_err(|error| write.explain(error))?;
        let at = reserve(&mut write, id, &new).await?;
        let (mut undone, mut undone_calls) = (0_i64, 0_i64);
        for ((seq, own), encoded) in (at.first..).zip(messages).zip(&new) {
            insert_message(&mut write, &at, seq, seq, encoded).await?;
            let (is_undone, archived_by) = match own.standing {
                ImportedStanding::Active => (false, None),
                ImportedStanding::Compacted(by) => (false, Some(by.0)),
                ImportedStanding::Undone => (true, None),
            };
            undone += i64::from(is_undone);
            undone_calls += if is_undone { encoded.calls() } else { 0 };
            sqlx::query(
                "UPDATE messages SET at = ?, undone = ?, archived_by = ? \
                 WHERE conversation = ? AND place = ? AND seq = ?",
            )
            .bind(own.at.as_microsecond())
            .bind(is_undone)
            .bind(archived_by)
            .bind(key)
            .bind(seq)
            .bind(seq)
            .execute(write.on())
            .await
            .map_err(|error| write.explain(error))?;
        }
        let last_at = messages.iter().map(|own| own.at.as_microsecond()).max().unwrap_or(updated);
        // It was last used when its last message was sent, not now.
        sqlx::query(
            "UPDATE conversations SET messages = messages - ?1, tool_calls = tool_calls - ?2, \
             updated_at = ?3 WHERE key = ?4",
        )
        .bind(undone)
        .bind(undone_calls)
        .bind(updated.max(last_at))
        .bind(key)
        .execute(write.on())
        .await
        .map_err(|error| write.explain(error))?;
        put_state(&mut write, key, name, Some(value)).await?;
        write.commit().await?;
        Ok(Seq(at.first + i64::try_from(messages.len()).unwrap_or(0) - 1))
    }

    /// Completes an imported conversation: records its end, and sets an entry of the state, in one
    /// transaction.
    #[boxed]
    pub async fn complete_import(
        &self,
        id: &ConversationId,
        ended: Option<&ConversationEnd>,
        (name, value): (&str, &Value),
    ) -> Result<()> {
        let mut write = self.write().await?;
        let key = row::key(&mut write, id).await?;
        sqlx::query("UPDATE conversations SET ended_at = ?, end_reason = ? WHERE key = ?")
            .bind(ended.map(|end| end.at.as_microsecond()))
            .bind(ended.map(|end| end.reason.as_str()))
            .bind(key)
            .execute(write.on())
            .await
            .map_err(|error| write.explain(error))?;
        put_state(&mut write, key, name, Some(value)).await?;
        Ok(write.commit().await?)
    }

    /// Returns the number of the last message of a conversation, undone or not; 0 where there is none.
    #[boxed]
    pub async fn last_number(&self, id: &ConversationId) -> Result<Seq> {
        let mut reader = self.reader().await?;
        let next: Option<i64> =
            sqlx::query_scalar("SELECT next_seq FROM conversations WHERE id = ?")
                .bind(id.as_str())
                .fetch_optional(&mut *reader)
                .await
                .map_err(|error| self.explain(error))?;
        next.map(|next| Seq(next - 1)).ok_or_else(|| row::not_found(id))
    }
}
