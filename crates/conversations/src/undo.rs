//! Taking turns back.

use sqlx::Row as _;

use crate::id::ConversationId;
use crate::store::Store;
use crate::{Result, row};

/// What was taken back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Undone {
    /// Turns.
    pub turns: u64,
    /// Messages in them.
    pub messages: u64,
}

impl Store {
    /// Takes the last turns back, for good and for every process. A turn is a
    /// person's message and all that follows it, up to the next. Where a
    /// summary stands for the beginning of a turn, that turn and those before
    /// it stay. What they took is still counted.
    pub async fn undo(&self, id: &ConversationId, turns: u32) -> Result<Undone> {
        let mut write = self.write().await?;
        let key = row::key(&mut write, id).await?;
        let starts = sqlx::query(
            "SELECT place, seq FROM messages WHERE conversation = ? AND undone = 0 \
             AND archived_by IS NULL AND kind = 'said' AND role = 'user' \
             ORDER BY place DESC, seq DESC LIMIT ?",
        )
        .bind(key)
        .bind(i64::from(turns))
        .fetch_all(write.on())
        .await
        .map_err(|error| write.explain(error))?;
        let Some(first) = starts.last() else { return Ok(Undone::default()) };
        let (place, seq): (i64, i64) = (|| Ok((first.try_get(0)?, first.try_get(1)?)))()
            .map_err(|error| write.explain(error))?;
        let gone = sqlx::query(
            "UPDATE messages SET undone = 1 WHERE conversation = ? AND undone = 0 \
             AND archived_by IS NULL AND (place, seq) >= (?, ?) RETURNING calls",
        )
        .bind(key)
        .bind(place)
        .bind(seq)
        .fetch_all(write.on())
        .await
        .map_err(|error| write.explain(error))?;
        let mut calls = 0_i64;
        for row in &gone {
            calls += row.try_get::<i64, _>(0).map_err(|error| write.explain(error))?;
        }
        // Turns go from the end: where none is left, what the conversation began
        // with is taken back as well, and the next words are how it begins.
        sqlx::query(
            "UPDATE conversations SET messages = messages - ?1, tool_calls = tool_calls - ?2, \
             updated_at = max(updated_at, ?3), preview = CASE WHEN EXISTS (SELECT 1 FROM messages \
             WHERE conversation = ?4 AND undone = 0 AND kind = 'said' AND role = 'user') \
             THEN preview ELSE '' END WHERE key = ?4",
        )
        .bind(i64::try_from(gone.len()).unwrap_or(i64::MAX))
        .bind(calls)
        .bind(row::now())
        .bind(key)
        .execute(write.on())
        .await
        .map_err(|error| write.explain(error))?;
        write.commit().await?;
        Ok(Undone { turns: starts.len() as u64, messages: gone.len() as u64 })
    }
}
