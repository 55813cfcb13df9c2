//! What the API server keeps on disk: runs with their events, responses, and answers to requests
//! that may be repeated. One file in the home of the profile, `gateway.db`.

mod events;
mod replays;
mod responses;
mod runs;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use sqlx::Sqlite;
use sqlx::pool::PoolConnection;
use vestal_database::{
    Database, DatabaseOptions, Durability, Layout, WriteTransaction, writer_options,
};

pub(crate) use events::{EventWriter, NewRunEvent, RunProgress, StoredEvent};
pub(crate) use replays::{LostClaim, Replay, ReplayClaim};
pub(crate) use responses::StoredResponse;
pub(crate) use runs::{AgentRunEnd, NewAgentRun, RunRecord, RunStatus};

/// The layout of the file, marked with `VstG`.
const LAYOUT: Layout = Layout {
    application: 0x5673_7447,
    steps: &[include_str!("store/schema/1.sql"), include_str!("store/schema/2.sql")],
};

/// The most readers at once; further ones wait.
const READERS: u32 = 4;

/// The size to which the write-ahead log is truncated after a checkpoint.
const WAL_BYTES: &str = "8388608";

/// How long an ended run is kept with its events.
pub(crate) const RUNS_FOR: Duration = Duration::from_hours(7 * 24);

/// How much the events of all runs may be; the oldest ended runs go first.
pub(crate) const RUNS_BYTES: u64 = 256 << 20;

/// How long a response is kept.
pub(crate) const RESPONSES_FOR: Duration = Duration::from_hours(30 * 24);

/// How much all responses may be; the oldest go first.
pub(crate) const RESPONSES_BYTES: u64 = 256 << 20;

/// How long an answer is repeated to requests with the same key.
pub(crate) const REPLAYS_FOR: Duration = Duration::from_hours(24);

/// Returns the file in the home of a profile.
pub(crate) fn store_path(home: &Path) -> PathBuf {
    home.join("gateway.db")
}

/// What the API server keeps. Clones share the connections.
///
/// Dropping the future of a writing call leaves the change done or not done, never half done.
#[derive(Clone)]
pub(crate) struct GatewayStore(Arc<Database>);

/// Why something was not stored or read.
pub(crate) type StoreResult<T> = Result<T, vestal_database::Error>;

impl GatewayStore {
    /// Opens the file, creating it if needed, readable by its owner only.
    pub(crate) async fn open(path: &Path) -> StoreResult<Self> {
        Ok(Self(Arc::new(Database::open(path, options(path)).await?)))
    }

    /// Closes the file for all clones, after running calls. Nothing is lost without it.
    pub(crate) async fn close(&self) {
        if let Err(error) = self.0.close().await {
            tracing::debug!(%error, "the store of the API server was not closed");
        }
    }

    /// Removes what was kept for long enough, and what is too much. What was stored while the clock
    /// was ahead counts as stored now: it would be kept for as long as the clock was wrong.
    pub(crate) async fn prune(&self, now: Timestamp) -> StoreResult<()> {
        let mut write = self.write().await?;
        for statement in [
            "UPDATE runs SET ended_at = ?1 WHERE ended_at > ?1",
            "UPDATE responses SET created_at = ?1 WHERE created_at > ?1",
            "UPDATE replays SET created_at = ?1 WHERE created_at > ?1",
        ] {
            let done = sqlx::query(statement).bind(millis(now)).execute(write.on()).await;
            done.map_err(|error| write.explain(error))?;
        }
        runs::prune(&mut write, now).await?;
        responses::prune(&mut write, now).await?;
        replays::prune(&mut write, now).await?;
        write.commit().await
    }

    async fn reader(&self) -> StoreResult<PoolConnection<Sqlite>> {
        self.0.reader().await
    }

    fn explain(&self, error: sqlx::Error) -> vestal_database::Error {
        self.0.explain(error)
    }

    /// Begins a write transaction.
    async fn write(&self) -> StoreResult<WriteTransaction<'_>> {
        self.0.write().await
    }
}

impl fmt::Debug for GatewayStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GatewayStore").field("path", &self.0.path()).finish_non_exhaustive()
    }
}

/// Returns how a process opens the file. A power cut may lose the last moments, a killed process
/// loses nothing, and no event costs a sync of the disk.
fn options(path: &Path) -> DatabaseOptions {
    let writer = writer_options(path, Durability::Normal).pragma("journal_size_limit", WAL_BYTES);
    DatabaseOptions { layout: LAYOUT, readers: READERS, writer }
}

/// Returns a time as the file has it.
fn millis(time: Timestamp) -> i64 {
    time.as_millisecond()
}

/// Returns a time of the file.
fn time(millis: i64) -> Timestamp {
    Timestamp::from_millisecond(millis).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// Returns a time with the precision of the file, so that it is the same before and after it was
/// stored.
pub(crate) fn stored_time(now: Timestamp) -> Timestamp {
    time(millis(now))
}

/// Returns the moment that was so long ago, as the file has it.
fn ago(now: Timestamp, age: Duration) -> i64 {
    millis(now).saturating_sub(i64::try_from(age.as_millis()).unwrap_or(i64::MAX))
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
