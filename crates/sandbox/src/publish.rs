//! Files of the host that a sandbox is shown, and cannot change.
//!
//! They are copied, not mounted: what is shown can change while the sandbox
//! runs, is no part of what it was made with, and a command that writes to it
//! cannot reach the files it was copied from. [`Bundle`] is one version of them
//! in memory, bounded; `shelf.rs` puts it on a directory of the host that the
//! sandbox can read.

mod bundle;
mod shelf;

pub use bundle::{Bundle, BundleContent, BundleError, BundleItem};
pub(crate) use shelf::{lay_out, version_name};

use std::fmt;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::backend::{Backend, Instance};
use crate::engine::Inner;
use crate::key::random_hex;
use crate::store::{SandboxDir, StoreError, make_private_dir};
use crate::{Error, Key};

/// Longest part of a name.
const MAX_PART: usize = 64;

/// What a guest starts from has these names where files are shown.
const TAKEN: [&str; 4] = ["guest", "settings", "stage", "failpoint"];

/// What files are shown under: `skills/deploy`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublishedName {
    shelf: String,
    name: String,
}

impl PublishedName {
    /// Reads two parts with a slash between them, each of letters, digits, `-`
    /// and `_`.
    pub fn new(text: &str) -> Result<Self, PublishError> {
        let invalid = || PublishError::Name(text.to_owned());
        let (shelf, name) = text.split_once('/').ok_or_else(invalid)?;
        let is_part = |part: &str| {
            (1..=MAX_PART).contains(&part.len())
                && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        };
        if !is_part(shelf) || !is_part(name) || TAKEN.contains(&shelf) {
            return Err(invalid());
        }
        Ok(Self { shelf: shelf.to_owned(), name: name.to_owned() })
    }

    /// Returns the part before the slash.
    pub fn shelf(&self) -> &str {
        &self.shelf
    }

    /// Returns the part after it.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for PublishedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.shelf, self.name)
    }
}

/// Why files cannot be shown to a sandbox.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// The name is none.
    #[error(
        "{0:?} is not a valid name for files to show: use letters, digits, - and _, as in skills/deploy"
    )]
    Name(String),
    /// The backend shows no files.
    #[error("backend {0} cannot show files of this machine to its sandboxes")]
    Unsupported(&'static str),
    /// The files cannot be taken.
    #[error("{} cannot be shown to the sandbox: {reason}", path.display())]
    Source {
        /// The directory.
        path: PathBuf,
        /// Why.
        reason: BundleError,
    },
}

/// Where it is kept what a sandbox is shown: a link for each, to where the files
/// come from. They are shown again when the sandbox is rebuilt.
const REMEMBERED: &str = "published";

/// Most that is shown again.
const MOST_REMEMBERED: usize = 500;

/// Keeps where something that is shown comes from. Each has a link of its
/// own, replaced in one step, so that this takes no lock.
pub(crate) fn remember_published(
    engine: &Inner,
    key: &Key,
    name: &PublishedName,
    source: &Path,
) -> Result<(), Error> {
    remember(&engine.dir(key), name, source)
}

/// Shows a new instance what the sandbox was shown before. What is not
/// there any more is forgotten; that something cannot be shown is not a reason
/// to have no sandbox.
pub(crate) async fn publish_again(dir: &SandboxDir, backend: &dyn Backend, instance: &Instance) {
    let Some(publishing) = backend.publishing() else { return };
    for (name, link) in remembered(dir) {
        let Ok(source) = fs::read_link(&link) else { continue };
        let shown = match read_bundle(&source).await {
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

/// Reads what is to be shown.
pub(crate) async fn read_bundle(source: &Path) -> Result<Bundle, Error> {
    let path = source.to_owned();
    let failed = |reason| PublishError::Source { path: source.to_owned(), reason };
    match tokio::task::spawn_blocking(move || Bundle::read(&path)).await {
        Ok(bundle) => Ok(bundle.map_err(failed)?),
        Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
    }
}

fn remember(dir: &SandboxDir, name: &PublishedName, source: &Path) -> Result<(), Error> {
    let shelf = dir.path().join(REMEMBERED).join(name.shelf());
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
    for shelf in entries(&dir.path().join(REMEMBERED)) {
        for entry in entries(&shelf.path()) {
            let (shelf, own) = (shelf.file_name(), entry.file_name());
            let name = format!("{}/{}", shelf.to_string_lossy(), own.to_string_lossy());
            if let Ok(name) = PublishedName::new(&name)
                && found.len() < MOST_REMEMBERED
            {
                found.push((name, entry.path()));
            }
        }
    }
    found.sort();
    found
}
