//! A board in the hands of this process.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::Result;
use crate::host::Host;
use crate::store::{Changes, Read, Store, Write};

/// One board. Clones share its connections; any number of processes, on any
/// number of hosts where the store allows it, may have it open.
///
/// What it can be asked is in [`crate::verbs`].
#[derive(Clone)]
pub struct Board {
    shared: Arc<Shared>,
}

struct Shared {
    store: Arc<dyn Store>,
    slug: String,
    /// Where this host keeps the board's logs, attachments and worktrees.
    dir: PathBuf,
    host: Host,
}

impl Board {
    /// Returns the board that a store keeps.
    pub fn new(store: Arc<dyn Store>, slug: &str, dir: &Path, host: Host) -> Self {
        let shared = Shared { store, slug: slug.to_owned(), dir: dir.to_owned(), host };
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
    pub fn host(&self) -> &Host {
        &self.shared.host
    }

    /// Begins to read: all of it sees the board at one moment.
    pub async fn read(&self) -> Result<Box<dyn Read + '_>> {
        self.shared.store.read().await
    }

    /// Begins to write. What is not committed did not happen.
    pub async fn write(&self) -> Result<Box<dyn Write + '_>> {
        self.shared.store.write().await
    }

    /// Returns what tells of changes, whoever makes them.
    pub fn changes(&self) -> Result<Box<dyn Changes>> {
        self.shared.store.changes()
    }

    /// Closes it, for all clones. Nothing is lost without it; the file is
    /// tidier with it.
    pub async fn close(&self) -> Result<()> {
        self.shared.store.close().await
    }
}

impl fmt::Debug for Board {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Board").field("slug", &self.slug()).finish_non_exhaustive()
    }
}
