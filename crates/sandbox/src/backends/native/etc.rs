//! Snapshots of the host's `/etc` for sandboxes.
//!
//! A snapshot holds an allow-list of files that everyone on the host can read,
//! and accounts without people. It is made once per state of the host, is
//! shared by the sandboxes of a home, and is never changed.

mod allowed;
mod scan;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

pub(super) use self::scan::APT_NO_SANDBOX;
use self::scan::{EtcEntry, EtcScan, is_world_readable};
use super::cache::{self, CacheKind};
use crate::backend::BackendError;
use crate::key::random_hex;

/// A line that marks a private key in any file.
const PRIVATE_KEY: &[u8] = b"PRIVATE KEY-----";

/// A snapshot of `/etc`.
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
    let digest = scan.digest();
    let snapshot = EtcSnapshot { dir: dir.join(CacheKind::Etc.name(&digest)), digest };
    if cache::touch(&snapshot.dir)? {
        return Ok(snapshot);
    }
    cache::make_cache_dir(dir)?;
    let temporary = dir.join(CacheKind::Etc.temporary(&random_hex::<8>()?));
    let made =
        write_entries(&scan, &temporary).and_then(|()| cache::publish(&temporary, &snapshot.dir));
    if made.is_err() {
        fs::remove_dir_all(&temporary).ok();
    }
    made.map(|()| snapshot)
}

fn write_entries(scan: &EtcScan, into: &Path) -> io::Result<()> {
    let _lock = cache::start_entry(into)?;
    // In the order of names, a directory comes before its content.
    for (name, entry) in &scan.entries {
        let target = into.join(name);
        match entry {
            EtcEntry::Directory => make_directory(&target)?,
            EtcEntry::Link(text) => symlink(text, &target)?,
            EtcEntry::Generated { content, mode } => write(&target, content, *mode)?,
            EtcEntry::File { source, mode, .. } => {
                if let Some(content) = public_content(source)? {
                    write(&target, &content, *mode)?;
                }
            }
        }
    }
    Ok(())
}

/// Returns the content of a file; `None` if it is gone, is no longer
/// world-readable, or holds a private key.
fn public_content(source: &Path) -> io::Result<Option<Vec<u8>>> {
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(source);
    let mut file = match opened {
        Ok(file) => file,
        Err(error) if was_replaced(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    let found = file.metadata()?;
    if !found.is_file() || !is_world_readable(&found) {
        return Ok(None);
    }
    let mut content = Vec::new();
    file.read_to_end(&mut content)?;
    let has_key = content.windows(PRIVATE_KEY.len()).any(|window| window == PRIVATE_KEY);
    Ok((!has_key).then_some(content))
}

/// Returns whether a file was removed or replaced since the scan.
fn was_replaced(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied)
        || error.raw_os_error() == Some(libc::ELOOP)
}

fn make_directory(path: &Path) -> io::Result<()> {
    fs::create_dir(path)?;
    // The umask may have cleared bits.
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
}

fn write(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    fs::write(path, content)?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

/// Removes snapshots in `dir` that are not in `used` and have not been used for a
/// day.
pub(super) fn prune(dir: &Path, used: &BTreeSet<String>) -> io::Result<()> {
    cache::prune(dir, CacheKind::Etc, used)
}
