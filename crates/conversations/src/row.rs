//! Reading rows of the database.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use sqlx::sqlite::SqliteRow;
use sqlx::{Row as _, SqliteConnection};

use crate::Result;
use crate::conversation::{
    ConversationEnd, ConversationId, ConversationRecord, Parent, ParentKind,
};
use crate::error::Error;
use crate::message::{MessageKind, MessageStanding, Seq, Stored};
use crate::store::{ConversationStore, WriteTransaction};

/// Returns the key of a conversation.
pub(crate) async fn key(write: &mut WriteTransaction<'_>, id: &ConversationId) -> Result<i64> {
    let found = find_key(write.on(), id).await.map_err(|error| write.explain(error))?;
    found.ok_or_else(|| not_found(id))
}

pub(crate) async fn find_key(
    connection: &mut SqliteConnection,
    id: &ConversationId,
) -> sqlx::Result<Option<i64>> {
    sqlx::query_scalar("SELECT key FROM conversations WHERE id = ?")
        .bind(id.as_str())
        .fetch_optional(connection)
        .await
}

pub(crate) fn not_found(id: &ConversationId) -> Error {
    Error::NotFound { wanted: id.to_string() }
}

/// The columns [`conversation`] reads, of `conversations c` with its parent `p`.
macro_rules! conversation_columns {
    () => {
        "c.id, c.title, c.source, c.parent_kind, p.id AS parent_id, c.provider, c.model, c.cwd, \
         c.started_at, c.updated_at, c.ended_at, c.end_reason"
    };
}
pub(crate) use conversation_columns;

/// Reads a conversation.
pub(crate) fn conversation(row: &SqliteRow) -> sqlx::Result<ConversationRecord> {
    let parent_id: Option<String> = row.try_get("parent_id")?;
    let kind: Option<String> = row.try_get("parent_kind")?;
    let parent = match kind.as_deref().and_then(ParentKind::named) {
        Some(kind) => Some(Parent { kind, id: parent_id.map(|text| id(&text)).transpose()? }),
        None => None,
    };
    let cwd: Option<Vec<u8>> = row.try_get("cwd")?;
    let ended_at: Option<i64> = row.try_get("ended_at")?;
    let reason: Option<String> = row.try_get("end_reason")?;
    Ok(ConversationRecord {
        id: id(row.try_get("id")?)?,
        title: row.try_get("title")?,
        source: row.try_get("source")?,
        parent,
        provider: row.try_get("provider")?,
        model: row.try_get("model")?,
        cwd: cwd.map(|bytes| PathBuf::from(OsStr::from_bytes(&bytes))),
        started_at: time(row.try_get("started_at")?),
        updated_at: time(row.try_get("updated_at")?),
        ended: ended_at
            .map(|at| ConversationEnd { at: time(at), reason: reason.unwrap_or_default() }),
    })
}

/// Reads the id of a conversation.
pub(crate) fn id(text: &str) -> sqlx::Result<ConversationId> {
    text.parse().map_err(|error| sqlx::Error::Decode(Box::new(error)))
}

/// Reads a stored message of conversation `of`.
pub(crate) fn stored(
    store: &ConversationStore,
    of: &ConversationId,
    row: &SqliteRow,
) -> Result<Stored> {
    let unread = |error| store.explain(error);
    let text = |name: &str| row.try_get::<Option<String>, _>(name).map_err(unread);
    let number = |name: &str| row.try_get::<Option<i64>, _>(name).map_err(unread);
    let seq = Seq(number("seq")?.unwrap_or_default());
    let standing = match (number("undone")?, number("archived_by")?) {
        (Some(0) | None, None) => MessageStanding::Active,
        (Some(0) | None, Some(_)) => MessageStanding::Compacted,
        (Some(_), _) => MessageStanding::Undone,
    };
    Ok(Stored {
        seq,
        kind: MessageKind::named(&text("kind")?.unwrap_or_default()),
        standing,
        at: time(number("at")?.unwrap_or_default()),
        message: json(of, seq, "the body", &text("body")?.unwrap_or_default())?,
        usage: text("usage")?.map(|text| json(of, seq, "the usage", &text)).transpose()?,
        cost: text("cost")?.map(|text| json(of, seq, "the cost", &text)).transpose()?,
        provider: text("provider")?,
        model: text("model")?,
    })
}

fn json<T: DeserializeOwned>(of: &ConversationId, seq: Seq, what: &str, text: &str) -> Result<T> {
    serde_json::from_str(text).map_err(|source| Error::Unreadable {
        id: of.clone(),
        what: format!("{what} of message {seq}"),
        source,
    })
}

/// Returns the time of a number in the database.
pub(crate) fn time(micros: i64) -> Timestamp {
    // An impossible time is damage that should not hide the rest.
    Timestamp::from_microsecond(micros).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// Returns the current time as a number of the database.
pub(crate) fn now() -> i64 {
    Timestamp::now().as_microsecond()
}

/// Returns a count from the database.
pub(crate) fn count(row: &SqliteRow, name: &str) -> sqlx::Result<u64> {
    let number: i64 = row.try_get(name)?;
    Ok(u64::try_from(number).unwrap_or(0))
}
