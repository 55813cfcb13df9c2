//! Changing the messages of a conversation: append, compact, undo.

use async_recursion::async_recursion as boxed;
use serde::Serialize;
use sqlx::Row as _;
use vestal_model::Message;

use crate::conversation::ConversationId;
use crate::error::Error;
use crate::message::{MessageKind, NewMessage, Seq};
use crate::store::{ConversationStore, WriteTransaction};
use crate::{Result, row, search, title, usage};

/// The length of a preview, in characters.
const PREVIEW: usize = 200;

impl ConversationStore {
    /// Appends messages, all or none, and returns their numbers. They are stored when this returns. A
    /// conversation that had ended is open again.
    #[boxed]
    pub async fn append(&self, id: &ConversationId, messages: &[NewMessage]) -> Result<Vec<Seq>> {
        if messages.is_empty() {
            return Ok(Vec::new());
        }
        let prepared = messages.iter().map(EncodedMessage::new).collect::<Result<Vec<_>>>()?;
        if let [only] = &prepared[..]
            && only.new.usage.is_none()
        {
            return Ok(vec![self.append_one(id, only).await?]);
        }
        let mut write = self.write().await?;
        let at = reserve(&mut write, id, &prepared).await?;
        let mut numbers = Vec::with_capacity(prepared.len());
        for (seq, message) in (at.first..).zip(&prepared) {
            insert_message(&mut write, &at, seq, seq, message).await?;
            numbers.push(Seq(seq));
        }
        write.commit().await?;
        Ok(numbers)
    }

    /// Appends a message that nothing was spent on, as what a person says, in one round trip.
    async fn append_one(&self, id: &ConversationId, message: &EncodedMessage<'_>) -> Result<Seq> {
        let (now, new) = (row::now(), message.new);
        let query = sqlx::query(
            "UPDATE conversations SET next_seq = next_seq + 1, messages = messages + 1, \
             tool_calls = tool_calls + ?, updated_at = max(updated_at, ?), ended_at = NULL, \
             end_reason = NULL, preview = CASE preview WHEN '' THEN ? ELSE preview END \
             WHERE id = ? RETURNING next_seq - 1; \
             INSERT INTO messages \
             (conversation, seq, place, kind, role, at, calls, provider, model, cost, body) \
             SELECT key, next_seq - 1, next_seq - 1, ?, ?, ?, ?, ?, ?, ?, ? \
             FROM conversations WHERE id = ?; \
             INSERT INTO words (rowid, text) SELECT last_insert_rowid(), word.text \
             FROM (SELECT ? AS text) word WHERE changes() > 0 AND word.text <> ''",
        )
        .bind(message.calls())
        .bind(now)
        .bind(message.preview().unwrap_or_default())
        .bind(id.as_str())
        .bind(message.kind.name())
        .bind(message.role())
        .bind(now)
        .bind(message.calls())
        .bind(new.provider.as_deref())
        .bind(new.model.as_deref())
        .bind(message.cost.as_deref())
        .bind(message.body.as_str())
        .bind(id.as_str())
        .bind(message.words.as_str());
        let rows = self.write_at_once(query).await?;
        let seq = rows.first().map(|row| row.try_get(0)).transpose();
        let seq = seq.map_err(|error| self.explain(error))?;
        seq.map(Seq).ok_or_else(|| row::not_found(id))
    }

    /// Replaces all messages up to and including `upto`, which must be active, by a summary. They
    /// stay in the history and are found by search. Later messages, also those that other processes
    /// append meanwhile, follow the summary. An earlier summary is replaced as a whole. Returns the
    /// numbers of the new one.
    #[boxed]
    pub async fn compact(
        &self,
        id: &ConversationId,
        upto: Seq,
        summary: &[NewMessage],
    ) -> Result<Vec<Seq>> {
        if summary.is_empty() {
            return Err(Error::NoSummary);
        }
        let prepared = summary.iter().map(EncodedMessage::summary).collect::<Result<Vec<_>>>()?;
        let mut write = self.write().await?;
        let key = row::key(&mut write, id).await?;
        let place = place(&mut write, id, key, upto, NumberScope::Active).await?;
        let at = reserve(&mut write, id, &prepared).await?;
        // Among active messages, only those of one summary share a position.
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
            insert_message(&mut write, &at, seq, place, message).await?;
            numbers.push(Seq(seq));
        }
        write.commit().await?;
        Ok(numbers)
    }

    /// Undoes the last turns, permanently and for every process. A turn is a message of a person and
    /// all that follows it, up to the next. A turn whose beginning was compacted cannot be undone,
    /// nor those before it. Usage stays counted.
    #[boxed]
    pub async fn undo(&self, id: &ConversationId, turns: u32) -> Result<UndoneMessages> {
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
        let Some(first) = starts.last() else { return Ok(UndoneMessages::default()) };
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
        // If no turn is left, the preview is cleared; the next message sets it again.
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
        Ok(UndoneMessages { turns: starts.len() as u64, messages: gone.len() as u64 })
    }
}

/// A message, encoded before the transaction begins.
pub(crate) struct EncodedMessage<'m> {
    new: &'m NewMessage,
    kind: MessageKind,
    body: String,
    usage: Option<String>,
    cost: Option<String>,
    words: String,
}

impl<'m> EncodedMessage<'m> {
    pub(crate) fn new(new: &'m NewMessage) -> Result<Self> {
        Ok(Self {
            new,
            kind: new.kind,
            body: json(&new.message)?,
            usage: new.usage.as_ref().map(json).transpose()?,
            cost: new.cost.as_ref().map(json).transpose()?,
            words: search::indexed(&new.message.text()),
        })
    }

