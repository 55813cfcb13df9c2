//! Snapshots of the host's `/etc` for sandboxes.
//!
//! A snapshot holds an allow-list of files that everyone on the host can read,
//! and accounts without people. It is made once per state of the host, is
//! shared by the sandboxes of a home, and is never changed.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};
use vestal_stage::survey::etc::{EtcEntry, EtcScan};

use super::cache::{self, CacheKind};
use crate::backend::BackendError;
use crate::key::{hex, random_hex};

/// Part of the digest: raised when the same host would give another snapshot.
const VERSION: u32 = 1;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EtcSnapshot {
    pub dir: PathBuf,
    /// Digest of the scan; the labels of instances name it.
    pub digest: String,
}

/// Returns the snapshot of the host's current `/etc`, made in `dir` if it does not
/// exist yet.
pub(super) fn provide(dir: &Path) -> Result<EtcSnapshot, BackendError> {
    provide_from(Path::new("/"), dir)
        .map_err(BackendError::io(format!("make a snapshot of /etc in {}", dir.display())))
}

/// Like [`provide`], for a host whose `/` is at `root`.
fn provide_from(root: &Path, dir: &Path) -> io::Result<EtcSnapshot> {
    let scan = EtcScan::of(root);
    let digest = digest(&scan);
    let snapshot = EtcSnapshot { dir: dir.join(CacheKind::Etc.name(&digest)), digest };
    if cache::touch(&snapshot.dir)? {
        return Ok(snapshot);
    }
    cache::make_cache_dir(dir)?;
    let temporary = dir.join(CacheKind::Etc.temporary(&random_hex::<8>()?));
    let made = cache::start_entry(&temporary)
        .and_then(|_lock| scan.write(&temporary))
        .and_then(|()| cache::publish(&temporary, &snapshot.dir));
    if made.is_err() {
        fs::remove_dir_all(&temporary).ok();
    }
    made.map(|()| snapshot)
}

/// Returns the digest that identifies this state of the host.
fn digest(scan: &EtcScan) -> String {
    let mut hasher = Sha256::new();
    hasher.update(VERSION.to_le_bytes());
    let mut part = |bytes: &[u8]| {
        hasher.update((bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
    };
    for (name, entry) in &scan.entries {
        part(name.as_os_str().as_bytes());
        match entry {
            EtcEntry::Directory => part(b"directory"),
            EtcEntry::Link(text) => {
                part(b"link");
                part(text.as_os_str().as_bytes());
            }
            EtcEntry::File { mode, state, .. } => {
                part(b"file");
                part(&mode.to_le_bytes());
                part(&state.size.to_le_bytes());
                part(&state.inode.to_le_bytes());
                part(&state.modified.0.to_le_bytes());
                part(&state.modified.1.to_le_bytes());
            }
            EtcEntry::Generated { content, mode } => {
                part(b"text");
                part(&mode.to_le_bytes());
                part(content);
            }
        }
    }
    hex(&hasher.finalize()[..16])
}

/// Removes snapshots in `dir` that are not in `used` and have not been used for a
/// day.
pub(super) fn prune(dir: &Path, used: &BTreeSet<String>) -> io::Result<()> {
    cache::prune(dir, CacheKind::Etc, used)
}

#[cfg(test)]
#[path = "etc_tests.rs"]
mod tests;
