//! A root filesystem, ready to be used.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sha2::{Digest as _, Sha256};

use super::check::{Found, find};
use super::unpack::{Job, unpack};
use crate::ProgressSink;
use crate::backend::BackendError;
use crate::backends::native::keep::{self, Kind};
use crate::backends::native::settings::{NativeSettings, RootfsSetting};
use crate::key::hex;

/// A root filesystem that sandboxes can be made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::backends::native) struct Rootfs {
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
pub(in crate::backends::native) async fn provide(
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
        source: std::io::Error::other(error),
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

pub(super) fn provide_now(
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
    if !keep::use_now(&unpacked).map_err(failed)? {
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
fn archive_digest(path: &Path) -> std::io::Result<String> {
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
