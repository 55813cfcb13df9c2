//! Copying files into and out of sandboxes.
//!
//! What is on this machine may be writable by a sandbox while it is copied, so
//! below the path the user named nothing is reached through a symbolic link:
//! every step is relative to an open directory.

mod download;
mod host;
mod stream;
mod upload;

pub(crate) use download::Download;
pub(crate) use upload::Upload;

/// How deep a tree may be that is copied. A sandbox could claim one without end.
const DEEPEST: usize = 256;

/// Permission bits that are kept; set-uid and set-gid bits are not.
const MODE_BITS: u32 = 0o777;
