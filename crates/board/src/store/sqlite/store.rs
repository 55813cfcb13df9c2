//! The store in the hands of this process.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;

use super::changes::Watch;
use super::connections::Connections;
use super::transaction::Transaction;
use crate::Result;
use crate::store::{Changes, Clock, Read, Store, Write};

/// What a commit survives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Durability {
    /// The loss of power: each commit is on the disk before it is reported.
    #[default]
    Full,
    /// The death of every process: a loss of power may take the last moments.
    Normal,
}

/// How a store is opened.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// What a commit survives.
    pub durability: Durability,
    /// What it tells the time by.
    pub clock: Clock,
}

/// A board in an `SQLite` file. Any number of processes of this host may have it
/// open, and any number of stores in one process.
pub struct SqliteStore {
    connections: Arc<Connections>,
    clock: Clock,
}

impl SqliteStore {
    pub(super) fn connected_to(path: &Path, options: Options) -> Self {
        let connections = Arc::new(Connections::new(path, options.durability));
        Self { connections, clock: options.clock }
    }

    pub(super) fn connections(&self) -> &Arc<Connections> {
        &self.connections
    }

    /// Returns the file.
    pub fn path(&self) -> &Path {
        self.connections.path()
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn read(&self) -> Result<Box<dyn Read + '_>> {
        Ok(Box::new(Transaction::read(&self.connections, &self.clock).await?))
    }

    async fn write(&self) -> Result<Box<dyn Write + '_>> {
        Ok(Box::new(Transaction::write(&self.connections, &self.clock).await?))
    }

    fn changes(&self) -> Result<Box<dyn Changes>> {
        Ok(Box::new(Watch::new(Arc::clone(&self.connections))?))
    }

    async fn close(&self) -> Result<()> {
        self.connections.close().await
    }
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore").field("path", &self.path()).finish_non_exhaustive()
    }
}
