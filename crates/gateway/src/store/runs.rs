//! Runs on disk.

use jiff::Timestamp;
use serde_json::{Value, json};
use sqlx::Row as _;
use sqlx::sqlite::SqliteRow;
use vestal_api::{AgentRunStatus, AgentRunUsage};

use super::{
    GatewayStore, RUNS_BYTES, RUNS_FOR, StoreResult, WriteTransaction, ago, millis, stored_time,
    time,
};

/// How a run is, on disk.
pub(crate) type RunStatus = AgentRunStatus;

/// A run to be stored.
#[derive(Debug, Clone)]
pub(crate) struct NewAgentRun {
    /// Its id.
    pub(crate) id: String,
    /// The conversation it is a turn of.
    pub(crate) session: String,
    /// The name of the model, as the client has it.
    pub(crate) model: String,
    /// The `Idempotency-Key` that it was asked for with.
    pub(crate) claim: Option<i64>,
}

/// A stored run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RunRecord {
    /// What its events refer to.
    pub(crate) key: i64,
    pub(crate) id: String,
    pub(crate) session: String,
    pub(crate) model: String,
    pub(crate) status: RunStatus,
    pub(crate) created_at: Timestamp,
    pub(crate) ended_at: Option<Timestamp>,
    pub(crate) output: Option<String>,
    /// What it has used so far.
    pub(crate) usage: Option<AgentRunUsage>,
    pub(crate) error: Option<Value>,
    /// The number of its last event.
    pub(crate) last_event: i64,
    /// What its events take on disk, about.
    pub(crate) event_bytes: usize,
}

/// The end of a run.
#[derive(Debug, Clone)]
pub(crate) struct AgentRunEnd {
    pub(crate) status: RunStatus,
    pub(crate) output: Option<String>,
    pub(crate) usage: Option<AgentRunUsage>,
    pub(crate) error: Option<Value>,
}

impl RunRecord {
    fn read(row: &SqliteRow) -> sqlx::Result<Self> {
        fn json<T: serde::de::DeserializeOwned>(text: Option<&str>) -> Option<T> {
            text.and_then(|text| serde_json::from_str(text).ok())
        }
        Ok(Self {
            key: row.try_get(0)?,
            id: row.try_get(1)?,
            session: row.try_get(2)?,
            model: row.try_get(3)?,
            status: AgentRunStatus::parse(row.try_get(4)?),
            created_at: time(row.try_get(5)?),
            ended_at: row.try_get::<Option<i64>, _>(6)?.map(time),
            output: row.try_get(7)?,
            usage: json(row.try_get(8)?),
            error: json(row.try_get(9)?),
            last_event: row.try_get(10)?,
            event_bytes: usize::try_from(row.try_get::<i64, _>(11)?).unwrap_or(0),
        })
    }
}

const COLUMNS: &str = "key, id, session, model, status, created_at, ended_at, output, usage, \
                       error, last_event, event_bytes";

impl GatewayStore {
    /// Stores a run that begins, so that a repeated request for it finds it.
    pub(crate) async fn create_run(&self, run: &NewAgentRun) -> StoreResult<RunRecord> {
        let created_at = stored_time(Timestamp::now());
        let mut write = self.write().await?;
        let key = sqlx::query_scalar(
            "INSERT INTO runs (id, session, model, status, created_at) VALUES (?, ?, ?, ?, ?) \
             RETURNING key",
        )
        .bind(&run.id)
        .bind(&run.session)
        .bind(&run.model)
        .bind(RunStatus::Running.as_str())
        .bind(millis(created_at))
        .fetch_one(write.on())
        .await
        .map_err(|error| write.explain(error))?;
        if let Some(claim) = run.claim {
            super::replays::note(&mut write, claim, &run.session, Some(&run.id)).await?;
        }
        write.commit().await?;
        Ok(RunRecord {
            key,
            id: run.id.clone(),
            session: run.session.clone(),
            model: run.model.clone(),
            status: RunStatus::Started,
            created_at,
            ended_at: None,
            output: None,
            usage: None,
            error: None,
            last_event: 0,
            event_bytes: 0,
        })
    }

    /// Returns a run; nothing if there is none of that id.
    pub(crate) async fn run(&self, id: &str) -> StoreResult<Option<RunRecord>> {
        let mut reader = self.reader().await?;
        let text = format!("SELECT {COLUMNS} FROM runs WHERE id = ?");
        let found = sqlx::query(sqlx::AssertSqlSafe(text)).bind(id).fetch_optional(&mut *reader);
        let found = found.await.map_err(|error| self.explain(error))?;
        found.as_ref().map(RunRecord::read).transpose().map_err(|error| self.explain(error))
    }

