//! Events of runs on disk, and the one task that writes them.

use jiff::Timestamp;
use serde_json::Value;
use sqlx::{QueryBuilder, Row as _, Sqlite};
use tokio::sync::{mpsc, oneshot};
use vestal_api::AgentRunUsage;

use super::runs::{end_run, note_usage};
use super::{AgentRunEnd, GatewayStore, StoreResult, WriteTransaction, millis, time};

/// Rows that one statement inserts: `SQLite` has a limit of parameters.
const ROWS_AT_ONCE: usize = 500;

/// An event that has no number yet.
#[derive(Debug, Clone)]
pub(crate) struct NewRunEvent {
    /// Its name, as `message.delta`.
    pub(crate) name: &'static str,
    /// What it says: an object.
    pub(crate) data: Value,
}

/// An event of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredEvent {
    /// Its number in the run, from 1 without gaps.
    pub(crate) seq: i64,
    /// When it was recorded.
    pub(crate) at: Timestamp,
    /// Its name.
    pub(crate) name: String,
    /// What it says, as JSON.
    pub(crate) data: String,
}

/// How a run is after its newest events.
#[derive(Debug, Clone)]
pub(crate) enum RunProgress {
    /// In progress.
    Running,
    /// In progress, and it has used so much.
    Used(AgentRunUsage),
    /// It has ended.
    Ended(AgentRunEnd),
}

/// What is to be written of a run, in one piece.
#[derive(Debug)]
struct Append {
    run: i64,
    events: Vec<StoredEvent>,
    progress: RunProgress,
    done: oneshot::Sender<StoreResult<()>>,
}

/// Writes the events of all runs. What came while a transaction was under way goes into the next:
/// hundreds of runs that stream cost a few dozen transactions a second, not thousands.
#[derive(Debug, Clone)]
pub(crate) struct EventWriter(mpsc::UnboundedSender<Append>);

impl EventWriter {
    /// Starts the task; it ends with the last clone of the writer.
    pub(crate) fn start(store: GatewayStore) -> Self {
        let (sender, receiver) = mpsc::unbounded_channel();
        tokio::spawn(write_all(store, receiver));
        Self(sender)
    }

    /// Writes events, and how the run is after them. Returns once they are stored.
    pub(crate) async fn append(
        &self,
        run: i64,
        events: Vec<StoredEvent>,
        progress: RunProgress,
    ) -> StoreResult<()> {
        let (done, stored) = oneshot::channel();
        let lost = || vestal_database::Error::Access {
            path: std::path::PathBuf::from("gateway.db"),
            reason: "the task that writes it is gone".to_owned(),
        };
        self.0.send(Append { run, events, progress, done }).map_err(|_| lost())?;
        stored.await.unwrap_or_else(|_| Err(lost()))
    }
}

async fn write_all(store: GatewayStore, mut waiting: mpsc::UnboundedReceiver<Append>) {
    let mut batch = Vec::new();
    while waiting.recv_many(&mut batch, 1024).await > 0 {
        if let Err(error) = write_batch(&store, &batch).await {
            tracing::warn!(%error, "events of runs were not stored together; trying one by one");
            for append in batch.drain(..) {
                let result = write_batch(&store, std::slice::from_ref(&append)).await;
                // The waiting caller may be gone; the events are stored all the same.
                append.done.send(result).ok();
            }
            continue;
        }
        for append in batch.drain(..) {
            append.done.send(Ok(())).ok();
        }
    }
}

async fn write_batch(store: &GatewayStore, batch: &[Append]) -> StoreResult<()> {
    let mut write = store.write().await?;
    for append in batch {
        insert(&mut write, append.run, &append.events).await?;
        match &append.progress {
            RunProgress::Running => {}
            RunProgress::Used(usage) => note_usage(&mut write, append.run, *usage).await?,
            RunProgress::Ended(end) => end_run(&mut write, append.run, end).await?,
        }
    }
    write.commit().await
}

/// Inserts events of a run.
async fn insert(
    write: &mut WriteTransaction<'_>,
    run: i64,
    events: &[StoredEvent],
) -> StoreResult<()> {
    let Some(last) = events.last() else { return Ok(()) };
    for rows in events.chunks(ROWS_AT_ONCE) {
        let mut query: QueryBuilder<Sqlite> =
            QueryBuilder::new("INSERT INTO events (run, seq, at, name, data) ");
        query.push_values(rows, |mut row, event| {
            row.push_bind(run)
                .push_bind(event.seq)
                .push_bind(millis(event.at))
                .push_bind(&event.name)
                .push_bind(&event.data);
        });
        query.build().execute(write.on()).await.map_err(|error| write.explain(error))?;
    }
    let bytes: usize = events.iter().map(StoredEvent::bytes).sum();
    sqlx::query("UPDATE runs SET last_event = ?, event_bytes = event_bytes + ? WHERE key = ?")
        .bind(last.seq)
        .bind(i64::try_from(bytes).unwrap_or(i64::MAX))
        .bind(run)
        .execute(write.on())
        .await
        .map_err(|error| write.explain(error))?;
    Ok(())
}

impl StoredEvent {
    /// Returns what it takes on disk, about.
    pub(crate) fn bytes(&self) -> usize {
        self.name.len() + self.data.len() + 24
    }
}

impl GatewayStore {
    /// Returns the events of a run after a number, at most `limit`, in order.
    pub(crate) async fn events(
        &self,
        run: i64,
        after: i64,
        limit: u32,
    ) -> StoreResult<Vec<StoredEvent>> {
        let mut reader = self.reader().await?;
        let rows = sqlx::query(
            "SELECT seq, at, name, data FROM events WHERE run = ? AND seq > ? ORDER BY seq LIMIT ?",
        )
        .bind(run)
        .bind(after)
        .bind(limit)
        .fetch_all(&mut *reader)
        .await
        .map_err(|error| self.explain(error))?;
        let read = |row: &sqlx::sqlite::SqliteRow| -> sqlx::Result<StoredEvent> {
            Ok(StoredEvent {
                seq: row.try_get(0)?,
                at: time(row.try_get(1)?),
                name: row.try_get(2)?,
                data: row.try_get(3)?,
            })
        };
        let events: sqlx::Result<Vec<StoredEvent>> = rows.iter().map(read).collect();
        events.map_err(|error| self.explain(error))
    }
}
