//! Copying files into and out of sandboxes.
//!
//! What is on this machine may be writable by a sandbox while it is copied, so
//! below the path the user named nothing is reached through a symbolic link:
//! every step is relative to an open directory.

mod download;
mod host;
mod stream;
mod upload;

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

pub(crate) use download::Download;
pub(crate) use upload::Upload;

use crate::error::CommandFailure;

/// How deep a tree may be that is copied. A sandbox could claim one without end.
const DEEPEST: usize = 256;

/// Permission bits that are kept; set-uid and set-gid bits are not.
const MODE_BITS: u32 = 0o777;

/// Returns whether a path names what is in a directory rather than the directory, as `cp -r` and
/// `docker cp` read it.
fn names_contents(path: &Path) -> bool {
    let bytes = path.as_os_str().as_bytes();
    bytes == b"." || bytes.ends_with(b"/.")
}

/// Returns whether a path can only be that of a directory.
fn names_directory(path: &Path) -> bool {
    path.as_os_str().as_bytes().ends_with(b"/")
}

fn no_directory(path: &Path) -> CommandFailure {
    CommandFailure::new(format!("{} is not a directory that is there", path.display()))
        .advise("make it, or leave out the slash to copy to that name")
}
