//! One process at a time makes, removes and chooses boards.

use std::fs::{DirBuilder, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::{Error, Result};

const FILE: &str = ".boards.lock";

/// The right to change which boards there are. The system takes it back from a
/// process that dies.
#[derive(Debug)]
pub(super) struct CatalogueLock {
    _file: File,
}

impl CatalogueLock {
    /// Waits for it. The root is made if it is not there.
    pub(super) async fn acquire(root: &Path) -> Result<Self> {
        let path = root.join(FILE);
        let failed = {
            let path = path.clone();
            move |source| Error::Io { action: "lock", path, source }
        };
        let locked = tokio::task::spawn_blocking(move || lock(&path)).await;
        let file = locked.map_err(std::io::Error::other).and_then(|locked| locked);
        file.map(|file| Self { _file: file }).map_err(failed)
    }
}

fn lock(path: &PathBuf) -> std::io::Result<File> {
    if let Some(root) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(root)?;
    }
    let mut options = OpenOptions::new();
    let file =
        options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
    file.lock()?;
    Ok(file)
}
