//! Requests that may be repeated, and their answers, on disk.

use jiff::Timestamp;
use sqlx::Row as _;

use super::{GatewayStore, REPLAYS_FOR, StoreResult, WriteTransaction, ago, millis};

/// How much all answers together may be; the oldest go first.
const REPLAYS_BYTES: i64 = 256 << 20;

/// What a request with a key is.
#[derive(Debug)]
pub(crate) enum ReplayClaim {
    /// The first of its kind: it is to be answered. The number names it.
    New(i64),
    /// A repetition: it gets the answer of the first.
    Replay(Replay),
    /// A repetition of one that has no answer yet.
    InProgress,
    /// Another request under the same key.
    Conflict,
}

/// An answer to be repeated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Replay {
    /// Its status.
    pub(crate) status: u16,
    /// Headers that mean something to the client.
    pub(crate) headers: Vec<(String, String)>,
    /// Its body.
    pub(crate) body: Vec<u8>,
}

/// A request with a key that has no answer, and what it has begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LostClaim {
    /// Names it.
    pub(crate) key: i64,
    /// Its session, if it came to that.
    pub(crate) session: Option<String>,
    /// Its run, if it came to that.
    pub(crate) run: Option<String>,
}

impl GatewayStore {
    /// Takes a key for a request, or returns the outcome of the one that has it.
    pub(crate) async fn claim(
        &self,
        route: &str,
        name: &str,
        fingerprint: &[u8],
    ) -> StoreResult<ReplayClaim> {
        let mut write = self.write().await?;
        let oldest = ago(Timestamp::now(), REPLAYS_FOR);
        sqlx::query(
            "DELETE FROM replays WHERE route = ? AND name = ? AND created_at < ? \
             AND status IS NOT NULL",
        )
        .bind(route)
        .bind(name)
        .bind(oldest)
        .execute(write.on())
        .await
        .map_err(|error| write.explain(error))?;
        let found = sqlx::query(
            "SELECT fingerprint, status, headers, body FROM replays WHERE route = ? AND name = ?",
        )
        .bind(route)
        .bind(name)
        .fetch_optional(write.on())
        .await
        .map_err(|error| write.explain(error))?;
        let claim = match found {
            Some(row) => read(&row, fingerprint).map_err(|error| write.explain(error))?,
            None => {
                let key = sqlx::query_scalar(
                    "INSERT INTO replays (route, name, fingerprint, created_at) \
                     VALUES (?, ?, ?, ?) RETURNING key",
                )
                .bind(route)
                .bind(name)
                .bind(fingerprint)
                .bind(millis(Timestamp::now()))
                .fetch_one(write.on())
                .await
                .map_err(|error| write.explain(error))?;
                ReplayClaim::New(key)
            }
        };
        write.commit().await?;
        Ok(claim)
    }

    /// Stores the answer to a request that has taken a key.
    pub(crate) async fn settle_claim(&self, key: i64, answer: &Replay) -> StoreResult<()> {
        let headers = serde_json::to_string(&answer.headers).unwrap_or_default();
        let mut write = self.write().await?;
        sqlx::query(
            "UPDATE replays SET status = ?2, headers = ?3, body = ?4 \
             WHERE key = ?1 AND status IS NULL",
        )
        .bind(key)
        .bind(answer.status)
        .bind(headers)
        .bind(&answer.body)
        .execute(write.on())
        .await
        .map_err(|error| write.explain(error))?;
        write.commit().await
    }

    /// Gives a key back: nothing was done for the request, and it may be sent again.
    pub(crate) async fn release_claim(&self, key: i64) -> StoreResult<()> {
        let mut write = self.write().await?;
        sqlx::query("DELETE FROM replays WHERE key = ? AND status IS NULL")
            .bind(key)
            .execute(write.on())
            .await
            .map_err(|error| write.explain(error))?;
        write.commit().await
    }

    /// Records the session that a request with a key works in, before it does.
    pub(crate) async fn note_claim(&self, key: i64, session: &str) -> StoreResult<()> {
        let mut write = self.write().await?;
        note(&mut write, key, session, None).await?;
        write.commit().await
    }

    /// Returns every request that a gateway before this one left without an answer. What it did is
    /// not known, so it is never done again under the same key.
    pub(crate) async fn lost_claims(&self) -> StoreResult<Vec<LostClaim>> {
        let mut reader = self.reader().await?;
        let rows: Vec<(i64, Option<String>, Option<String>)> =
            sqlx::query_as("SELECT key, session, run FROM replays WHERE status IS NULL")
                .fetch_all(&mut *reader)
                .await
                .map_err(|error| self.explain(error))?;
        Ok(rows.into_iter().map(|(key, session, run)| LostClaim { key, session, run }).collect())
    }
}

/// Records what a request with a key has begun.
pub(super) async fn note(
    write: &mut WriteTransaction<'_>,
    key: i64,
    session: &str,
    run: Option<&str>,
) -> StoreResult<()> {
    sqlx::query("UPDATE replays SET session = ?2, run = ?3 WHERE key = ?1")
        .bind(key)
        .bind(session)
        .bind(run)
        .execute(write.on())
        .await
        .map_err(|error| write.explain(error))?;
    Ok(())
}

fn read(row: &sqlx::sqlite::SqliteRow, fingerprint: &[u8]) -> sqlx::Result<ReplayClaim> {
    if row.try_get::<Vec<u8>, _>(0)? != fingerprint {
        return Ok(ReplayClaim::Conflict);
    }
    let Some(status) = row.try_get::<Option<u16>, _>(1)? else {
        return Ok(ReplayClaim::InProgress);
    };
    let headers: Option<String> = row.try_get(2)?;
    let headers = headers.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    let body: Option<Vec<u8>> = row.try_get(3)?;
    Ok(ReplayClaim::Replay(Replay { status, headers, body: body.unwrap_or_default() }))
}

/// Removes answers that are too old, and the oldest ones while there is too much. A request that is
/// in progress keeps its key.
pub(super) async fn prune(write: &mut WriteTransaction<'_>, now: Timestamp) -> StoreResult<()> {
    sqlx::query("DELETE FROM replays WHERE status IS NOT NULL AND created_at < ?")
        .bind(ago(now, REPLAYS_FOR))
        .execute(write.on())
        .await
        .map_err(|error| write.explain(error))?;
    sqlx::query(
        "DELETE FROM replays WHERE status IS NOT NULL AND key IN ( \
           SELECT key FROM (SELECT key, sum(length(body)) OVER (ORDER BY key DESC) AS total \
                            FROM replays) WHERE total > ?)",
    )
    .bind(REPLAYS_BYTES)
    .execute(write.on())
    .await
    .map_err(|error| write.explain(error))?;
    Ok(())
}
