//! Opening the file: making it if need be, refusing what is not ours.

use std::path::Path;

use crate::schema::LAYOUT;
use crate::store::Store;
use crate::{Result, connect};

impl Store {
    /// Opens the conversations in a file, which is made if it is not there,
    /// readable for its owner alone.
    pub async fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        vestal_database::make(path)?;
        Self::prepare(path).await
    }

    /// Opens the conversations in a file, if there is one; makes none.
    pub async fn open_existing(path: impl AsRef<Path>) -> Result<Option<Self>> {
        let path = path.as_ref();
        if !vestal_database::is_there(path)? {
            return Ok(None);
        }
        Self::prepare(path).await.map(Some)
    }

    async fn prepare(path: &Path) -> Result<Self> {
        let store = Self::connected_to(path);
        let mut reader = store.reader().await?;
        let is_current = LAYOUT.is_current(path, &mut reader).await?;
        drop(reader);
        if !is_current {
            LAYOUT.bring_up(path, &connect::writer(path)).await?;
        }
        Ok(store)
    }
}
