//! The loopback of a new network.

#![expect(unsafe_code, reason = "an interface is set by ioctl")]

use std::io;
use std::os::fd::AsRawFd as _;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

/// Lets groups of a new network use `ping`. The numbers are those that this
/// process knows. Where settings of the kernel cannot be written it stays as it
/// is.
pub(crate) fn let_ping(first: u32, last: u32) {
    std::fs::write("/proc/sys/net/ipv4/ping_group_range", format!("{first} {last}")).ok();
}

/// The flag of an interface that is up, as wide as the request has it.
const UP: libc::c_short = 1;

/// Sets the loopback up.
pub(crate) fn raise_loopback() -> io::Result<()> {
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    // SAFETY: a request may be all zeroes.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name[0] = b'l'.cast_signed();
    request.ifr_name[1] = b'o'.cast_signed();
    request.ifr_ifru.ifru_flags = UP;
    // SAFETY: the request is one of an interface's flags, ends its name with a
    // zero and outlives the call.
    match unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, &raw mut request) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
