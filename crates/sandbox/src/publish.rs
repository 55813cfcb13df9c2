//! Files of the host that a sandbox is shown, and cannot change.
//!
//! They are copied, not mounted: what is shown can change while the sandbox
//! runs, is no part of what it was made with, and a command that writes to it
//! cannot reach the files it was copied from. [`Bundle`] is one version of them
//! in memory, bounded; it is put on a directory of the host that the sandbox can read.
//!
//! A version is a directory whose name holds its digest, and the name it is
//! shown under a link to it, which is replaced in one step. So a process that
//! opens a file sees one version or the other, and a crash leaves at most rubbish that
//! the next one sweeps.

mod bundle;

use std::fmt;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use crate::backend::{Backend, Instance};
use crate::engine::Inner;
use crate::key::random_hex;
use crate::store::{SandboxDir, StoreError, make_private_dir};
use crate::{Error, Key};

pub use bundle::{Bundle, BundleContent, BundleError, BundleItem};

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

/// Returns the name of a version's directory. Names have no dots, so that a
/// version is never taken for one of another name.
pub(crate) fn version_name(name: &PublishedName, bundle: &Bundle) -> String {
    format!(".{}.{}", name.name(), bundle.digest())
}

/// Puts a bundle below `root`, a directory that is there, unless it is there
/// already, whole. Versions before it are removed.
///
/// Only for one at a time: the caller holds a lock.
pub(crate) fn lay_out(root: &Path, name: &PublishedName, bundle: &Bundle) -> io::Result<()> {
    let shelf = root.join(name.shelf());
    make_dir(&shelf)?;
    let version = version_name(name, bundle);
    let (place, link) = (shelf.join(&version), shelf.join(name.name()));
    let is_shown = fs::read_link(&link).is_ok_and(|target| target.as_os_str() == &*version);
    // Root of the host can have changed it.
    let is_whole = Bundle::read(&place).is_ok_and(|there| there.digest() == bundle.digest());
    if !is_whole {
        let made = shelf.join(format!("{version}.{}", random_hex::<4>()?));
        write(&made, bundle)?;
        if place.symlink_metadata().is_ok() {
            fs::rename(&place, shelf.join(format!("{version}.{}", random_hex::<4>()?)))?;
        }
        fs::rename(&made, &place)?;
    }
    if !is_shown {
        let new = shelf.join(format!("{version}.{}", random_hex::<4>()?));
        symlink(&version, &new)?;
        if fs::symlink_metadata(&link).is_ok_and(|found| found.is_dir()) {
            // None of ours: a link cannot take its place.
            fs::rename(&link, shelf.join(format!("{version}.{}", random_hex::<4>()?)))?;
        }
        fs::rename(&new, &link)?;
    }
    sweep(&shelf, name, &version);
    Ok(())
}

fn write(root: &Path, bundle: &Bundle) -> io::Result<()> {
    make_dir(root)?;
    for BundleItem { path, content } in bundle.items() {
        let path = root.join(path);
        match content {
            BundleContent::Dir => make_dir(&path)?,
            BundleContent::Link(target) => symlink(target, &path)?,
            BundleContent::File { bytes, executable } => {
                let mode = if *executable { 0o555 } else { 0o444 };
                let mut file = OpenOptions::new().write(true).create_new(true).open(&path)?;
                file.write_all(bytes)?;
                // Beside who may write, the user's umask has no say in this.
                file.set_permissions(fs::Permissions::from_mode(mode))?;
            }
        }
    }
    Ok(())
}

/// Makes a directory that everyone may read, unless it is there. Its owner may
/// write to it, or nobody could remove it again.
fn make_dir(dir: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o755).create(dir) {
        Ok(()) => fs::set_permissions(dir, fs::Permissions::from_mode(0o755)),
        Err(error) if error.kind() == ErrorKind::AlreadyExists && !dir.is_symlink() => Ok(()),
        Err(error) => Err(error),
    }
}

/// Removes other versions, and what a crash left of one.
fn sweep(shelf: &Path, name: &PublishedName, version: &str) {
    let prefix = format!(".{}.", name.name());
    for entry in fs::read_dir(shelf).into_iter().flatten().flatten() {
        let found = entry.file_name();
        let is_other = found.to_str().is_some_and(|own| own.starts_with(&prefix) && own != version);
        if !is_other {
            continue;
        }
        let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let removed =
            if is_dir { fs::remove_dir_all(entry.path()) } else { fs::remove_file(entry.path()) };
        if let Err(error) = removed {
            // It is met again next time.
            tracing::debug!(%error, path = %entry.path().display(), "left for later");
        }
    }
}

#[cfg(test)]
#[path = "publish/shelf_tests.rs"]
mod tests;
