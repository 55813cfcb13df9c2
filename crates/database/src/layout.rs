//! What is in a file, and how one of an earlier version becomes one of this.

use std::path::Path;

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _, Executor as _, Row as _, SqliteConnection};

use crate::{Error, Patience, Result, explain, is_busy};

/// What the files of one kind hold.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    /// Marks files of this kind, in their `application_id`.
    pub application: i64,
    /// What makes a file of version `n` one of version `n + 1`, from 0. An entry
    /// is never changed once it was released.
    pub steps: &'static [&'static str],
}

impl Layout {
    /// Returns the latest version, which files have in their `user_version`.
    pub const fn version(&self) -> i64 {
        // There are never so many steps that this could be another number.
        self.steps.len().cast_signed() as i64
    }

    /// Reports whether a file needs nothing before it is used. One that is not
    /// for this program is an error.
    ///
    /// A reader should ask: it cannot change anything in a file, not even by
    /// closing it.
    pub async fn is_current(&self, path: &Path, reader: &mut SqliteConnection) -> Result<bool> {
        let found = Found::read(reader).await.map_err(|error| explain(path, error))?;
        Ok(self.checked(found, path)? == self.version() && found.has_log)
    }

    /// Reports whether a file is of this version, whether or not it has a log: enough to read one that
    /// nobody can write.
    pub async fn is_readable(&self, path: &Path, reader: &mut SqliteConnection) -> Result<bool> {
        let found = Found::read(reader).await.map_err(|error| explain(path, error))?;
        Ok(self.checked(found, path)? == self.version())
    }

    /// Brings a file that is new, of an earlier version or without a log to what
    /// this program works with. Many processes may do it at once.
    pub async fn bring_up(&self, path: &Path, writer: &SqliteConnectOptions) -> Result<()> {
        let mut patience = Patience::new(path);
        let failed = |error| explain(path, error);
        loop {
            let mut connection = writer.connect().await.map_err(failed)?;
            // SQLite does not wait by itself for those who hinder this change.
            match use_log(&mut connection, path).await {
                Ok(()) => {
                    self.migrate(&mut connection, path).await?;
                    return connection.close().await.map_err(failed);
                }
                Err(error) if is_busy(&error) => patience.pause().await?,
                Err(error) => return Err(failed(error)),
            }
        }
    }

    /// Brings the file to this version. Whoever comes first does it, in one
    /// transaction; the others find it done.
    async fn migrate(&self, connection: &mut SqliteConnection, path: &Path) -> Result<()> {
        let failed = |error| explain(path, error);
        connection.execute("BEGIN IMMEDIATE").await.map_err(failed)?;
        let found = Found::read(connection).await.map_err(failed)?;
        let mut version = self.checked(found, path)?;
        let step = |version| usize::try_from(version).ok().and_then(|at| self.steps.get(at));
        while let Some(step) = step(version).copied() {
            connection.execute(sqlx::raw_sql(step)).await.map_err(failed)?;
            version += 1;
            self.set_version(connection, version).await.map_err(failed)?;
        }
        connection.execute("COMMIT").await.map_err(failed)?;
        Ok(())
    }

    /// Pragmas take no parameters; a number is safe to write into the text.
    async fn set_version(
        &self,
        connection: &mut SqliteConnection,
        version: i64,
    ) -> sqlx::Result<()> {
        let application = self.application;
        let text =
            format!("PRAGMA user_version = {version}; PRAGMA application_id = {application}");
        connection.execute(sqlx::raw_sql(sqlx::AssertSqlSafe(text))).await?;
        Ok(())
    }

    /// Returns the version of a file, which this program can work with.
    fn checked(&self, found: Found, path: &Path) -> Result<i64> {
        let path = || path.to_owned();
        match found.version {
            0 if found.empty => Ok(0),
            _ if found.application != self.application => Err(Error::Foreign { path: path() }),
            version if version > self.version() => {
                Err(Error::Newer { path: path(), found: version, supported: self.version() })
            }
            1.. => Ok(found.version),
            _ => Err(Error::Foreign { path: path() }),
        }
    }
}

/// What a file is, as it says itself.
#[derive(Debug, Clone, Copy)]
struct Found {
    version: i64,
    application: i64,
    empty: bool,
    has_log: bool,
}

impl Found {
    async fn read(connection: &mut SqliteConnection) -> sqlx::Result<Self> {
        // One statement sees one state of the file, whoever is changing it.
        let row = connection
            .fetch_one(
                "SELECT (SELECT user_version FROM pragma_user_version), \
                        (SELECT application_id FROM pragma_application_id), \
                        NOT EXISTS (SELECT 1 FROM sqlite_schema), \
                        (SELECT journal_mode FROM pragma_journal_mode)",
            )
            .await?;
        Ok(Self {
            version: row.try_get(0)?,
            application: row.try_get(1)?,
            empty: row.try_get(2)?,
            has_log: row.try_get::<String, _>(3)? == "wal",
        })
    }
}

/// Turns on the write-ahead log, which many readers and a writer can share. It
/// stays on with the file.
///
/// Where the file system cannot have one, the file keeps its rollback journal:
/// slower, and as safe.
async fn use_log(connection: &mut SqliteConnection, path: &Path) -> sqlx::Result<()> {
    let mode = connection.fetch_one("PRAGMA journal_mode = WAL").await?;
    if mode.try_get::<String, _>(0)? != "wal" {
        tracing::warn!(path = %path.display(), "the file system has no write-ahead log");
    }
    Ok(())
}
