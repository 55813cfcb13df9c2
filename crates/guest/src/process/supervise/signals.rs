//! Signals and inherited files of the supervisor.

#![expect(unsafe_code, reason = "signal masks and signalfd have no safe wrapper here")]

use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{FromRawFd as _, OwnedFd, RawFd};

use rustix::process::Pid;

/// Blocks `SIGCHLD` and returns a file that is readable when a child ended.
pub(super) fn watch_children() -> io::Result<OwnedFd> {
    let mut mask = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigemptyset initialises the set it is given a valid pointer to;
    // the later calls only read it, and a null old mask is allowed.
    let fd = unsafe {
        libc::sigemptyset(mask.as_mut_ptr());
        libc::sigaddset(mask.as_mut_ptr(), libc::SIGCHLD);
        if libc::sigprocmask(libc::SIG_BLOCK, mask.as_ptr(), std::ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
        libc::signalfd(-1, mask.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call above succeeded, and nobody else knows its descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Takes what [`watch_children`]'s file holds, so that it waits for the next.
pub(super) fn drain(children: &OwnedFd) {
    let mut buffer = [0_u8; 128 * 8];
    while rustix::io::read(children, &mut buffer).is_ok_and(|count| count == buffer.len()) {}
}

/// Sends a signal to a process. One that is gone, and a number that is no
/// signal, are not worth a word.
pub(super) fn send(pid: Pid, signal: i32) {
    // SAFETY: kill only reads its numbers, and a `Pid` is positive.
    unsafe { libc::kill(pid.as_raw_nonzero().get(), signal) };
}

/// Sends a signal to the process group that `leader` leads.
pub(super) fn send_to_group(leader: Pid, signal: i32) {
    // SAFETY: as above.
    unsafe { libc::kill(-leader.as_raw_nonzero().get(), signal) };
}

/// Closes what was inherited beyond the standard streams and `kept`.
pub(super) fn close_others(kept: RawFd) {
    let kept = kept.unsigned_abs();
    // SAFETY: this runs before anything of this program holds a descriptor
    // above `kept` or between 3 and it.
    let closed = unsafe {
        (kept <= 3 || libc::syscall(libc::SYS_close_range, 3u32, kept - 1, 0u32) == 0)
            && libc::syscall(libc::SYS_close_range, kept.max(2) + 1, u32::MAX, 0u32) == 0
    };
    if !closed {
        close_each(kept);
    }
}

/// Does the same on kernels without `close_range`.
fn close_each(kept: u32) {
    let Ok(entries) = fs::read_dir("/proc/self/fd") else {
        return;
    };
    let open: Vec<i32> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|fd: &i32| *fd > 2 && fd.unsigned_abs() != kept)
        .collect();
    for fd in open {
        // SAFETY: as above. The listing's own descriptor is closed already and
        // merely refused.
        unsafe { libc::close(fd) };
    }
}
