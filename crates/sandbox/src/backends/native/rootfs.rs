//! `terminal.native_rootfs`: a root filesystem for sandboxes in place of the host's.
//!
//! A directory is used in place and never written to. An archive is unpacked into
//! the cache once per version of its file.

mod unpack;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod unpack_tests;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sha2::{Digest as _, Sha256};

use self::unpack::{UnpackJob, unpack};
use super::cache::{self, CacheKind};
use super::resolve;
use super::settings::{NativeSettings, RootfsSetting};
use crate::ProgressSink;
use crate::backend::BackendError;
use crate::key::hex;

/// A root filesystem that is ready for sandboxes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rootfs {
    pub dir: PathBuf,
    /// Digest that identifies it; layers made on one fit no other.
    pub identity: String,
    /// Whether [`Rootfs::dir`] was unpacked from an archive, and is pruned when no
    /// instance names its identity.
    pub is_unpacked: bool,
    /// Notices for the user.
    pub remarks: Vec<String>,
}

/// Returns the root filesystem of the settings, if they name one. An archive is
/// unpacked into `dir` unless it already was. A cancelled call leaves nothing.
pub(super) async fn provide(
    settings: &NativeSettings,
    dir: &Path,
    progress: &ProgressSink,
) -> Result<Option<Rootfs>, BackendError> {
    let Some(setting) = settings.rootfs.clone() else {
        return Ok(None);
    };
    let (dir, settings) = (dir.to_owned(), settings.clone());
    let (progress, cancelled) = (progress.clone(), CancelOnDrop::default());
    let flag = Arc::clone(&cancelled.0);
    // Unpacking takes long and blocks.
    let made = tokio::task::spawn_blocking(move || {
        provide_blocking(&setting, &settings, &dir, &progress, &flag)
    });
    let made = made.await.map_err(|error| BackendError::Io {
        action: "unpack the root filesystem".to_owned(),
        source: io::Error::other(error),
    })?;
    made.map(Some)
}

/// Stops the unpacking when the caller is dropped.
#[derive(Default)]
struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn provide_blocking(
    setting: &RootfsSetting,
    settings: &NativeSettings,
    dir: &Path,
    progress: &ProgressSink,
    cancelled: &AtomicBool,
) -> Result<Rootfs, BackendError> {
    let (path, compression) = match examine(setting, settings)? {
        RootfsSource::Directory(path) => return use_directory(path),
        RootfsSource::Archive { path, compression } => (path, compression),
    };
    let digest =
        archive_digest(&path).map_err(BackendError::io(format!("read {}", path.display())))?;
    let unpacked = dir.join(CacheKind::Rootfs.name(&digest));
    let failed = |error| BackendError::io(format!("open {}", unpacked.display()))(error);
    let mut remarks = Vec::new();
    if !cache::touch(&unpacked).map_err(failed)? {
        let job = UnpackJob { setting, path: &path, compression, dir, progress, cancelled };
        remarks = unpack(&job, &unpacked)?;
    }
    Ok(Rootfs { dir: unpacked, identity: digest, is_unpacked: true, remarks })
}

/// Returns a directory that is used in place.
fn use_directory(path: PathBuf) -> Result<Rootfs, BackendError> {
    let metadata =
        fs::metadata(&path).map_err(BackendError::io(format!("read {}", path.display())))?;
    let uid = rustix::process::geteuid().as_raw();
    let mut remarks = Vec::new();
    if uid != 0 && metadata.uid() != uid {
        remarks.push(format!(
            "{} belongs to another user: its files cannot be changed in the sandbox",
            path.display()
        ));
    }
    let numbers = [metadata.dev(), metadata.ino()];
    let identity = digest(&path, &numbers);
    Ok(Rootfs { dir: path, identity, is_unpacked: false, remarks })
}

/// Returns the digest of a version of an archive.
fn archive_digest(path: &Path) -> io::Result<String> {
    let found = fs::metadata(path)?;
    let [seconds, nanoseconds] = [found.mtime(), found.mtime_nsec()].map(i64::cast_unsigned);
    Ok(digest(path, &[found.dev(), found.ino(), found.size(), seconds, nanoseconds]))
}

fn digest(path: &Path, numbers: &[u64]) -> String {
    let mut hasher = Sha256::new();
    for number in numbers {
        hasher.update(number.to_le_bytes());
    }
    hasher.update(path.as_os_str().as_bytes());
    hex(&hasher.finalize()[..16])
}

/// What `terminal.native_rootfs` names.
#[derive(Debug, Clone, PartialEq, Eq)]
enum RootfsSource {
    /// A directory, by its real path.
    Directory(PathBuf),
    Archive {
        /// The file, by its real path.
        path: PathBuf,
        compression: ArchiveCompression,
    },
}

/// Checks the setting as far as that is possible without unpacking an archive.
pub(super) fn check(settings: &NativeSettings) -> Result<(), BackendError> {
    match &settings.rootfs {
        Some(rootfs) => examine(rootfs, settings).map(drop),
        None => Ok(()),
    }
}

