//! The tables, and how a file of an earlier version becomes one of this.

use std::path::Path;

use sqlx::{Executor as _, Row as _, SqliteConnection};

use super::explain::explain;
use super::open::Found;
use crate::Result;

/// The version of the file's layout, in its `user_version`.
pub const VERSION: i64 = 1;

/// Marks the file as one of a board: `VstB`.
pub(super) const APPLICATION: i64 = 0x5673_7442;

/// What makes a file of version `n` one of version `n + 1`, from 0. An entry is
/// never changed once it was released.
const STEPS: [&str; 1] = [include_str!("schema/1.sql")];

/// Brings the file to this version. Whoever comes first does it, in one
/// transaction; the others find it done.
pub(super) async fn migrate(connection: &mut SqliteConnection, path: &Path) -> Result<()> {
    let failed = |error| explain(path, error);
    connection.execute("BEGIN IMMEDIATE").await.map_err(failed)?;
    let found = Found::read(connection).await.map_err(failed)?;
    let mut version = found.checked(path)?;
    while let Some(step) = usize::try_from(version).ok().and_then(|at| STEPS.get(at).copied()) {
        connection.execute(sqlx::raw_sql(step)).await.map_err(failed)?;
        version += 1;
        set_version(connection, version).await.map_err(failed)?;
    }
    connection.execute("COMMIT").await.map_err(failed)?;
    Ok(())
}

/// Pragmas take no parameters; a number is safe to write into the text.
async fn set_version(connection: &mut SqliteConnection, version: i64) -> sqlx::Result<()> {
    let text = format!("PRAGMA user_version = {version}; PRAGMA application_id = {APPLICATION}");
    connection.execute(sqlx::raw_sql(sqlx::AssertSqlSafe(text))).await?;
    Ok(())
}

/// Turns on the write-ahead log, which many readers and a writer can share. It
/// stays on with the file.
///
/// Where the file system cannot have one, the file keeps its rollback journal:
/// slower, and as safe.
pub(super) async fn use_log(connection: &mut SqliteConnection) -> sqlx::Result<()> {
    let mode = connection.fetch_one("PRAGMA journal_mode = WAL").await?;
    if mode.try_get::<String, _>(0)? != "wal" {
        tracing::warn!("the file system of the board has no write-ahead log");
    }
    Ok(())
}
