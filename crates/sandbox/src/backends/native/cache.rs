//! Directories that the sandboxes of a home share: each made once, under a name
//! that tells its content, and removed when nobody has a use for it.

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
use super::etc::{self, Picture};
use super::facts::Facts;
use super::private::{self, Private};
use super::records::Label;
use super::rootfs::{self, Rootfs};
use super::settings::NativeSettings;
use super::tier::Tier;
use crate::ProgressSink;
use crate::backend::BackendError;
use crate::key::{hex, random_hex};
use crate::store::make_private_dir;

impl Native {
    /// Returns the picture of this machine's `/etc` as it is now.
    pub(super) fn picture(&self) -> Result<Picture, BackendError> {
        etc::provide(&self.cache_dir())
    }

    /// Returns what of this machine's system directories is not for everyone,
    /// where a sandbox shows them and permissions do not keep it out.
    pub(super) async fn private(&self, tier: Tier, facts: &Facts) -> Result<Private, BackendError> {
        if tier != Tier::Overlay {
            return Ok(Private::default());
        }
        let (facts, dir) = (facts.clone(), self.cache_dir());
        let looked = tokio::task::spawn_blocking(move || private::look(&facts, &dir)).await;
        looked
            .map_err(io::Error::other)
            .flatten()
            .map_err(BackendError::io("look for what is not for everyone below /usr and /opt"))
    }

    /// Returns the root filesystem that the settings name, if they name one.
    pub(super) async fn rootfs(
        &self,
        settings: &NativeSettings,
        progress: &ProgressSink,
    ) -> Result<Option<Rootfs>, BackendError> {
        rootfs::provide(settings, &self.cache_dir(), progress).await
    }

    /// Removes what no instance of the home uses any more, once in the life of
    /// this process. Nobody waits for it, and nobody is told when it fails: the
    /// next process meets the same.
    pub(super) fn tidy_once(&self) {
        if self.tidied.swap(true, Ordering::AcqRel) {
            return;
        }
        let Ok(sandboxes) = self.settings.sandboxes_dir() else {
            return;
        };
        let dir = self.cache_dir();
        tokio::task::spawn_blocking(move || {
            let used = Used::of(&sandboxes.value);
            let pruned =
                etc::prune(&dir, &used.pictures).and_then(|()| rootfs::prune(&dir, &used.rootfs));
            if let Err(error) = pruned {
                tracing::debug!(%error, "not tidied up");
            }
        });
    }
}

/// What instances are made of.
#[derive(Debug, Default, PartialEq, Eq)]
struct Used {
    pictures: BTreeSet<String>,
    rootfs: BTreeSet<String>,
}

impl Used {
    fn of(sandboxes: &Path) -> Self {
        let mut used = Self::default();
        let instances = below(sandboxes).into_iter().flat_map(|dir| below(&dir.join("instances")));
        for made in instances.filter_map(|dir| Label::read(&dir)).map(|label| label.made) {
            used.pictures.extend(made.picture);
            used.rootfs.extend(made.rootfs);
        }
        used
    }
}

fn below(dir: &Path) -> Vec<PathBuf> {
    fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// How long something is kept after it was last asked for. Whoever asks for it
/// is named by an instance only some time later.
const KEPT: Duration = Duration::from_hours(24);

/// How long something may be there before whoever makes it holds it.
const SETTLING: Duration = Duration::from_mins(1);

/// What is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Pictures of `/etc`.
    Etc,
    /// Root filesystems that were unpacked.
    Rootfs,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Self::Etc => "etc",
            Self::Rootfs => "rootfs",
        }
    }

    /// Returns the name of what has a digest.
    pub(super) fn name(self, digest: &str) -> String {
        format!("{}-{digest}", self.word())
    }

    /// Returns the name of what is only being made.
    pub(super) fn temporary(self, random: &str) -> String {
        format!(".{}-{random}.tmp", self.word())
    }

    /// Returns the digest that a name tells.
    fn digest(self, name: &str) -> Option<&str> {
        name.strip_prefix(self.word())?.strip_prefix('-')
    }

    fn is_temporary(self, name: &str) -> bool {
        let rest = name.strip_prefix('.').and_then(|name| name.strip_prefix(self.word()));
        rest.and_then(|rest| rest.strip_prefix('-')?.strip_suffix(".tmp")).is_some()
    }
}

