//! The store as this process has it open: opening the file, its readers, its one writer.

mod claims;
mod row;
mod runs;
mod schedules;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fmt, io};

use async_recursion::async_recursion as boxed;
use jiff::{SignedDuration, Timestamp};
use rustix::fs::inotify::WatchFlags;
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW, utimensat};
use sqlx::pool::PoolConnection;
use sqlx::sqlite::SqliteRow;
use sqlx::{AssertSqlSafe, Row as _, Sqlite, SqliteConnection};
use vestal_database::{
    Database, DatabaseOptions, Durability, Layout, WriteTransaction, writer_options,
};
use vestal_process::FileChanges;

use crate::run::{Delivered, RunOwner, ScheduleRun, ScheduleRunId};
use crate::schedule::{Schedule, ScheduleDelivery};
use crate::{Error, Result};

use self::row::RUN;
use self::schedules::get_in;

pub use claims::Taken;
pub use runs::KEPT_RUNS;

/// The layout of the file, marked with `VstS`.
const LAYOUT: Layout = Layout { application: 0x5673_7453, steps: &[include_str!("schema/1.sql")] };

/// The most readers at once; further ones wait.
const READERS: u32 = 2;

/// Returns the file of the schedules in a profile's home. It has a directory of its own, which is
/// watched for changes.
pub fn store_path(home: &Path) -> PathBuf {
    home.join("cron").join("schedules.db")
}

/// The schedules of one home. Clones share the connections; any number of processes may have the
/// same file open.
///
/// Dropping the future of a writing call leaves the change done or not done, never half done.
#[derive(Clone)]
pub struct ScheduleStore {
    database: Arc<Database>,
}

impl ScheduleStore {
    /// Opens the file, creating it if needed, readable by its owner only.
    pub async fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let database = Database::open(path, options(path)).await?;
        Ok(Self { database: Arc::new(database) })
    }

    /// Opens the file if it exists.
    pub async fn open_existing(path: impl AsRef<Path>) -> Result<Option<Self>> {
        let path = path.as_ref();
        let database = Database::open_existing(path, options(path)).await?;
        Ok(database.map(|database| Self { database: Arc::new(database) }))
    }

    /// Returns the file.
    pub fn path(&self) -> &Path {
        self.database.path()
    }

    /// Closes the file for all clones of this store, after running calls. Nothing is lost without
    /// it; it merges the log into the file.
    #[boxed]
    pub async fn close(self) -> Result<()> {
        Ok(self.database.close().await?)
    }

    pub(crate) async fn reader(&self) -> Result<PoolConnection<Sqlite>> {
        Ok(self.database.reader().await?)
    }

    pub(crate) fn explain(&self, error: sqlx::Error) -> crate::Error {
        self.database.explain(error).into()
    }

    /// Begins a write transaction, waiting for other processes.
    pub(crate) async fn write(&self) -> Result<ScheduleTransaction<'_>> {
        let transaction = self.database.write().await?;
        Ok(ScheduleTransaction { transaction, is_changed: false })
    }
}

impl fmt::Debug for ScheduleStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScheduleStore").field("path", &self.path()).finish_non_exhaustive()
    }
}

/// Returns how a process opens the file. A claim must outlive a power loss, or the moment would be
/// run again after it.
fn options(path: &Path) -> DatabaseOptions {
    let writer = writer_options(path, Durability::Full);
    DatabaseOptions { layout: LAYOUT, readers: READERS, writer }
}

/// A write transaction that announces what it has changed.
pub(crate) struct ScheduleTransaction<'s> {
    transaction: WriteTransaction<'s>,
    /// Whether anything was changed, which others are to notice.
    is_changed: bool,
}

impl ScheduleTransaction<'_> {
    pub(crate) fn on(&mut self) -> &mut SqliteConnection {
        self.transaction.on()
    }

    pub(crate) fn explain(&self, error: sqlx::Error) -> crate::Error {
        self.transaction.explain(error).into()
    }

    /// Runs a statement and returns how many rows it changed.
    pub(crate) async fn execute(
        &mut self,
        query: sqlx::query::Query<'_, Sqlite, sqlx::sqlite::SqliteArguments>,
    ) -> Result<u64> {
        let done = query.execute(self.on()).await;
        let changed = done.map(|done| done.rows_affected()).map_err(|error| self.explain(error))?;
        self.is_changed |= changed > 0;
        Ok(changed)
    }

    /// Notes that something was changed by other means.
    pub(crate) fn mark_changed(&mut self) {
        self.is_changed = true;
    }

    /// Commits. A later kill of the process or a power loss loses nothing.
    pub(crate) async fn commit(self) -> Result<()> {
        let path = self.transaction.path().to_owned();
        self.transaction.commit().await?;
        if self.is_changed {
            announce(&path);
        }
        Ok(())
    }
}

/// How long a delivery is tried.
const TRY_WITHIN: SignedDuration = SignedDuration::from_hours(24);

