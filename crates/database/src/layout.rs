//! The layout of a file: creating the file, checking its version, upgrading it.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _, Executor as _, Row as _, SqliteConnection};

use crate::{BusyWait, Error, Result, explain, is_busy};

/// The layout of one kind of file.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    /// Marks files of this kind, in their `application_id`.
    pub application: i64,
    /// The SQL that upgrades version `n` to `n + 1`, from 0. A released entry is never changed.
    pub steps: &'static [&'static str],
}

impl Layout {
    /// Returns the latest version, stored in `user_version`.
    pub const fn version(&self) -> i64 {
        // There are never enough steps to overflow.
        self.steps.len().cast_signed() as i64
    }

    /// Reports whether a file is up to date. A file of another program or a newer version is an
    /// error.
    ///
    /// Pass a read-only connection: it cannot change the file, not even by closing it.
    pub async fn is_current(&self, path: &Path, reader: &mut SqliteConnection) -> Result<bool> {
        let found = FoundFile::read(reader).await.map_err(|error| explain(path, error))?;
        Ok(self.check_version(found, path)? == self.version() && found.has_log)
    }

    /// Reports whether a file has this version, with or without a write-ahead log. That is enough to
    /// read a file that cannot be written.
    pub async fn is_readable(&self, path: &Path, reader: &mut SqliteConnection) -> Result<bool> {
        let found = FoundFile::read(reader).await.map_err(|error| explain(path, error))?;
        Ok(self.check_version(found, path)? == self.version())
    }

    /// Upgrades a file that is new, of an earlier version or without a write-ahead log. Many processes
    /// may do so at once.
    pub async fn upgrade(&self, path: &Path, writer: &SqliteConnectOptions) -> Result<()> {
        let mut wait = BusyWait::new(path);
        let failed = |error| explain(path, error);
        loop {
            let mut connection = writer.connect().await.map_err(failed)?;
            // SQLite does not wait for locks by itself here.
            match use_log(&mut connection, path).await {
                Ok(()) => {
                    self.migrate(&mut connection, path).await?;
                    return connection.close().await.map_err(failed);
                }
                Err(error) if is_busy(&error) => wait.pause().await?,
                Err(error) => return Err(failed(error)),
            }
        }
    }

    /// Runs the missing steps in one transaction. The first process does it; the others find it done.
    async fn migrate(&self, connection: &mut SqliteConnection, path: &Path) -> Result<()> {
        let failed = |error| explain(path, error);
        connection.execute("BEGIN IMMEDIATE").await.map_err(failed)?;
        let found = FoundFile::read(connection).await.map_err(failed)?;
        let mut version = self.check_version(found, path)?;
        let step = |version| usize::try_from(version).ok().and_then(|at| self.steps.get(at));
        while let Some(step) = step(version).copied() {
            connection.execute(sqlx::raw_sql(step)).await.map_err(failed)?;
            version += 1;
            self.set_version(connection, version).await.map_err(failed)?;
        }
        connection.execute("COMMIT").await.map_err(failed)?;
        Ok(())
    }

    // Pragmas take no parameters; a number is safe in the text.
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

    /// Returns the version of a file, if this program supports it.
    fn check_version(&self, found: FoundFile, path: &Path) -> Result<i64> {
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

#[derive(Debug, Clone, Copy)]
struct FoundFile {
    version: i64,
    application: i64,
    empty: bool,
    has_log: bool,
}

impl FoundFile {
    async fn read(connection: &mut SqliteConnection) -> sqlx::Result<Self> {
        // One statement sees one consistent state of the file.
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

/// Turns on the write-ahead log, which stays on with the file. On a file system without shared memory
/// the file keeps its rollback journal, which is slower and as safe.
async fn use_log(connection: &mut SqliteConnection, path: &Path) -> sqlx::Result<()> {
    let mode = connection.fetch_one("PRAGMA journal_mode = WAL").await?;
    if mode.try_get::<String, _>(0)? != "wal" {
        tracing::warn!(path = %path.display(), "the file system does not support a write-ahead log");
    }
    Ok(())
}

/// Held while a file is created. Closing a file drops all locks that the process has on it, however
/// they were taken, so no other thread may have the file open yet.
static MAKING: Mutex<()> = Mutex::new(());

/// Creates an empty file unless it exists, readable and writable by its owner only, whatever the umask
/// is. `SQLite` gives the files beside it the same mode.
pub fn make(path: &Path) -> Result<()> {
    let _making = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    try_make(path).map_err(|source| Error::Io { path: path.to_owned(), source })
}

/// Reports whether a file exists and is not just being created.
pub fn is_there(path: &Path) -> Result<bool> {
    let _making = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    path.try_exists().map_err(|source| Error::Io { path: path.to_owned(), source })
}

fn try_make(path: &Path) -> io::Result<()> {
    let changed = changed_dirs(path);
    if let Some(dir) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    }
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(file) => file.set_permissions(Permissions::from_mode(0o600))?,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(()),
        Err(error) => return Err(error),
    }
    // After a power loss a file is found only if its directory entry was synced.
    changed.iter().try_for_each(|dir| File::open(dir)?.sync_all())
}

/// Returns the directories that get a new entry when a file is created.
fn changed_dirs(path: &Path) -> Vec<PathBuf> {
    let mut dirs = Vec::new();
    for dir in path.ancestors().skip(1) {
        let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
        dirs.push(dir.to_owned());
        if dir.exists() {
            break;
        }
    }
    dirs
}
