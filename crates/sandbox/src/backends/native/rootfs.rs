//! `terminal.native_rootfs`: a system for sandboxes that is not the host's.
//!
//! A directory is used where it is; nothing is ever written to it. An archive is
//! unpacked once per state of its file, beside others that the sandboxes of a
//! home share.

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

use self::unpack::{Job, unpack};
use super::cache::{self, Kind};
use super::resolve;
use super::settings::{NativeSettings, RootfsSetting};
use crate::ProgressSink;
use crate::backend::BackendError;
use crate::key::hex;

/// A root filesystem that sandboxes can be made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rootfs {
    /// Where it is.
    pub dir: PathBuf,
    /// What tells it from others: what is kept over one fits no other.
    pub identity: String,
    /// Whether [`Rootfs::dir`] was unpacked from an archive, and is removed when
    /// no instance names its identity.
    pub is_unpacked: bool,
    /// What its users should hear about.
    pub remarks: Vec<String>,
}

/// Returns the root filesystem that the settings name, if they name one. An
/// archive is unpacked into `dir` if that has not been done; a call that is
/// given up on leaves nothing.
pub(super) async fn provide(
    settings: &NativeSettings,
    dir: &Path,
    progress: &ProgressSink,
) -> Result<Option<Rootfs>, BackendError> {
    let Some(setting) = settings.rootfs.clone() else {
        return Ok(None);
    };
    let (dir, settings) = (dir.to_owned(), settings.clone());
    let (progress, given_up) = (progress.clone(), GivenUp::default());
    let watched = Arc::clone(&given_up.0);
    // A whole system is many files.
    let made = tokio::task::spawn_blocking(move || {
        provide_now(&setting, &settings, &dir, &progress, &watched)
    });
    let made = made.await.map_err(|error| BackendError::Io {
        action: "unpack the root filesystem".to_owned(),
        source: io::Error::other(error),
    })?;
    made.map(Some)
}

/// Tells whoever unpacks that nobody waits any more.
#[derive(Default)]
struct GivenUp(Arc<AtomicBool>);

impl Drop for GivenUp {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn provide_now(
    setting: &RootfsSetting,
    settings: &NativeSettings,
    dir: &Path,
    progress: &ProgressSink,
    given_up: &AtomicBool,
) -> Result<Rootfs, BackendError> {
    let (path, compression) = match find(setting, settings)? {
        Found::Directory(path) => return directory(path),
        Found::Archive { path, compression } => (path, compression),
    };
    let digest =
        archive_digest(&path).map_err(BackendError::io(format!("look at {}", path.display())))?;
    let unpacked = dir.join(Kind::Rootfs.name(&digest));
    let failed = |error| BackendError::io(format!("look at {}", unpacked.display()))(error);
    let mut remarks = Vec::new();
    if !cache::use_now(&unpacked).map_err(failed)? {
        let job = Job { setting, path: &path, compression, dir, progress, given_up };
        remarks = unpack(&job, &unpacked)?;
    }
    Ok(Rootfs { dir: unpacked, identity: digest, is_unpacked: true, remarks })
}

/// Returns a directory as it is.
fn directory(path: PathBuf) -> Result<Rootfs, BackendError> {
    let metadata =
        fs::metadata(&path).map_err(BackendError::io(format!("look at {}", path.display())))?;
    let uid = rustix::process::geteuid().as_raw();
    let mut remarks = Vec::new();
    if uid != 0 && metadata.uid() != uid {
        remarks.push(format!(
            "{} belongs to somebody else: what is in it cannot be changed in the sandbox",
            path.display()
        ));
    }
    let numbers = [metadata.dev(), metadata.ino()];
    let identity = digest(&path, &numbers);
    Ok(Rootfs { dir: path, identity, is_unpacked: false, remarks })
}

/// Returns what tells a state of an archive from others.
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

/// What a root filesystem is in.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Found {
    /// A directory, by its real name.
    Directory(PathBuf),
    /// An archive.
    Archive {
        /// The file, by its real name.
        path: PathBuf,
        /// How it is compressed.
        compression: Compression,
    },
}

/// Checks that what the settings name is there and can be a root filesystem, as
/// far as that can be told without unpacking it.
pub(super) fn check(settings: &NativeSettings) -> Result<(), BackendError> {
    match &settings.rootfs {
        Some(rootfs) => find(rootfs, settings).map(drop),
        None => Ok(()),
    }
}