/// Makes the directory that such directories are in.
pub(super) fn make_private(dir: &Path) -> io::Result<()> {
    match fs::DirBuilder::new().mode(0o700).recursive(true).create(dir) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Returns whether something is there, and notes that it is asked for.
pub(super) fn use_now(path: &Path) -> io::Result<bool> {
    match File::open(path) {
        Ok(dir) => {
            dir.set_modified(SystemTime::now())?;
            // Whoever prunes holds this while deciding and removing.
            flock(&dir, FlockOperation::LockShared)?;
            Ok(path.is_dir())
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Gives what was made its name. Whoever was faster has made the same.
pub(super) fn settle(temporary: &Path, name: &Path) -> io::Result<()> {
    // What was put into it may have brought a time of its own along.
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

/// Makes a directory for something that is being made. As long as the result
/// lives, nobody takes it for a leftover.
pub(super) fn begin(temporary: &Path) -> io::Result<File> {
    fs::create_dir(temporary)?;
    // The user's umask may have taken bits away.
    fs::set_permissions(temporary, fs::Permissions::from_mode(0o755))?;
    let dir = File::open(temporary)?;
    flock(&dir, FlockOperation::LockShared)?;
    Ok(dir)
}

/// Removes what of a kind nobody uses, by the digests in `used`, and nobody has
/// asked for lately, and what was never finished by a process that is gone.
pub(super) fn prune(dir: &Path, kind: Kind, used: &BTreeSet<String>) -> io::Result<()> {
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
            remove_leftover(&entry.path())?;
        } else if kind.digest(name).is_some_and(|digest| !used.contains(digest)) {
            remove_unused(dir, &entry.path(), kind)?;
        }
    }
    Ok(())
}

/// Removes what of a kind was never finished by a process that is gone.
pub(super) fn prune_leftovers(dir: &Path, kind: Kind) -> io::Result<()> {
    for entry in fs::read_dir(dir)?.flatten() {
        if entry.file_name().to_str().is_some_and(|name| kind.is_temporary(name)) {
            remove_leftover(&entry.path())?;
        }
    }
    Ok(())
}

fn remove_leftover(path: &Path) -> io::Result<()> {
    match lock(path)? {
        Some(dir) if is_older(&dir, SETTLING)? => remove(path),
        _ => Ok(()),
    }
}

fn remove_unused(dir: &Path, path: &Path, kind: Kind) -> io::Result<()> {
    let Some(held) = lock(path)? else {
        return Ok(());
    };
    if !is_older(&held, KEPT)? {
        return Ok(());
    }
    // Out of sight first: nobody starts to use half of it.
    let aside: PathBuf = dir.join(kind.temporary(&random_hex::<8>()?));
    fs::rename(path, &aside)?;
    drop(held);
    remove(&aside)
}

/// Locks a directory; nothing if somebody else has it, or it is gone.
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
    // A clock that was set back makes nothing old.
    Ok(modified.elapsed().is_ok_and(|age| age > than))
}

/// Removes a directory with all that is in it, also where its own permissions
/// are in the way.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {}
        other => return other,
    }
    open_up(path)?;
    fs::remove_dir_all(path)
}

fn open_up(dir: &Path) -> io::Result<()> {
    let mode = fs::symlink_metadata(dir)?.mode();
    if mode & 0o700 != 0o700 {
        fs::set_permissions(dir, fs::Permissions::from_mode(mode & 0o7777 | 0o700))?;
    }
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            open_up(&entry.path())?;
        }
    }
    Ok(())
}

/// Returns whether a text is new to the users of a home, and remembers that it
/// is not any more. Where that cannot be remembered, it is said again.
pub(super) fn is_new(dir: &Path, text: &str) -> bool {
    let name = format!("said-{}", hex(&Sha256::digest(text.as_bytes())[..8]));
    if let Err(error) = make_private_dir(dir) {
        tracing::debug!(%error, "not remembered");
        return true;
    }
    let made = OpenOptions::new().write(true).create_new(true).open(dir.join(name));
    !matches!(made, Err(error) if error.kind() == ErrorKind::AlreadyExists)
}

#[cfg(test)]
#[path = "cache_tests.rs"]
mod tests;
