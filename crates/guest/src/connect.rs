//! `connect`: a byte stream to the guest for backends that only have an exec.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::serve::SOCKET_NAME;

/// Copies standard input to the guest's socket and back, until the guest hangs up.
pub(crate) fn run(socket_dir: &Path) -> io::Result<()> {
    let socket = open_socket(socket_dir)?;
    let mut to_guest = socket.try_clone()?;
    // It ends with the process: reading standard input cannot be called off.
    std::thread::spawn(move || {
        copy(&mut io::stdin().lock(), &mut to_guest).ok();
        to_guest.shutdown(Shutdown::Write).ok();
    });
    let mut from_guest = socket;
    copy(&mut from_guest, &mut io::stdout().lock())
}

/// Connects through the directory's descriptor, so that its path may be longer
/// than the address of a socket.
fn open_socket(socket_dir: &Path) -> io::Result<UnixStream> {
    use rustix::fs::{Mode, OFlags};
    use std::os::fd::AsRawFd;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = rustix::fs::open(socket_dir, flags, Mode::empty())?;
    UnixStream::connect(format!("/proc/self/fd/{}/{SOCKET_NAME}", dir.as_raw_fd()))
}

/// Copies what comes as soon as it comes.
fn copy(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut buf = vec![0; 64 << 10];
    loop {
        match from.read(&mut buf) {
            Ok(0) => return Ok(()),
            Ok(n) => {
                to.write_all(&buf[..n])?;
                to.flush()?;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