/// Looks at what the setting names.
fn find(setting: &RootfsSetting, settings: &NativeSettings) -> Result<Found, BackendError> {
    let path = &setting.path;
    let real = fs::canonicalize(path)
        .map_err(|error| refused(setting, &format!("it cannot be opened: {error}"), MAKE_ONE))?;
    let metadata = fs::metadata(&real)
        .map_err(|error| refused(setting, &format!("it cannot be opened: {error}"), MAKE_ONE))?;
    if metadata.is_file() {
        let compression = File::open(&real).and_then(recognise).map_err(|error| {
            refused(setting, &format!("it cannot be read: {error}"), "make it readable for you")
        })?;
        return match compression {
            Ok(compression) => Ok(Found::Archive { path: real, compression }),
            Err(unknown) => Err(refused(setting, unknown.problem, unknown.advice)),
        };
    }
    if !metadata.is_dir() {
        return Err(refused(setting, "it is neither a directory nor a file", MAKE_ONE));
    }
    if real == Path::new("/") {
        let advice = "leave terminal.native_rootfs out: sandboxes see this machine's programs \
                      anyway, and nothing else of it";
        return Err(refused(setting, "it is the root of this machine", advice));
    }
    let known = |dir: &PathBuf| fs::canonicalize(dir).unwrap_or_else(|_| dir.clone());
    // What is in it is seen by sandboxes, and what we remove would be gone there.
    let shows_ours = settings.own_dirs.iter().any(|dir| known(dir).starts_with(&real));
    let is_ours = settings.busy_dirs.iter().any(|dir| real.starts_with(known(dir)));
    if shows_ours || is_ours {
        let advice = "keep the root filesystem in a directory of its own";
        return Err(refused(setting, "Vestal keeps its own files there", advice));
    }
    check_shell(setting, &real)?;
    Ok(Found::Directory(real))
}

/// Checks that a root filesystem has a shell, without looking outside of it.
fn check_shell(setting: &RootfsSetting, root: &Path) -> Result<(), BackendError> {
    let shell = resolve::real_path(root, Path::new("/bin/sh")).ok();
    let shell = shell.and_then(|path| {
        let place = root.join(path.strip_prefix("/").unwrap_or(&path));
        fs::symlink_metadata(place).ok()
    });
    if shell.is_some_and(|found| found.is_file() && found.mode() & 0o111 != 0) {
        return Ok(());
    }
    // What `docker save` writes is a box of archives, not a system.
    if root.join("manifest.json").is_file() || root.join("oci-layout").is_file() {
        return Err(refused(
            setting,
            "it is a saved image, not a root filesystem",
            "write one with `docker export` of a container of that image",
        ));
    }
    Err(refused(setting, "there is no shell in it: no program /bin/sh", MAKE_ONE))
}

const MAKE_ONE: &str = "name a directory or a tar archive that holds a whole system, such as \
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

/// How an archive is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Compression {
    /// Not at all.
    None,
    /// With gzip.
    Gzip,
}

/// A file that cannot be unpacked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Unknown {
    /// What it is.
    problem: &'static str,
    /// What to do about it.
    advice: &'static str,
}

/// Where a tar archive says that it is one.
const USTAR_AT: usize = 257;

/// Says what a file is by how it begins.
fn recognise(mut file: impl Read) -> io::Result<Result<Compression, Unknown>> {
    let mut start = Vec::new();
    file.by_ref().take(512).read_to_end(&mut start)?;
    let unknown = |problem, advice| Err(Unknown { problem, advice });
    Ok(match start.as_slice() {
        [0x1f, 0x8b, ..] => Ok(Compression::Gzip),
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => {
            unknown("it is compressed with xz, which Vestal does not read", "unpack it: xz -d FILE")
        }
        [0x28, 0xb5, 0x2f, 0xfd, ..] => unknown(
            "it is compressed with zstd, which Vestal does not read",
            "unpack it: zstd -d FILE",
        ),
        [b'B', b'Z', b'h', ..] => unknown(
            "it is compressed with bzip2, which Vestal does not read",
            "unpack it: bzip2 -d FILE",
        ),
        start if start.get(USTAR_AT..USTAR_AT + 5) == Some(b"ustar") => Ok(Compression::None),
        _ => unknown(
            "it is no tar archive",
            "name a directory or a tar archive, plain or compressed with gzip",
        ),
    })
}

/// Removes what was unpacked in `dir` and no instance uses, by the identities in
/// `used`, and nobody has asked for in a day; and what is left of attempts.
pub(super) fn prune(dir: &Path, used: &BTreeSet<String>) -> io::Result<()> {
    cache::prune(dir, Kind::Rootfs, used)
}
