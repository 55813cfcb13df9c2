//! Letting a summary stand for what came before.

use crate::append::{Prepared, insert, reserve};
use crate::error::Error;
use crate::id::ConversationId;
use crate::message::{NewMessage, Seq};
use crate::store::Store;
use crate::write::Write;
use crate::{Result, row};

impl Store {
    /// Puts a summary in place of all messages up to and with `upto`, which the
    /// model must still see. They stay in the history and are found by a
    /// search; what follows them, also what other processes add meanwhile,
    /// follows the summary. An earlier summary is taken as a whole. Returns the
    /// new one's numbers.
    pub async fn compact(
        &self,
        id: &ConversationId,
        upto: Seq,
        summary: &[NewMessage],
    ) -> Result<Vec<Seq>> {
        if summary.is_empty() {
            return Err(Error::NoSummary);
        }
        let prepared = summary.iter().map(Prepared::summary).collect::<Result<Vec<_>>>()?;
        let mut write = self.write().await?;
        let key = row::key(&mut write, id).await?;
        let place = place(&mut write, id, key, upto, Wanted::Active).await?;
        let at = reserve(&mut write, id, &prepared).await?;
        // Of what is seen, only the messages of one summary share a place.
        sqlx::query(
            "UPDATE messages SET archived_by = ?3 WHERE conversation = ?1 AND undone = 0 \
             AND archived_by IS NULL AND place <= ?2",
        )
        .bind(key)
        .bind(place)
        .bind(at.first)
        .execute(write.on())
        .await
        .map_err(|error| write.explain(error))?;
        let mut numbers = Vec::with_capacity(prepared.len());
        for (seq, message) in (at.first..).zip(&prepared) {
            insert(&mut write, &at, seq, place, message).await?;
            numbers.push(Seq(seq));
        }
        write.commit().await?;
        Ok(numbers)
    }
}

/// Which messages may be meant by a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Those the model sees.
    Active,
    /// And those a summary stands for.
    NotUndone,
}

/// Returns the place of a message.
pub(crate) async fn place(
    write: &mut Write<'_>,
    id: &ConversationId,
    key: i64,
    seq: Seq,
    wanted: Wanted,
) -> Result<i64> {
    let found: Option<i64> = sqlx::query_scalar(
        "SELECT place FROM messages WHERE conversation = ? AND seq = ? AND undone = 0 \
         AND (? OR archived_by IS NULL)",
    )
    .bind(key)
    .bind(seq.0)
    .bind(wanted == Wanted::NotUndone)
    .fetch_optional(write.on())
    .await
    .map_err(|error| write.explain(error))?;
    found.ok_or_else(|| Error::NoMessage { id: id.clone(), seq })
}
