//! A stored message, and reading messages.

use std::fmt;

use async_recursion::async_recursion as boxed;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sqlx::Row as _;
use vestal_model::{Cost, Message, ModelAnswer, TokenUsage};

use crate::conversation::{ConversationId, ConversationRecord};
use crate::store::ConversationStore;
use crate::{Result, row};

/// The number of a message in its conversation, from 1, never reused. Numbers grow in the order of
/// messages; only a summary comes before messages of lower numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seq(pub i64);

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Why a message is there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageKind {
    /// Part of the dialogue. Such a message of a person begins a turn.
    #[default]
    #[serde(rename = "said")]
    Dialogue,
    /// Sent by a person while a turn ran; it belongs to that turn.
    Aside,
    /// Added by the program for the model; it begins no turn.
    Note,
    /// Replaces the messages before it.
    Summary,
}

impl MessageKind {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Dialogue => "said",
            Self::Aside => "aside",
            Self::Note => "note",
            Self::Summary => "summary",
        }
    }

    pub(crate) fn named(name: &str) -> Self {
        match name {
            "aside" => Self::Aside,
            "note" => Self::Note,
            "summary" => Self::Summary,
            _ => Self::Dialogue,
        }
    }
}

/// A message to be stored.
#[derive(Debug, Clone, PartialEq)]
pub struct NewMessage {
    /// Its content.
    pub message: Message,
    /// Why it is there.
    pub kind: MessageKind,
    /// The usage of the call that produced it; counted once, here.
    pub usage: Option<TokenUsage>,
    /// The cost of that call.
    pub cost: Option<Cost>,
    /// The provider asked, if not the conversation's.
    pub provider: Option<String>,
    /// The model asked, if not the conversation's.
    pub model: Option<String>,
}

impl NewMessage {
    /// Creates one of the dialogue.
    pub fn new(message: Message) -> Self {
        Self {
            message,
            kind: MessageKind::Dialogue,
            usage: None,
            cost: None,
            provider: None,
            model: None,
        }
    }

    /// Creates one that a person sent while a turn ran.
    pub fn aside(message: Message) -> Self {
        Self { kind: MessageKind::Aside, ..Self::new(message) }
    }

    /// Creates one of the program.
    pub fn note(message: Message) -> Self {
        Self { kind: MessageKind::Note, ..Self::new(message) }
    }
}

impl From<Message> for NewMessage {
    fn from(message: Message) -> Self {
        Self::new(message)
    }
}

/// The answer of a model, with its usage.
impl From<&ModelAnswer> for NewMessage {
    fn from(completion: &ModelAnswer) -> Self {
        Self {
            usage: Some(completion.usage),
            cost: Some(completion.cost),
            provider: Some(completion.provider.clone()),
            model: Some(completion.model.clone()),
            ..Self::new(Message::Assistant(completion.message.clone()))
        }
    }
}

/// Whether a message is part of the conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageStanding {
    /// The model sees it.
    Active,
    /// A summary replaces it; it is kept and found by search.
    Compacted,
    /// It was undone; it is kept, and shown only on request.
    Undone,
}

/// A stored message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stored {
    /// Its number.
    pub seq: Seq,
    /// Why it is there.
    pub kind: MessageKind,
    /// Whether it still counts.
    pub standing: MessageStanding,
    /// When it was stored.
    pub at: Timestamp,
    /// Its content.
    pub message: Message,
    /// The usage of the call that produced it.
    pub usage: Option<TokenUsage>,
    /// The cost of that call.
    pub cost: Option<Cost>,
    /// The provider asked, if recorded.
    pub provider: Option<String>,
    /// The model asked, if recorded.
    pub model: Option<String>,
}

/// The whole range of message numbers.
const EVERY: (Seq, Seq) = (Seq(i64::MIN), Seq(i64::MAX));

impl ConversationStore {
    /// Returns a conversation without its messages.
    #[boxed]
    pub async fn get(&self, id: &ConversationId) -> Result<ConversationRecord> {
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

    /// Returns the system prompt.
    #[boxed]
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

    /// Returns the messages that the model sees, in order: those neither undone nor compacted.
    #[boxed]
    pub async fn messages(&self, id: &ConversationId) -> Result<Vec<Stored>> {
        self.read(id, Some(MessageStanding::Active), EVERY).await
    }

    /// Returns all messages in order, also undone and compacted ones.
    #[boxed]
    pub async fn history(&self, id: &ConversationId) -> Result<Vec<Stored>> {
        self.read(id, None, EVERY).await
    }

    /// Returns all messages with numbers from `first` to `last` in order, also undone and compacted
    /// ones.
    #[boxed]
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
        only: Option<MessageStanding>,
        (first, last): (Seq, Seq),
    ) -> Result<Vec<Stored>> {
        let mut reader = self.reader().await?;
        // One statement, so that no write of another process is seen half. A conversation without
        // messages is one row without a number.
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