/// Examines what the setting names.
fn examine(
    setting: &RootfsSetting,
    settings: &NativeSettings,
) -> Result<RootfsSource, BackendError> {
    let path = &setting.path;
    let real = fs::canonicalize(path).map_err(|error| {
        refused(setting, &format!("it cannot be opened: {error}"), NAME_A_SYSTEM)
    })?;
    let metadata = fs::metadata(&real).map_err(|error| {
        refused(setting, &format!("it cannot be opened: {error}"), NAME_A_SYSTEM)
    })?;
    if metadata.is_file() {
        let compression = File::open(&real).and_then(detect_compression).map_err(|error| {
            refused(setting, &format!("it cannot be read: {error}"), "make it readable for you")
        })?;
        return match compression {
            Ok(compression) => Ok(RootfsSource::Archive { path: real, compression }),
            Err(unsupported) => Err(refused(setting, unsupported.problem, unsupported.advice)),
        };
    }
    if !metadata.is_dir() {
        return Err(refused(setting, "it is neither a directory nor a file", NAME_A_SYSTEM));
    }
    if real == Path::new("/") {
        let advice = "remove terminal.native_rootfs: sandboxes see this machine's programs \
                      anyway, and nothing else of it";
        return Err(refused(setting, "it is the root of this machine", advice));
    }
    let known = |dir: &PathBuf| fs::canonicalize(dir).unwrap_or_else(|_| dir.clone());
    // Sandboxes would see Vestal's own files, or lose files that Vestal removes.
    let shows_ours = settings.own_dirs.iter().any(|dir| known(dir).starts_with(&real));
    let is_ours = settings.busy_dirs.iter().any(|dir| real.starts_with(known(dir)));
    if shows_ours || is_ours {
        let advice = "keep the root filesystem in a directory of its own";
        return Err(refused(setting, "Vestal keeps its own files there", advice));
    }
    check_shell(setting, &real)?;
    Ok(RootfsSource::Directory(real))
}

/// Checks that a root filesystem contains a shell.
fn check_shell(setting: &RootfsSetting, root: &Path) -> Result<(), BackendError> {
    let shell = resolve::real_path(root, Path::new("/bin/sh")).ok();
    let shell = shell.and_then(|path| {
        let place = root.join(path.strip_prefix("/").unwrap_or(&path));
        fs::symlink_metadata(place).ok()
    });
    if shell.is_some_and(|found| found.is_file() && found.mode() & 0o111 != 0) {
        return Ok(());
    }
    // `docker save` writes an archive of layers, not a root filesystem.
    if root.join("manifest.json").is_file() || root.join("oci-layout").is_file() {
        return Err(refused(
            setting,
            "it is a saved image, not a root filesystem",
            "make one with `docker export` of a container of that image",
        ));
    }
    Err(refused(setting, "it has no shell /bin/sh", NAME_A_SYSTEM))
}

const NAME_A_SYSTEM: &str = "name a directory or a tar archive that holds a whole system, such as \
                        `debootstrap stable DIRECTORY` or `docker export CONTAINER` makes";

/// Returns the error for a root filesystem that cannot be used.
fn refused(setting: &RootfsSetting, problem: &str, advice: &str) -> BackendError {
    BackendError::Advised {
        problem: format!(
            "terminal.native_rootfs (from {}) is {}: {problem}",
            setting.source,
            setting.path.display()
        ),
        advice: advice.to_owned(),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ArchiveCompression {
    None,
    Gzip,
}

/// A file that is not supported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct UnsupportedFile {
    problem: &'static str,
    advice: &'static str,
}

/// Offset of the magic of a tar archive.
const USTAR_AT: usize = 257;

/// Detects the compression of an archive from its first bytes.
fn detect_compression(
    mut file: impl Read,
) -> io::Result<Result<ArchiveCompression, UnsupportedFile>> {
    let mut start = Vec::new();
    file.by_ref().take(512).read_to_end(&mut start)?;
    let unsupported = |problem, advice| Err(UnsupportedFile { problem, advice });
    Ok(match start.as_slice() {
        [0x1f, 0x8b, ..] => Ok(ArchiveCompression::Gzip),
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => unsupported(
            "it is compressed with xz, which Vestal does not read",
            "unpack it: xz -d FILE",
        ),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => unsupported(
            "it is compressed with zstd, which Vestal does not read",
            "unpack it: zstd -d FILE",
        ),
        [b'B', b'Z', b'h', ..] => unsupported(
            "it is compressed with bzip2, which Vestal does not read",
            "unpack it: bzip2 -d FILE",
        ),
        start if start.get(USTAR_AT..USTAR_AT + 5) == Some(b"ustar") => {
            Ok(ArchiveCompression::None)
        }
        _ => unsupported(
            "it is not a tar archive",
            "name a directory or a tar archive, plain or compressed with gzip",
        ),
    })
}

/// Removes unpacked archives in `dir` that are not in `used` and have not been used
/// for a day, and leftovers of unpacking.
pub(super) fn prune(dir: &Path, used: &BTreeSet<String>) -> io::Result<()> {
    cache::prune(dir, CacheKind::Rootfs, used)
}
