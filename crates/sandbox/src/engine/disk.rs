//! What a sandbox takes on the disk of this machine.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use async_recursion::async_recursion as boxed;

use super::Engine;
use crate::store::free_bytes;
use crate::{CopyError, Error, TaskName};

/// How long the files of a sandbox are counted, and how many of them.
const COUNT_WITHIN: Duration = Duration::from_secs(5);
const MAX_FILES: u64 = 1_000_000;

/// What a sandbox takes on the disk of this machine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiskUsage {
    /// Bytes of its directory: workspace, home, its own filesystem, job logs, snapshots. Blocks that
    /// files share are counted for each.
    pub bytes: u64,
    /// Files and directories.
    pub files: u64,
    /// Whether there is more: what cannot be read, or takes too long to be counted.
    pub is_partial: bool,
}

impl Engine {
    /// Returns what a sandbox takes in its directory on this machine. What its backend keeps
    /// elsewhere, such as a container's own filesystem, is not among it.
    #[boxed]
    pub async fn disk_usage(&self, task: &TaskName) -> Result<DiskUsage, Error> {
        let dir = self.inner.dir(&self.inner.key(task));
        if !dir.exists() {
            return Err(Error::NoSandbox { task: task.to_string() });
        }
        let path = dir.path().to_owned();
        let counting = tokio::task::spawn_blocking(move || count(&path));
        // A panic there says nothing about the sandbox.
        Ok(counting.await.unwrap_or(DiskUsage { is_partial: true, ..DiskUsage::default() }))
    }
}

/// Room that a copy of nothing takes: records and directories.
const LEAST_ROOM: u64 = 128 << 10;

/// Refuses a copy of trees for which there is no room at `to`, before anything is stopped for it.
pub(super) async fn check_room(trees: Vec<PathBuf>, to: PathBuf) -> Result<(), Error> {
    let checking = tokio::task::spawn_blocking(move || {
        // What cannot be asked is for the copy to find out.
        let Ok(free) = free_bytes(&to) else { return Ok(()) };
        let bytes: u64 = trees.iter().map(|tree| count(tree).bytes).sum();
        let needed = bytes.max(LEAST_ROOM);
        if needed <= free || (LEAST_ROOM <= free && shares_blocks(&to)) {
            return Ok(());
        }
        let problem = format!("it takes {needed} bytes, and {free} are free; nothing was stopped");
        Err(Error::from(CopyError::NoSpace { path: to, problem }))
    });
    checking.await.unwrap_or(Ok(()))
}

/// Returns whether copies of files share their blocks in a directory.
fn shares_blocks(dir: &Path) -> bool {
    let try_it = || -> std::io::Result<()> {
        let mut original = tempfile_in(dir)?;
        original.write_all(&[1; 4096])?;
        Ok(rustix::fs::ioctl_ficlone(tempfile_in(dir)?, original)?)
    };
    try_it().is_ok()
}

/// Opens a file that has no name.
fn tempfile_in(dir: &Path) -> std::io::Result<fs::File> {
    let flags = rustix::fs::OFlags::TMPFILE.bits().cast_signed();
    fs::OpenOptions::new().read(true).write(true).custom_flags(flags).mode(0o600).open(dir)
}

/// Adds up what is below a directory. Links are counted and not followed, and other filesystems are
/// left out: what is mounted there is not the sandbox's.
fn count(root: &Path) -> DiskUsage {
    let began = Instant::now();
    let mut usage = DiskUsage::default();
    let Ok(device) = fs::symlink_metadata(root).map(|metadata| metadata.dev()) else {
        return DiskUsage { is_partial: true, ..usage };
    };
    let mut pending: Vec<PathBuf> = vec![root.to_owned()];
    while let Some(dir) = pending.pop() {
        let Ok(entries) = fs::read_dir(&dir) else {
            usage.is_partial = true;
            continue;
        };
        for entry in entries {
            let Ok(metadata) = entry
                .as_ref()
                .map_err(|_| ())
                .and_then(|entry| fs::symlink_metadata(entry.path()).map_err(|_| ()))
            else {
                usage.is_partial = true;
                continue;
            };
            if metadata.dev() != device {
                continue;
            }
            usage.files += 1;
            usage.bytes = usage.bytes.saturating_add(metadata.blocks().saturating_mul(512));
            if let (true, Ok(entry)) = (metadata.is_dir(), entry) {
                pending.push(entry.path());
            }
        }
        if usage.files >= MAX_FILES || began.elapsed() >= COUNT_WITHIN {
            usage.is_partial |= !pending.is_empty();
            break;
        }
    }
    usage
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_link_points_at_is_not_counted() {
        let dir = tempfile::tempdir().unwrap();
        let (own, other) = (dir.path().join("own"), dir.path().join("other"));
        fs::create_dir_all(own.join("sub")).unwrap();
        fs::create_dir(&other).unwrap();
        fs::write(own.join("sub/file"), vec![1; 64 << 10]).unwrap();
        fs::write(other.join("large"), vec![1; 1 << 20]).unwrap();
        std::os::unix::fs::symlink(&other, own.join("link")).unwrap();
        let usage = count(&own);
        assert_eq!((usage.files, usage.is_partial), (3, false));
        assert!((64 << 10..1 << 20).contains(&usage.bytes), "{usage:?}");
    }
}
