//! Descriptors that were handed to this process by their numbers.

#![expect(unsafe_code, reason = "descriptors given by number are taken over")]

use std::io;
use std::os::fd::{BorrowedFd, RawFd};

use rustix::io::FdFlags;

/// Borrows a descriptor that this process was started with. It keeps its number,
/// and no program that is started meanwhile inherits it.
pub(crate) fn inherited(number: RawFd) -> io::Result<BorrowedFd<'static>> {
    // SAFETY: fcntl does not touch memory, and fails for a number that is no
    // open descriptor.
    if unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) } == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it is open, was given to this process to use, and is never closed
    // while the process lives.
    Ok(unsafe { BorrowedFd::borrow_raw(number) })
}

/// Has standard streams that nobody was given lead nowhere.
pub(crate) fn silence(nothing: BorrowedFd<'_>, kept: &[RawFd]) -> io::Result<()> {
    let silenced = |number: RawFd| !kept.contains(&number);
    if silenced(0) {
        rustix::stdio::dup2_stdin(nothing)?;
    }
    if silenced(1) {
        rustix::stdio::dup2_stdout(nothing)?;
    }
    if silenced(2) {
        rustix::stdio::dup2_stderr(nothing)?;
    }
    Ok(())
}

/// Closes every descriptor above the standard streams but these.
pub(crate) fn close_all_but(kept: &[RawFd]) -> io::Result<()> {
    let mut kept: Vec<u32> = kept.iter().filter_map(|fd| u32::try_from(*fd).ok()).collect();
    kept.sort_unstable();
    let mut first = 3;
    for number in kept.into_iter().filter(|number| *number >= 3) {
        if number > first {
            range(first, number - 1, 0)?;
        }
        first = number.saturating_add(1);
    }
    range(first, u32::MAX, 0)
}

/// Has no descriptor above the standard streams be inherited by a program.
pub(crate) fn keep_all_from_programs() -> io::Result<()> {
    range(3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC)
}

fn range(first: u32, last: u32, flags: libc::c_uint) -> io::Result<()> {
    // SAFETY: what is closed was inherited by chance or is used no more; nothing
    // in this process refers to it.
    match unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Has a program inherit a descriptor, under the number it has.
pub(crate) fn hand_on(number: RawFd) -> io::Result<()> {
    Ok(rustix::io::fcntl_setfd(inherited(number)?, FdFlags::empty())?)
}
