//! Opening the file: making it if need be, refusing what is not ours.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use sqlx::{ConnectOptions as _, Connection as _, Executor as _, Row as _, SqliteConnection};

use super::connect;
use super::connections::{Connections, Patience};
use super::explain::{explain, is_busy};
use super::schema::{self, APPLICATION, VERSION};
use super::store::{Durability, Options, SqliteStore};
use crate::{Error, Result};

/// What a file is, as it says itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found {
    version: i64,
    application: i64,
    empty: bool,
    has_log: bool,
}

impl Found {
    pub(super) async fn read(connection: &mut SqliteConnection) -> sqlx::Result<Self> {
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

    /// Returns the version of the file, which this program can work with.
    pub(super) fn checked(self, path: &Path) -> Result<i64> {
        match self.version {
            0 if self.empty => Ok(0),
            _ if self.application != APPLICATION => Err(Error::Foreign { path: path.to_owned() }),
            found if found > VERSION => {
                Err(Error::Newer { path: path.to_owned(), found, supported: VERSION })
            }
            1.. => Ok(self.version),
            _ => Err(Error::Foreign { path: path.to_owned() }),
        }
    }
}

impl SqliteStore {
    /// Opens the board in a file, which is made if it is not there, readable
    /// for its owner alone.
    pub async fn open(path: impl AsRef<Path>, options: Options) -> Result<Self> {
        let path = path.as_ref();
        make(path).map_err(|source| Error::Io { action: "make", path: path.to_owned(), source })?;
        Self::prepare(path, options).await
    }

    /// Opens the board in a file, if there is one; makes none.
    pub async fn open_existing(path: impl AsRef<Path>, options: Options) -> Result<Option<Self>> {
        let path = path.as_ref();
        let there = {
            let _making = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
            path.try_exists().map_err(|source| Error::Io {
                action: "look at",
                path: path.to_owned(),
                source,
            })?
        };
        if there { Self::prepare(path, options).await.map(Some) } else { Ok(None) }
    }

    async fn prepare(path: &Path, options: Options) -> Result<Self> {
        let durability = options.durability;
        let store = Self::connected_to(path, options);
        let found = look(store.connections()).await?;
        if found.checked(path)? < VERSION || !found.has_log {
            bring_up(path, durability).await?;
        }
        Ok(store)
    }
}

/// Looks what the file is. A reader does: it cannot change anything in a file
/// that is not for this program, not even by closing it.
async fn look(connections: &Connections) -> Result<Found> {
    let mut lease = connections.reader().await?;
    let found = Found::read(lease.on()).await;
    let found = found.map_err(|error| explain(connections.path(), error))?;
    lease.give_back();
    Ok(found)
}

/// Brings a file that is new, of an earlier version or without a log to what
/// this program works with. Many processes may do it at once.
async fn bring_up(path: &Path, durability: Durability) -> Result<()> {
    let mut patience = Patience::new(path);
    let failed = |error| explain(path, error);
    loop {
        let mut writer = connect::writer(path, durability).connect().await.map_err(failed)?;
        // SQLite does not wait by itself for those who hinder this change.
        match schema::use_log(&mut writer).await {
            Ok(()) => {
                schema::migrate(&mut writer, path).await?;
                return writer.close().await.map_err(failed);
            }
            Err(error) if is_busy(&error) => patience.pause().await?,
            Err(error) => return Err(explain(path, error)),
        }
    }
}

/// Held while a file is made. The system drops all of a process's locks on a
/// file when the process closes it, however it was opened; so nobody in this
/// process may have it open yet.
static MAKING: Mutex<()> = Mutex::new(());

/// Makes the file unless it is there: empty, and never open to others, whatever
/// the process's mask is. The files beside it get its mode.
fn make(path: &Path) -> io::Result<()> {
    let _making = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    let news = with_news(path);
    if let Some(dir) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    }
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(file) => file.set_permissions(Permissions::from_mode(0o600))?,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(()),
        Err(error) => return Err(error),
    }
    // What is in a file survives a loss of power only if its name does.
    news.iter().try_for_each(|dir| File::open(dir)?.sync_all())
}

/// Returns the directories that get a new name in them when a file is made.
fn with_news(path: &Path) -> Vec<PathBuf> {
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
