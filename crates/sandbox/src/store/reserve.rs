//! Space on the disk of the sandboxes that is kept for a start on a full one: without it a sandbox
//! whose files have filled the disk could not be started, and so nothing be removed in it.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate, statvfs};

use super::make_private_dir;

/// Room for what a start writes: the guest's program and settings, records, and what its first
/// commands note.
const SIZE: u64 = 1 << 20;

/// So many times its size must be free for it to be made.
const PLENTY: u64 = 4;

/// Less than this is a full disk.
const LITTLE: u64 = 256 << 10;

/// The file that holds the space.
#[derive(Debug)]
pub(crate) struct DiskReserve {
    file: PathBuf,
}

impl DiskReserve {
    /// Returns the reserve for sandboxes, in a directory of the home if that is on the same disk.
    pub(crate) fn of(run_dir: &Path, sandboxes: &Path) -> Self {
        let disk = |path: &Path| fs::metadata(path).map(|found| found.dev()).ok();
        let home = run_dir.parent().and_then(disk);
        let file = match disk(sandboxes) {
            Some(disk) if home != Some(disk) => sandboxes.join(".reserve"),
            _ => run_dir.join("reserve"),
        };
        Self { file }
    }

    /// Sets space aside, if it is not and there is plenty. A failure is only logged: the disk may
    /// never be full.
    pub(crate) fn keep(&self) {
        if self.file.exists() || self.free().is_none_or(|free| free < PLENTY * SIZE) {
            return;
        }
        if let Err(error) = self.make() {
            tracing::debug!(file = %self.file.display(), %error, "no space is set aside");
            fs::remove_file(&self.file).ok();
        }
    }

    fn make(&self) -> io::Result<()> {
        let dir = self.file.parent().unwrap_or(Path::new("/"));
        make_private_dir(dir).map_err(io::Error::other)?;
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&self.file)?;
        Ok(fallocate(&file, FallocateFlags::empty(), 0, SIZE)?)
    }

    /// Gives the space away if the disk is full.
    pub(crate) fn release_if_full(&self) {
        if self.free().is_some_and(|free| free < LITTLE) && fs::remove_file(&self.file).is_ok() {
            tracing::info!(file = %self.file.display(), "the disk is full; kept space is used");
        }
    }

    fn free(&self) -> Option<u64> {
        let dir = self.file.ancestors().skip(1).find(|dir| dir.is_dir())?;
        free_bytes(dir).ok()
    }
}

/// Returns how many bytes this user can still write to the filesystem of a directory.
pub(crate) fn free_bytes(dir: &Path) -> io::Result<u64> {
    let stat = statvfs(dir)?;
    let is_root = rustix::process::geteuid().is_root();
    let blocks = if is_root { stat.f_bfree } else { stat.f_bavail };
    Ok(blocks.saturating_mul(stat.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn space_is_set_aside_once_and_given_away_only_on_a_full_disk() {
        let root = tempfile::tempdir().unwrap();
        let (run, sandboxes) = (root.path().join("run"), root.path().join("sandboxes"));
        fs::create_dir(&sandboxes).unwrap();
        let reserve = DiskReserve::of(&run, &sandboxes);
        reserve.keep();
        reserve.keep();
        let file = fs::metadata(run.join("reserve")).unwrap();
        assert!(file.blocks() * 512 >= SIZE, "the space is taken: {}", file.blocks());
        reserve.release_if_full();
        assert!(run.join("reserve").exists(), "this disk is not full");
    }
}
