//! Showing files of the host to a sandbox.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::Inner;
use crate::backend::{Backend, Instance};
use crate::key::random_hex;
use crate::publish::{Bundle, PublishError, PublishedName};
use crate::store::{SandboxDir, StoreError, make_private_dir};
use crate::{Error, Key};

/// Where it is kept what a sandbox is shown: a link for each, to where the files
/// come from. Whoever makes the sandbox anew shows them again.
const DIR: &str = "published";

/// Most that is shown again.
const MOST: usize = 500;

impl Inner {
    /// Keeps where something that is shown comes from. Each has a link of its
    /// own, replaced in one step, so that this takes no lock.
    pub(crate) fn remember_published(
        &self,
        key: &Key,
        name: &PublishedName,
        source: &Path,
    ) -> Result<(), Error> {
        remember(&self.dir(key), name, source)
    }

    /// Shows a new instance what the sandbox was shown before. What is not
    /// there any more is forgotten; that something cannot be shown is no reason
    /// to have no sandbox.
    pub(super) async fn publish_again(
        &self,
        dir: &SandboxDir,
        backend: &dyn Backend,
        instance: &Instance,
    ) {
        let Some(publishing) = backend.publishing() else { return };
        for (name, link) in remembered(dir) {
            let Ok(source) = fs::read_link(&link) else { continue };
            let shown = match read(&source).await {
                Ok(bundle) => publishing.publish(instance, &name, &bundle).await.map(drop),
                Err(_) if !source.is_dir() => {
                    fs::remove_file(&link).ok();
                    continue;
                }
                Err(error) => {
                    tracing::debug!(%error, %name, "not shown again");
                    continue;
                }
            };
            if let Err(error) = shown {
                tracing::warn!(%error, %name, "cannot be shown to the sandbox");
            }
        }
    }
}

/// Reads what is to be shown.
pub(crate) async fn read(source: &Path) -> Result<Bundle, Error> {
    let path = source.to_owned();
    let failed = |reason| PublishError::Source { path: source.to_owned(), reason };
    match tokio::task::spawn_blocking(move || Bundle::read(&path)).await {
        Ok(bundle) => Ok(bundle.map_err(failed)?),
        Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
    }
}

fn remember(dir: &SandboxDir, name: &PublishedName, source: &Path) -> Result<(), Error> {
    let shelf = dir.path().join(DIR).join(name.shelf());
    let link = shelf.join(name.name());
    if fs::read_link(&link).is_ok_and(|known| known == source) {
        return Ok(());
    }
    make_private_dir(&shelf)?;
    let kept = random_hex::<6>().and_then(|random| {
        let new = shelf.join(format!(".{}-{random}.tmp", name.name()));
        symlink(source, &new)?;
        fs::rename(&new, &link).inspect_err(|_| {
            fs::remove_file(&new).ok();
        })
    });
    Ok(kept.map_err(|error| StoreError::io("write", link, error))?)
}

/// Returns what a sandbox is shown, and the links to where that comes from.
fn remembered(dir: &SandboxDir) -> Vec<(PublishedName, PathBuf)> {
    let entries = |path: &Path| fs::read_dir(path).into_iter().flatten().flatten();
    let mut found = Vec::new();
    for shelf in entries(&dir.path().join(DIR)) {
        for entry in entries(&shelf.path()) {
            let (shelf, own) = (shelf.file_name(), entry.file_name());
            let name = format!("{}/{}", shelf.to_string_lossy(), own.to_string_lossy());
            if let Ok(name) = PublishedName::new(&name)
                && found.len() < MOST
            {
                found.push((name, entry.path()));
            }
        }
    }
    found.sort();
    found
}