impl ScheduleStore {
    /// Takes the deliveries that are to be made. A delivery that a process began and did not live to
    /// finish is not made again: it may be there. Only those in `wanted` are taken.
    pub async fn take_deliveries(
        &self,
        owner: &RunOwner,
        now: Timestamp,
        wanted: impl Fn(ScheduleRunId) -> bool + Send,
    ) -> Result<Vec<(Schedule, ScheduleRun)>> {
        if !self.has_deliveries().await? {
            return Ok(Vec::new());
        }
        let query =
            format!("SELECT {RUN} FROM runs WHERE delivered IN ('pending', 'begun') ORDER BY id");
        let mut write = self.write().await?;
        let rows = sqlx::query(AssertSqlSafe(query)).fetch_all(write.on()).await;
        let rows = rows.map_err(|error| write.explain(error))?;
        let mut taken = Vec::new();
        for row in &rows {
            let run = match row::run(row) {
                Ok(run) => run,
                Err(error) => {
                    give_up(&mut write, row, &error).await?;
                    continue;
                }
            };
            let verdict = match run.delivered {
                Delivered::Begun => {
                    let is_gone =
                        run.owner.as_ref().is_none_or(|of| of.is_gone(owner) != Some(false));
                    is_gone.then_some("its process died while it was delivered; it may be there")
                }
                _ if is_over(&run, now) => Some("it could not be delivered within a day"),
                _ => None,
            };
            if let Some(reason) = verdict {
                let query = sqlx::query(
                    "UPDATE runs SET delivered = 'failed', delivery_error = ? WHERE id = ?",
                )
                .bind(reason)
                .bind(run.id.get());
                write.execute(query).await?;
                continue;
            }
            if run.delivered == Delivered::Begun || !wanted(run.id) {
                continue;
            }
            let schedule = match get_in(&mut write, &run.schedule).await {
                Ok(schedule) => schedule,
                Err(error @ (Error::Unreadable { .. } | Error::NotFound { .. })) => {
                    give_up(&mut write, row, &error).await?;
                    continue;
                }
                Err(error) => return Err(error),
            };
            let next = match schedule.delivery {
                ScheduleDelivery::Local => Delivered::None,
                ScheduleDelivery::Conversation(_) => Delivered::Begun,
            };
            let query = sqlx::query("UPDATE runs SET delivered = ?, owner = ? WHERE id = ?")
                .bind(next.word())
                .bind(serde_json::to_string(owner).ok())
                .bind(run.id.get());
            write.execute(query).await?;
            if next == Delivered::Begun {
                taken.push((schedule, run));
            }
        }
        write.commit().await?;
        Ok(taken)
    }

    /// Records the outcome of a delivery that was taken. One that is to be tried again is pending.
    #[boxed]
    pub async fn delivered(
        &self,
        run: ScheduleRunId,
        delivered: Delivered,
        error: Option<&str>,
    ) -> Result<()> {
        let mut write = self.write().await?;
        let query = sqlx::query(
            "UPDATE runs SET delivered = ?, delivery_error = ? WHERE id = ? AND delivered = 'begun'",
        )
        .bind(delivered.word())
        .bind(error.map(str::to_owned))
        .bind(run.get());
        write.execute(query).await?;
        write.commit().await
    }

    async fn has_deliveries(&self) -> Result<bool> {
        let mut reader = self.reader().await?;
        let row = sqlx::query(
            "SELECT EXISTS (SELECT 1 FROM runs WHERE delivered IN ('pending', 'begun'))",
        )
        .fetch_one(&mut *reader)
        .await
        .map_err(|error| self.explain(error))?;
        row.try_get(0).map_err(|error| self.explain(error))
    }
}

fn is_over(run: &ScheduleRun, now: Timestamp) -> bool {
    run.ended_at.is_some_and(|ended| now.duration_since(ended) > TRY_WITHIN)
}

/// Records that an output is not delivered because its run or its schedule cannot be read. One such
/// row keeps no other from being delivered.
async fn give_up(
    write: &mut ScheduleTransaction<'_>,
    row: &SqliteRow,
    reason: &Error,
) -> Result<()> {
    let id: i64 = row.try_get("id").map_err(|error| write.explain(error))?;
    let query =
        sqlx::query("UPDATE runs SET delivered = 'failed', delivery_error = ? WHERE id = ?")
            .bind(reason.to_string())
            .bind(id);
    write.execute(query).await?;
    Ok(())
}

/// Announces that a change was committed: the file is touched, and other processes watch for that. One
/// that is not announced is noticed within a minute.
///
/// Writes to the log of the file say nothing: they come before the commit is on disk, and what is not
/// committed cannot be seen.
fn announce(file: &Path) {
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    let times = Timestamps { last_access: now, last_modification: now };
    // By name: to close a descriptor of the file would drop the locks of the database.
    if let Err(error) = utimensat(CWD, file, &times, AtFlags::SYMLINK_NOFOLLOW) {
        tracing::debug!(%error, "a change of schedules was not announced");
    }
}

/// Watches for announcements in the directory of the file.
pub(crate) fn watch_announcements(file: &Path) -> io::Result<FileChanges> {
    let dir = file.parent().ok_or_else(|| io::Error::other("the file has no directory"))?;
    let changes = FileChanges::new()?;
    changes.watch(dir, WatchFlags::ATTRIB | WatchFlags::ONLYDIR)?;
    Ok(changes)
}
