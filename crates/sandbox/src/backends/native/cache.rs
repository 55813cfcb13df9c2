//! The cache of a home: snapshots of `/etc` and unpacked root filesystems, which
//! its sandboxes share. Each entry is made once, is named by a digest of its
//! content, and is removed when no instance uses it.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use rustix::fs::{FlockOperation, flock};
use sha2::{Digest as _, Sha256};

use super::backend::Native;
use super::etc::{self, EtcSnapshot};
use super::facts::HostFacts;
use super::private::{self, PrivatePaths};
use super::records::NativeLabel;
use super::rootfs::{self, Rootfs};
use super::settings::NativeSettings;
use super::tier::Tier;
use crate::ProgressSink;
use crate::backend::BackendError;
use crate::key::{hex, random_hex};
use crate::settings::SandboxSettings as _;
use crate::store::make_private_dir;

impl Native {
    /// Returns the snapshot of this machine's current `/etc`.
    pub(super) fn etc_snapshot(&self) -> Result<EtcSnapshot, BackendError> {
        etc::provide(&self.cache_dir())
    }

    /// Returns the files of the system directories that not everyone may read. Only
    /// the overlay tier needs them: in the others, permissions hide those files.
    pub(super) async fn private_paths(
        &self,
        tier: Tier,
        facts: &HostFacts,
    ) -> Result<PrivatePaths, BackendError> {
        if tier != Tier::Overlay {
            return Ok(PrivatePaths::default());
        }
        let (facts, dir) = (facts.clone(), self.cache_dir());
        let found = tokio::task::spawn_blocking(move || private::find(&facts, &dir)).await;
        found
            .map_err(io::Error::other)
            .flatten()
            .map_err(BackendError::io("scan /usr and /opt for files that are not world-readable"))
    }

    /// Returns the root filesystem of the settings, if they name one.
    pub(super) async fn rootfs(
        &self,
        settings: &NativeSettings,
        progress: &ProgressSink,
    ) -> Result<Option<Rootfs>, BackendError> {
        rootfs::provide(settings, &self.cache_dir(), progress).await
    }

    /// Removes cache entries that no instance of the home uses, once per process and
    /// in the background. A failure is only logged: the next process tries again.
    pub(super) fn prune_once(&self) {
        if self.pruned.swap(true, Ordering::AcqRel) {
            return;
        }
        let Ok(sandboxes) = self.settings.sandboxes_dir() else {
            return;
        };
        let dir = self.cache_dir();
        tokio::task::spawn_blocking(move || {
            let used = UsedEntries::of(&sandboxes.value);
            let pruned =
                etc::prune(&dir, &used.etc).and_then(|()| rootfs::prune(&dir, &used.rootfs));
            if let Err(error) = pruned {
                tracing::debug!(%error, "cannot prune the cache");
            }
        });
    }
}

/// Digests of the cache entries that instances use.
#[derive(Debug, Default, PartialEq, Eq)]
struct UsedEntries {
    etc: BTreeSet<String>,
    rootfs: BTreeSet<String>,
}

impl UsedEntries {
    fn of(sandboxes: &Path) -> Self {
        let mut used = Self::default();
        let instances = below(sandboxes).into_iter().flat_map(|dir| below(&dir.join("instances")));
        for made in instances.filter_map(|dir| NativeLabel::read(&dir)).map(|label| label.system) {
            used.etc.extend(made.etc_snapshot);
            used.rootfs.extend(made.rootfs);
        }
        used
    }
}

fn below(dir: &Path) -> Vec<PathBuf> {
    fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// How long an unused entry is kept after its last use. An instance that is being
/// made names its entries only when its label is written.
const KEEP_UNUSED: Duration = Duration::from_hours(24);

/// How old an unlocked temporary directory must be to count as a leftover: its
/// maker locks it a moment after making it.
const LOCK_GRACE: Duration = Duration::from_mins(1);

/// The kinds of cache entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CacheKind {
    /// A snapshot of `/etc`.
    Etc,
    /// An unpacked root filesystem.
    Rootfs,
}

impl CacheKind {
    fn prefix(self) -> &'static str {
        match self {
            Self::Etc => "etc",
            Self::Rootfs => "rootfs",
        }
    }

    /// Returns the directory name of a finished entry.
    pub(super) fn name(self, digest: &str) -> String {
        format!("{}-{digest}", self.prefix())
    }

    /// Returns the directory name of an entry that is being made.
    pub(super) fn temporary(self, random: &str) -> String {
        format!(".{}-{random}.tmp", self.prefix())
    }

    /// Returns the digest in the name of a finished entry.
    fn digest(self, name: &str) -> Option<&str> {
        name.strip_prefix(self.prefix())?.strip_prefix('-')
    }

    fn is_temporary(self, name: &str) -> bool {
        let rest = name.strip_prefix('.').and_then(|name| name.strip_prefix(self.prefix()));
        rest.and_then(|rest| rest.strip_prefix('-')?.strip_suffix(".tmp")).is_some()
    }
}

