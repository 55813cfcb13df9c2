//! Responses on disk.

use jiff::Timestamp;
use serde_json::Value;
use sqlx::Row as _;

use super::{
    GatewayStore, RESPONSES_BYTES, RESPONSES_FOR, StoreResult, WriteTransaction, ago, millis,
};

/// A response that can be gone on from.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StoredResponse {
    /// Its id.
    pub(crate) id: String,
    /// The conversation it was given in.
    pub(crate) session: String,
    /// The number of the last message of that conversation.
    pub(crate) last_message: i64,
    /// What the client got.
    pub(crate) body: Value,
}

impl GatewayStore {
    /// Stores a response.
    pub(crate) async fn put_response(&self, response: &StoredResponse) -> StoreResult<()> {
        let mut write = self.write().await?;
        sqlx::query(
            "INSERT INTO responses (id, session, last_message, created_at, body) \
             VALUES (?, ?, ?, ?, ?)",
        )
        .bind(&response.id)
        .bind(&response.session)
        .bind(response.last_message)
        .bind(millis(Timestamp::now()))
        .bind(response.body.to_string())
        .execute(write.on())
        .await
        .map_err(|error| write.explain(error))?;
        write.commit().await
    }

    /// Returns a response; nothing if there is none of that id.
    pub(crate) async fn response(&self, id: &str) -> StoreResult<Option<StoredResponse>> {
        let mut reader = self.reader().await?;
        let found =
            sqlx::query("SELECT id, session, last_message, body FROM responses WHERE id = ?")
                .bind(id)
                .fetch_optional(&mut *reader)
                .await
                .map_err(|error| self.explain(error))?;
        let Some(row) = found else { return Ok(None) };
        let read = || -> sqlx::Result<StoredResponse> {
            let body: String = row.try_get(3)?;
            Ok(StoredResponse {
                id: row.try_get(0)?,
                session: row.try_get(1)?,
                last_message: row.try_get(2)?,
                body: serde_json::from_str(&body)
                    .map_err(|error| sqlx::Error::Decode(error.into()))?,
            })
        };
        read().map(Some).map_err(|error| self.explain(error))
    }

    /// Removes a response; reports whether there was one.
    pub(crate) async fn delete_response(&self, id: &str) -> StoreResult<bool> {
        let mut write = self.write().await?;
        let done = sqlx::query("DELETE FROM responses WHERE id = ?").bind(id);
        let done = done.execute(write.on()).await.map_err(|error| write.explain(error))?;
        write.commit().await?;
        Ok(done.rows_affected() > 0)
    }
}

/// Removes responses that are too old, and the oldest ones while there is too much.
pub(super) async fn prune(write: &mut WriteTransaction<'_>, now: Timestamp) -> StoreResult<()> {
    sqlx::query("DELETE FROM responses WHERE created_at < ?")
        .bind(ago(now, RESPONSES_FOR))
        .execute(write.on())
        .await
        .map_err(|error| write.explain(error))?;
    sqlx::query(
        "DELETE FROM responses WHERE key IN ( \
           SELECT key FROM (SELECT key, sum(length(body)) OVER (ORDER BY key DESC) AS total \
                            FROM responses) WHERE total > ?)",
    )
    .bind(i64::try_from(RESPONSES_BYTES).unwrap_or(i64::MAX))
    .execute(write.on())
    .await
    .map_err(|error| write.explain(error))?;
    Ok(())
}
