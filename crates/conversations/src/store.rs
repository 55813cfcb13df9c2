//! The store in the hands of this process.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sqlx::pool::PoolConnection;
use sqlx::{Connection as _, Sqlite, SqliteConnection, SqlitePool};
use tokio::sync::Mutex;

use crate::error::{Error, explain};
use crate::{Result, connect};

/// The conversations of one home. Clones share the connections; any number of
/// processes may have the same file open.
///
/// Dropping a future of a call that writes may leave it done or not done, and
/// never half done.
#[derive(Clone)]
pub struct Store {
    shared: Arc<Shared>,
}

struct Shared {
    path: PathBuf,
    readers: SqlitePool,
    /// Connects when something is first written.
    writer: Mutex<Option<SqliteConnection>>,
}

impl Store {
    pub(crate) fn connected_to(path: &Path) -> Self {
        let path = path.to_owned();
        let readers = connect::readers(&path);
        Self { shared: Arc::new(Shared { path, readers, writer: Mutex::new(None) }) }
    }

    /// Returns the file.
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    pub(crate) async fn reader(&self) -> Result<PoolConnection<Sqlite>> {
        self.shared.readers.acquire().await.map_err(|error| self.explain(error))
    }

    pub(crate) fn writer(&self) -> &Mutex<Option<SqliteConnection>> {
        &self.shared.writer
    }

    pub(crate) fn explain(&self, error: sqlx::Error) -> Error {
        explain(self.path(), error)
    }

    /// Closes the file, for all clones of this store, once those at work are
    /// done. Nothing is lost without it; the file is tidier with it.
    pub async fn close(self) -> Result<()> {
        self.shared.readers.close().await;
        let writer = self.shared.writer.lock().await.take();
        match writer {
            Some(writer) => writer.close().await.map_err(|error| self.explain(error)),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("path", &self.path()).finish_non_exhaustive()
    }
}