/// Makes the cache directory.
pub(super) fn make_cache_dir(dir: &Path) -> io::Result<()> {
    match fs::DirBuilder::new().mode(0o700).recursive(true).create(dir) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Returns whether an entry exists, and marks it as used now.
pub(super) fn touch(path: &Path) -> io::Result<bool> {
    match File::open(path) {
        Ok(dir) => {
            dir.set_modified(SystemTime::now())?;
            // Pruning holds the exclusive lock while it decides and removes.
            flock(&dir, FlockOperation::LockShared)?;
            Ok(path.is_dir())
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Renames a finished entry to its final name. An entry that another process
/// finished first has the same content, and this one is removed.
pub(super) fn publish(temporary: &Path, name: &Path) -> io::Result<()> {
    // Unpacking may have set the directory's time from the archive.
    File::open(temporary)?.set_modified(SystemTime::now())?;
    match fs::rename(temporary, name) {
        Err(error)
            if matches!(error.kind(), ErrorKind::DirectoryNotEmpty | ErrorKind::AlreadyExists) =>
        {
            remove(temporary)
        }
        other => other,
    }
}

/// Makes the temporary directory of an entry. The returned file holds a lock that
/// keeps pruning away.
pub(super) fn start_entry(temporary: &Path) -> io::Result<File> {
    fs::create_dir(temporary)?;
    // The umask may have cleared bits.
    fs::set_permissions(temporary, fs::Permissions::from_mode(0o755))?;
    let dir = File::open(temporary)?;
    flock(&dir, FlockOperation::LockShared)?;
    Ok(dir)
}

/// Removes entries of a kind that are not in `used` and have not been used for
/// [`KEEP_UNUSED`], and leftovers of processes that are gone.
pub(super) fn prune(dir: &Path, kind: CacheKind, used: &BTreeSet<String>) -> io::Result<()> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str() else {
            continue;
        };
        if kind.is_temporary(name) {
            remove_if_leftover(&entry.path())?;
        } else if kind.digest(name).is_some_and(|digest| !used.contains(digest)) {
            remove_if_unused(dir, &entry.path(), kind)?;
        }
    }
    Ok(())
}

/// Removes only the leftovers of processes that are gone.
pub(super) fn prune_leftovers(dir: &Path, kind: CacheKind) -> io::Result<()> {
    for entry in fs::read_dir(dir)?.flatten() {
        if entry.file_name().to_str().is_some_and(|name| kind.is_temporary(name)) {
            remove_if_leftover(&entry.path())?;
        }
    }
    Ok(())
}

fn remove_if_leftover(path: &Path) -> io::Result<()> {
    match lock(path)? {
        Some(dir) if is_older(&dir, LOCK_GRACE)? => remove(path),
        _ => Ok(()),
    }
}

fn remove_if_unused(dir: &Path, path: &Path, kind: CacheKind) -> io::Result<()> {
    let Some(lock) = lock(path)? else {
        return Ok(());
    };
    if !is_older(&lock, KEEP_UNUSED)? {
        return Ok(());
    }
    // Renamed first, so that nobody uses a half-removed entry.
    let aside: PathBuf = dir.join(kind.temporary(&random_hex::<8>()?));
    fs::rename(path, &aside)?;
    drop(lock);
    remove(&aside)
}

/// Locks a directory; `None` if it is locked by another process or gone.
fn lock(path: &Path) -> io::Result<Option<File>> {
    let dir = match File::open(path) {
        Ok(dir) => dir,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    match flock(&dir, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(dir)),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn is_older(dir: &File, than: Duration) -> io::Result<bool> {
    let modified = dir.metadata()?.modified()?;
    // A time in the future (the clock was set back) does not count as old.
    Ok(modified.elapsed().is_ok_and(|age| age > than))
}

/// Removes a directory with its content, even if permissions forbid it.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {}
        other => return other,
    }
    make_removable(path)?;
    fs::remove_dir_all(path)
}

/// Gives the owner all permissions on all directories of a tree.
fn make_removable(dir: &Path) -> io::Result<()> {
    let mode = fs::symlink_metadata(dir)?.mode();
    if mode & 0o700 != 0o700 {
        fs::set_permissions(dir, fs::Permissions::from_mode(mode & 0o7777 | 0o700))?;
    }
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            make_removable(&entry.path())?;
        }
    }
    Ok(())
}

/// Returns whether a notice is shown for the first time in this home, and records
/// that it was. If that cannot be recorded, the notice is shown again.
pub(super) fn is_first_notice(dir: &Path, text: &str) -> bool {
    let name = format!("said-{}", hex(&Sha256::digest(text.as_bytes())[..8]));
    if let Err(error) = make_private_dir(dir) {
        tracing::debug!(%error, "cannot record that a notice was shown");
        return true;
    }
    let made = OpenOptions::new().write(true).create_new(true).open(dir.join(name));
    !matches!(made, Err(error) if error.kind() == ErrorKind::AlreadyExists)
}

#[cfg(test)]
#[path = "cache_tests.rs"]
mod tests;
