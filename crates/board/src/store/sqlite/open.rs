//! Opening the file: making it if need be, refusing what is not ours.

use std::path::Path;

use super::connect;
use super::connections::Connections;
use super::schema::LAYOUT;
use super::store::{Options, SqliteStore};
use crate::Result;

impl SqliteStore {
    /// Opens the board in a file, which is made if it is not there, readable
    /// for its owner alone.
    pub async fn open(path: impl AsRef<Path>, options: Options) -> Result<Self> {
        let path = path.as_ref();
        vestal_database::make(path)?;
        Self::prepare(path, options).await
    }

    /// Opens the board in a file, if there is one; makes none.
    pub async fn open_existing(path: impl AsRef<Path>, options: Options) -> Result<Option<Self>> {
        let path = path.as_ref();
        if !vestal_database::is_there(path)? {
            return Ok(None);
        }
        Self::prepare(path, options).await.map(Some)
    }

    async fn prepare(path: &Path, options: Options) -> Result<Self> {
        let durability = options.durability;
        let store = Self::connected_to(path, options);
        if !is_current(store.connections()).await? {
            LAYOUT.bring_up(path, &connect::writer(path, durability)).await?;
        }
        Ok(store)
    }
}

async fn is_current(connections: &Connections) -> Result<bool> {
    let mut lease = connections.reader().await?;
    let path = connections.path();
    // A file that nobody can write is read without its log, and cannot be brought up.
    let is_current = if connect::is_at_rest(path) {
        LAYOUT.is_readable(path, lease.on()).await?
    } else {
        LAYOUT.is_current(path, lease.on()).await?
    };
    lease.give_back();
    Ok(is_current)
}
