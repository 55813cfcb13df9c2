//! A board as this process has it open.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_recursion::async_recursion as boxed;

use crate::Result;
use crate::id::HostId;
use crate::store::{BoardStore, Changes, Read, Write};

/// One board. Clones share its connections; any number of processes, on any
/// number of hosts where the store allows it, may have it open.
///
/// What it can be asked is in [`crate::verbs`].
#[derive(Clone)]
pub struct Board {
    shared: Arc<BoardShared>,
}

struct BoardShared {
    store: Arc<dyn BoardStore>,
    slug: String,
    /// Where this host keeps the board's logs, attachments and worktrees.
    dir: PathBuf,
    host: HostId,
}

impl Board {
    /// Returns the board that a store keeps.
    pub fn new(store: Arc<dyn BoardStore>, slug: &str, dir: &Path, host: HostId) -> Self {
        let shared = BoardShared { store, slug: slug.to_owned(), dir: dir.to_owned(), host };
        Self { shared: Arc::new(shared) }
    }

    /// Returns its name.
    pub fn slug(&self) -> &str {
        &self.shared.slug
    }

    /// Returns where this host keeps its logs, attachments and worktrees.
    pub fn dir(&self) -> &Path {
        &self.shared.dir
    }

    /// Returns this host, as the board knows it.
    pub fn host(&self) -> &HostId {
        &self.shared.host
    }

    /// Begins a read transaction: it sees the board at one moment.
    #[boxed]
    pub async fn read(&self) -> Result<Box<dyn Read + '_>> {
        self.shared.store.read().await
    }

    /// Begins a write transaction. Dropped without a commit, it is rolled back.
    #[boxed]
    pub async fn write(&self) -> Result<Box<dyn Write + '_>> {
        self.shared.store.write().await
    }

    /// Returns a stream of changes by any process.
    pub fn changes(&self) -> Result<Box<dyn Changes>> {
        self.shared.store.changes()
    }

    /// Closes it for all clones. Nothing is lost without it; it merges the log into the file.
    #[boxed]
    pub async fn close(&self) -> Result<()> {
        self.shared.store.close().await
    }
}

impl fmt::Debug for Board {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Board").field("slug", &self.slug()).finish_non_exhaustive()
    }
}