    /// Encodes a summary.
    pub(crate) fn summary(new: &'m NewMessage) -> Result<Self> {
        Ok(Self { kind: MessageKind::Summary, ..Self::new(new)? })
    }

    fn role(&self) -> &'static str {
        match self.new.message {
            Message::User(_) => "user",
            Message::Assistant(_) => "assistant",
            Message::Tool(_) => "tool",
        }
    }

    pub(crate) fn calls(&self) -> i64 {
        match &self.new.message {
            Message::Assistant(message) => i64::try_from(message.calls.len()).unwrap_or(i64::MAX),
            Message::User(_) | Message::Tool(_) => 0,
        }
    }

    fn preview(&self) -> Option<String> {
        match (&self.new.message, self.kind) {
            (Message::User(message), MessageKind::Dialogue) => {
                // A long paste is not read to its end for its beginning.
                let beginning: String = message.text().chars().take(4 * PREVIEW).collect();
                Some(title::collapse(&beginning).chars().take(PREVIEW).collect())
            }
            _ => None,
        }
    }
}

fn json<T: Serialize>(value: &T) -> Result<String> {
    serde_json::to_string(value).map_err(Error::Unwritable)
}

/// Reserved numbers for messages.
pub(crate) struct Reserved {
    key: i64,
    /// The first number.
    pub(crate) first: i64,
    provider: String,
    model: String,
}

/// Reserves numbers for messages and counts them.
pub(crate) async fn reserve(
    write: &mut WriteTransaction<'_>,
    id: &ConversationId,
    messages: &[EncodedMessage<'_>],
) -> Result<Reserved> {
    let taken = i64::try_from(messages.len()).unwrap_or(i64::MAX);
    let counted = messages.iter().filter(|message| message.kind != MessageKind::Summary);
    let counted = i64::try_from(counted.count()).unwrap_or(i64::MAX);
    let row = sqlx::query(
        "UPDATE conversations SET next_seq = next_seq + ?2, messages = messages + ?3, \
         tool_calls = tool_calls + ?4, updated_at = max(updated_at, ?5), ended_at = NULL, \
         end_reason = NULL, preview = CASE preview WHEN '' THEN ?6 ELSE preview END \
         WHERE id = ?1 RETURNING key, next_seq, provider, model",
    )
    .bind(id.as_str())
    .bind(taken)
    .bind(counted)
    .bind(messages.iter().map(EncodedMessage::calls).sum::<i64>())
    .bind(row::now())
    .bind(messages.iter().find_map(EncodedMessage::preview).unwrap_or_default())
    .fetch_optional(write.on())
    .await
    .map_err(|error| write.explain(error))?
    .ok_or_else(|| row::not_found(id))?;
    let read = || -> sqlx::Result<Reserved> {
        Ok(Reserved {
            key: row.try_get("key")?,
            first: row.try_get::<i64, _>("next_seq")? - taken,
            provider: row.try_get("provider")?,
            model: row.try_get("model")?,
        })
    };
    read().map_err(|error| write.explain(error).into())
}

/// Stores a message, indexes its words and counts its usage.
pub(crate) async fn insert_message(
    write: &mut WriteTransaction<'_>,
    at: &Reserved,
    seq: i64,
    place: i64,
    message: &EncodedMessage<'_>,
) -> Result<()> {
    let new = message.new;
    let inserted = sqlx::query_scalar(
        "INSERT INTO messages \
         (conversation, seq, place, kind, role, at, calls, provider, model, usage, cost, body) \
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING key",
    )
    .bind(at.key)
    .bind(seq)
    .bind(place)
    .bind(message.kind.name())
    .bind(message.role())
    .bind(row::now())
    .bind(message.calls())
    .bind(new.provider.as_deref())
    .bind(new.model.as_deref())
    .bind(message.usage.as_deref())
    .bind(message.cost.as_deref())
    .bind(message.body.as_str())
    .fetch_one(write.on())
    .await;
    let key: i64 = inserted.map_err(|error| write.explain(error))?;
    if !message.words.is_empty() {
        sqlx::query("INSERT INTO words (rowid, text) VALUES (?, ?)")
            .bind(key)
            .bind(message.words.as_str())
            .execute(write.on())
            .await
            .map_err(|error| write.explain(error))?;
    }
    if let Some(spent) = new.usage {
        let provider = new.provider.as_deref().unwrap_or(&at.provider);
        let model = new.model.as_deref().unwrap_or(&at.model);
        usage::count(write, at.key, provider, model, &spent, new.cost).await?;
    }
    Ok(())
}

/// Which messages a number may refer to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NumberScope {
    /// Those the model sees.
    Active,
    /// Also compacted ones.
    NotUndone,
}

/// Returns the position of a message in the order of the conversation.
pub(crate) async fn place(
    write: &mut WriteTransaction<'_>,
    id: &ConversationId,
    key: i64,
    seq: Seq,
    wanted: NumberScope,
) -> Result<i64> {
    let found: Option<i64> = sqlx::query_scalar(
        "SELECT place FROM messages WHERE conversation = ? AND seq = ? AND undone = 0 \
         AND (? OR archived_by IS NULL)",
    )
    .bind(key)
    .bind(seq.0)
    .bind(wanted == NumberScope::NotUndone)
    .fetch_optional(write.on())
    .await
    .map_err(|error| write.explain(error))?;
    found.ok_or_else(|| Error::NoMessage { id: id.clone(), seq })
}

/// The result of [`ConversationStore::undo`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UndoneMessages {
    /// Number of turns undone.
    pub turns: u64,
    /// Number of messages in them.
    pub messages: u64,
}
