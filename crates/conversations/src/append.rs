//! Adding messages.

use serde::Serialize;
use sqlx::Row as _;
use vestal_model::Message;

use crate::error::Error;
use crate::id::ConversationId;
use crate::message::{Kind, NewMessage, Seq};
use crate::store::Store;
use crate::write::Write;
use crate::{Result, row, search, title, usage};

/// Characters a list shows of how a conversation began.
const PREVIEW: usize = 200;

impl Store {
    /// Adds messages to the end of a conversation, all or none, and returns
    /// their numbers. Once it returns they are stored. A conversation that had
    /// ended is in use again.
    pub async fn append(&self, id: &ConversationId, messages: &[NewMessage]) -> Result<Vec<Seq>> {
        if messages.is_empty() {
            return Ok(Vec::new());
        }
        let prepared = messages.iter().map(Prepared::new).collect::<Result<Vec<_>>>()?;
        let mut write = self.write().await?;
        let at = reserve(&mut write, id, &prepared).await?;
        let mut numbers = Vec::with_capacity(prepared.len());
        for (seq, message) in (at.first..).zip(&prepared) {
            insert(&mut write, &at, seq, seq, message).await?;
            numbers.push(Seq(seq));
        }
        write.commit().await?;
        Ok(numbers)
    }
}

/// A message with all that needs no database.
pub(crate) struct Prepared<'m> {
    new: &'m NewMessage,
    kind: Kind,
    body: String,
    usage: Option<String>,
    cost: Option<String>,
    words: String,
}

impl<'m> Prepared<'m> {
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

    /// Makes one that stands for others.
    pub(crate) fn summary(new: &'m NewMessage) -> Result<Self> {
        Ok(Self { kind: Kind::Summary, ..Self::new(new)? })
    }

    fn role(&self) -> &'static str {
        match self.new.message {
            Message::User(_) => "user",
            Message::Assistant(_) => "assistant",
            Message::Tool(_) => "tool",
        }
    }

    fn calls(&self) -> i64 {
        match &self.new.message {
            Message::Assistant(message) => i64::try_from(message.calls.len()).unwrap_or(i64::MAX),
            Message::User(_) | Message::Tool(_) => 0,
        }
    }

    fn preview(&self) -> Option<String> {
        match (&self.new.message, self.kind) {
            (Message::User(message), Kind::Said) => {
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

/// Where messages go.
pub(crate) struct Reserved {
    key: i64,
    /// The number of the first of them.
    pub(crate) first: i64,
    provider: String,
    model: String,
}

/// Takes numbers for messages, and counts them.
pub(crate) async fn reserve(
    write: &mut Write<'_>,
    id: &ConversationId,
    messages: &[Prepared<'_>],
) -> Result<Reserved> {
    let taken = i64::try_from(messages.len()).unwrap_or(i64::MAX);
    let counted = messages.iter().filter(|message| message.kind != Kind::Summary);
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
    .bind(messages.iter().map(Prepared::calls).sum::<i64>())
    .bind(row::now())
    .bind(messages.iter().find_map(Prepared::preview).unwrap_or_default())
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
    read().map_err(|error| write.explain(error))
}

/// Stores a message, makes it searchable and counts what it took.
pub(crate) async fn insert(
    write: &mut Write<'_>,
    at: &Reserved,
    seq: i64,
    place: i64,
    message: &Prepared<'_>,
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
