//! Leaving the host's filesystem.

use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{chdir, fchdir, pivot_root};

use super::target::NewRoot;

/// Makes the new root the root, and parts with the old one.
pub(super) fn pivot(root: &NewRoot) -> rustix::io::Result<()> {
    fchdir(root.as_fd())?;
    // The old root is mounted over the new one, where nobody can plant anything,
    // and is what is found there until it is gone.
    pivot_root(".", ".")?;
    unmount(".", UnmountFlags::DETACH)?;
    chdir("/")
}
