//! Attributes of mounts.

#![expect(unsafe_code, reason = "the library has no mount_setattr")]

use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd};

/// Whether what is mounted below is meant too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// The mount alone.
    One,
    /// And all below it.
    All,
}

/// Adds attributes to a mount. None is ever taken away.
pub(crate) fn add_attributes(mount: impl AsFd, reach: Reach, attributes: u64) -> io::Result<()> {
    change(mount.as_fd(), reach, attributes, 0)
}

/// Adds attributes to a mount and has it show the owners of files as the users
/// of the same number in a user namespace.
pub(crate) fn shift_owners(
    mount: impl AsFd,
    reach: Reach,
    attributes: u64,
    users: BorrowedFd<'_>,
) -> io::Result<()> {
    let users = u64::try_from(users.as_raw_fd()).map_err(io::Error::other)?;
    change(mount.as_fd(), reach, attributes | libc::MOUNT_ATTR_IDMAP, users)
}

fn change(mount: BorrowedFd<'_>, reach: Reach, attributes: u64, users: u64) -> io::Result<()> {
    let attributes =
        libc::mount_attr { attr_set: attributes, attr_clr: 0, propagation: 0, userns_fd: users };
    let flags = match reach {
        Reach::One => libc::AT_EMPTY_PATH,
        Reach::All => libc::AT_EMPTY_PATH | libc::AT_RECURSIVE,
    };
    // SAFETY: the path is an empty text and the attributes are as large as is
    // said; both outlive the call, which only reads them.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
