//! Landlock: whom processes of a sandbox can reach without a file.

#![expect(unsafe_code, reason = "no library has these calls")]

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::ptr;

/// The version of the interface that knows scopes.
const SCOPES: i64 = 6;

const CREATE_VERSION: libc::c_uint = 1;
const SCOPE_ABSTRACT_SOCKETS: u64 = 1;
const SCOPE_SIGNALS: u64 = 2;

#[repr(C)]
struct Ruleset {
    files: u64,
    network: u64,
    scoped: u64,
}

/// Keeps this process and its children from the abstract sockets of others and
/// from sending them signals. Does nothing where the kernel has no such thing.
pub(crate) fn scope() -> io::Result<()> {
    // SAFETY: a null ruleset of no size asks for the version.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            ptr::null::<Ruleset>(),
            0_usize,
            CREATE_VERSION,
        )
    };
    if version < SCOPES {
        return Ok(());
    }
    let ruleset = Ruleset { files: 0, network: 0, scoped: SCOPE_ABSTRACT_SOCKETS | SCOPE_SIGNALS };
    // SAFETY: the ruleset is as large as is said and outlives the call, which
    // only reads it.
    let made = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            &raw const ruleset,
            size_of::<Ruleset>(),
            0_u32,
        )
    };
    let made = i32::try_from(made).ok().filter(|made| *made >= 0);
    let made = made.ok_or_else(io::Error::last_os_error)?;
    // SAFETY: the kernel has just made this descriptor for us.
    let made = unsafe { OwnedFd::from_raw_fd(made) };
    // SAFETY: it takes a descriptor and touches no memory.
    match unsafe { libc::syscall(libc::SYS_landlock_restrict_self, made.as_raw_fd(), 0_u32) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