    /// Returns the newest runs.
    pub(crate) async fn runs(&self, limit: u32) -> StoreResult<Vec<RunRecord>> {
        let mut reader = self.reader().await?;
        let text = format!("SELECT {COLUMNS} FROM runs ORDER BY key DESC LIMIT ?");
        let rows = sqlx::query(sqlx::AssertSqlSafe(text)).bind(limit).fetch_all(&mut *reader);
        let rows = rows.await.map_err(|error| self.explain(error))?;
        let runs: sqlx::Result<Vec<RunRecord>> = rows.iter().map(RunRecord::read).collect();
        runs.map_err(|error| self.explain(error))
    }

    /// Returns every run that is in progress: at the start of a gateway, those that one before left.
    pub(crate) async fn open_runs(&self) -> StoreResult<Vec<RunRecord>> {
        let mut reader = self.reader().await?;
        let text = format!("SELECT {COLUMNS} FROM runs WHERE ended_at IS NULL ORDER BY key");
        let rows = sqlx::query(sqlx::AssertSqlSafe(text)).fetch_all(&mut *reader).await;
        let rows = rows.map_err(|error| self.explain(error))?;
        let runs: sqlx::Result<Vec<RunRecord>> = rows.iter().map(RunRecord::read).collect();
        runs.map_err(|error| self.explain(error))
    }

    /// Returns the words of a run that were stored last: those between two calls of tools, or since
    /// the last one.
    pub(crate) async fn output_so_far(&self, run: i64) -> StoreResult<Option<String>> {
        let mut reader = self.reader().await?;
        let words: Vec<String> = sqlx::query_scalar(
            "WITH last AS (SELECT max(seq) AS seq FROM events \
                           WHERE run = ?1 AND name = 'message.delta'), \
                  first AS (SELECT coalesce(max(e.seq), 0) AS seq FROM events e, last \
                            WHERE e.run = ?1 AND e.seq < last.seq AND e.name IN \
                            ('tool.started', 'tool.completed', 'message.discarded', 'run.resumed')) \
             SELECT json_extract(e.data, '$.delta') FROM events e, first \
             WHERE e.run = ?1 AND e.seq > first.seq AND e.name = 'message.delta' ORDER BY e.seq",
        )
        .bind(run)
        .fetch_all(&mut *reader)
        .await
        .map_err(|error| self.explain(error))?;
        let words = words.concat();
        Ok((!words.is_empty()).then_some(words))
    }

    /// Returns the ids of questions of a run that were asked and not closed.
    pub(crate) async fn open_questions(&self, run: i64) -> StoreResult<Vec<String>> {
        let mut reader = self.reader().await?;
        sqlx::query_scalar(
            "SELECT json_extract(data, '$.id') AS id FROM events \
             WHERE run = ?1 AND name = 'approval.request' AND id NOT IN \
             (SELECT json_extract(data, '$.id') FROM events \
              WHERE run = ?1 AND name = 'approval.closed') ORDER BY seq",
        )
        .bind(run)
        .fetch_all(&mut *reader)
        .await
        .map_err(|error| self.explain(error))
    }
}

/// Records what a run has used so far.
pub(super) async fn note_usage(
    write: &mut WriteTransaction<'_>,
    key: i64,
    usage: AgentRunUsage,
) -> StoreResult<()> {
    sqlx::query("UPDATE runs SET usage = ? WHERE key = ?")
        .bind(json!(usage).to_string())
        .bind(key)
        .execute(write.on())
        .await
        .map_err(|error| write.explain(error))?;
    Ok(())
}

/// Records the end of a run.
pub(super) async fn end_run(
    write: &mut WriteTransaction<'_>,
    key: i64,
    end: &AgentRunEnd,
) -> StoreResult<()> {
    sqlx::query(
        "UPDATE runs SET status = ?, ended_at = ?, output = ?, usage = ?, error = ? WHERE key = ?",
    )
    .bind(end.status.as_str())
    .bind(millis(Timestamp::now()))
    .bind(&end.output)
    .bind(end.usage.map(|usage| json!(usage).to_string()))
    .bind(end.error.as_ref().map(Value::to_string))
    .bind(key)
    .execute(write.on())
    .await
    .map_err(|error| write.explain(error))?;
    Ok(())
}

/// Removes ended runs that are too old, and the oldest ones while there is too much.
pub(super) async fn prune(write: &mut WriteTransaction<'_>, now: Timestamp) -> StoreResult<()> {
    sqlx::query("DELETE FROM runs WHERE ended_at IS NOT NULL AND ended_at < ?")
        .bind(ago(now, RUNS_FOR))
        .execute(write.on())
        .await
        .map_err(|error| write.explain(error))?;
    // The sum runs from the newest to the oldest: what lies beyond the limit goes.
    sqlx::query(
        "DELETE FROM runs WHERE ended_at IS NOT NULL AND key IN ( \
           SELECT key FROM (SELECT key, sum(event_bytes) OVER (ORDER BY key DESC) AS total \
                            FROM runs) WHERE total > ?)",
    )
    .bind(i64::try_from(RUNS_BYTES).unwrap_or(i64::MAX))
    .execute(write.on())
    .await
    .map_err(|error| write.explain(error))?;
    Ok(())
}
