//! Runs on disk.

use jiff::Timestamp;
use serde_json::Value;
use sqlx::Row as _;
use sqlx::sqlite::SqliteRow;
use vestal_api::AgentRunStatus;

use super::{GatewayStore, RUNS_BYTES, RUNS_FOR, StoreResult, WriteTransaction, ago, millis, time};

/// How a run is, on disk.
pub(crate) type RunStatus = AgentRunStatus;

/// A run to be stored.
#[derive(Debug, Clone)]
pub(crate) struct NewRun {
    /// Its id.
    pub(crate) id: String,
    /// The conversation it is a turn of.
    pub(crate) session: String,
    /// The name of the model, as the client has it.
    pub(crate) model: String,
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
    pub(crate) usage: Option<Value>,
    pub(crate) error: Option<Value>,
    /// The number of its last event.
    pub(crate) last_event: i64,
}

/// The end of a run.
#[derive(Debug, Clone)]
pub(crate) struct RunEnd {
    pub(crate) status: RunStatus,
    pub(crate) output: Option<String>,
    pub(crate) usage: Option<Value>,
    pub(crate) error: Option<Value>,
}

impl RunRecord {
    fn read(row: &SqliteRow) -> sqlx::Result<Self> {
        let json = |text: Option<String>| text.and_then(|text| serde_json::from_str(&text).ok());
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
        })
    }
}

const COLUMNS: &str = "key, id, session, model, status, created_at, ended_at, output, usage, \
                       error, last_event";

impl GatewayStore {
    /// Stores a run that has begun, and returns its key.
    pub(crate) async fn create_run(&self, run: &NewRun) -> StoreResult<i64> {
        let mut write = self.write().await?;
        let key = sqlx::query_scalar(
            "INSERT INTO runs (id, session, model, status, created_at) VALUES (?, ?, ?, ?, ?) \
             RETURNING key",
        )
        .bind(&run.id)
        .bind(&run.session)
        .bind(&run.model)
        .bind(RunStatus::Running.as_str())
        .bind(millis(Timestamp::now()))
        .fetch_one(write.on())
        .await
        .map_err(|error| write.explain(error))?;
        write.commit().await?;
        Ok(key)
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

    /// Ends every run that a gateway before this one left in progress, and returns them. Each has
    /// a last event that says so.
    ///
    /// Only the gateway that holds the profile may call this, before it begins a run.
    pub(crate) async fn end_lost_runs(&self) -> StoreResult<Vec<RunRecord>> {
        let mut write = self.write().await?;
        let text = format!("SELECT {COLUMNS} FROM runs WHERE ended_at IS NULL");
        let rows = sqlx::query(sqlx::AssertSqlSafe(text)).fetch_all(write.on()).await;
        let rows = rows.map_err(|error| write.explain(error))?;
        let lost: sqlx::Result<Vec<RunRecord>> = rows.iter().map(RunRecord::read).collect();
        let lost = lost.map_err(|error| write.explain(error))?;
        for run in &lost {
            let (data, end) = lost_end(run);
            super::events::insert(&mut write, run.key, &[data]).await?;
            end_run(&mut write, run.key, &end).await?;
        }
        write.commit().await?;
        Ok(lost)
    }
}

/// Returns the last event and the end of a run whose gateway is gone.
fn lost_end(run: &RunRecord) -> (super::StoredEvent, RunEnd) {
    let message = "the gateway ended while the run was in progress; what was said until then is kept in the session";
    let error = serde_json::json!({
        "message": message, "type": "server_error", "param": null, "code": "interrupted",
    });
    let event = super::StoredEvent {
        seq: run.last_event + 1,
        at: Timestamp::now(),
        name: "run.interrupted".to_owned(),
        data: serde_json::json!({ "status": "interrupted", "error": error }).to_string(),
    };
    let end =
        RunEnd { status: RunStatus::Interrupted, output: None, usage: None, error: Some(error) };
    (event, end)
}

/// Records the end of a run.
pub(super) async fn end_run(
    write: &mut WriteTransaction<'_>,
    key: i64,
    end: &RunEnd,
) -> StoreResult<()> {
    sqlx::query(
        "UPDATE runs SET status = ?, ended_at = ?, output = ?, usage = ?, error = ? WHERE key = ?",
    )
    .bind(end.status.as_str())
    .bind(millis(Timestamp::now()))
    .bind(&end.output)
    .bind(end.usage.as_ref().map(Value::to_string))
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
