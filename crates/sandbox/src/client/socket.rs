//! Connecting to the socket of a guest that may be hostile.
//!
//! The directory of the socket can be written from inside the sandbox. What
//! lies at its name may therefore be a symbolic link, a pipe, or the socket of
//! somebody else. Nothing is followed and nothing but a socket is connected to;
//! the connection goes through the descriptor that was checked, which also
//! lifts the limit of 108 bytes on socket paths.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use tokio::net::UnixStream;
use tokio::time::{Instant, sleep};

/// Name of a guest's socket in its directory.
pub const SOCKET_NAME: &str = "guest.sock";

/// How long to wait while more callers knock than the guest's backlog holds.
const BACKLOG_LIMIT: Duration = Duration::from_secs(5);

/// The process that must be listening.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerExpectation {
    uid: Option<u32>,
    pid: Option<u32>,
}

impl PeerExpectation {
    /// Expects nobody in particular: what can be determined comes by other means.
    pub const fn anyone() -> Self {
        Self { uid: None, pid: None }
    }

    /// Expects any process of this user.
    pub const fn user(uid: u32) -> Self {
        Self { uid: Some(uid), pid: None }
    }

    /// Expects exactly this process, as any user.
    pub const fn process(pid: u32) -> Self {
        Self { uid: None, pid: Some(pid) }
    }

    /// Expects exactly this process of this user.
    pub const fn process_of_user(pid: u32, uid: u32) -> Self {
        Self { uid: Some(uid), pid: Some(pid) }
    }
}

/// A guest's socket that could not be connected to.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// There is no socket, or nobody listens on it.
    #[error("no guest listens there")]
    Absent,
    /// Something else lies where the socket should be.
    #[error("the file in place of the guest's socket is not a socket")]
    NotASocket,
    /// Somebody else listens.
    #[error("process {pid:?} of user {uid} listens in the guest's place")]
    WrongPeer {
        /// The listener's user.
        uid: u32,
        /// The listener's process, where it can be seen from here.
        pid: Option<u32>,
    },
    /// Any other failure.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Connects to the guest whose socket is in `dir`, if it is the one expected.
///
/// `dir` itself may not be a symbolic link; the directories above it are taken
/// to be out of the guest's reach.
pub async fn connect(dir: &Path, expect: PeerExpectation) -> Result<UnixStream, SocketError> {
    let target = open_socket_file(dir)?;
    let path = format!("/proc/self/fd/{}", target.as_raw_fd());
    let address = SocketAddrUnix::new(path).map_err(io::Error::from)?;
    let socket = rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        None,
    )
    .map_err(io::Error::from)?;
    connect_with_retries(&socket, &address).await?;
    let stream = UnixStream::from_std(std::os::unix::net::UnixStream::from(socket))?;
    check_peer(&stream, expect)?;
    Ok(stream)
}

fn open_socket_file(dir: &Path) -> Result<OwnedFd, SocketError> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let dir = rustix::fs::open(dir, flags | OFlags::DIRECTORY, Mode::empty()).map_err(absent)?;
    let file = rustix::fs::openat(&dir, SOCKET_NAME, flags, Mode::empty()).map_err(absent)?;
    let stat = rustix::fs::fstat(&file).map_err(io::Error::from)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Socket {
        return Err(SocketError::NotASocket);
    }
    Ok(file)
}

/// Connects without blocking the thread. A full backlog answers at once with
/// "again", and there is no event to wait for.
async fn connect_with_retries(
    socket: &OwnedFd,
    address: &SocketAddrUnix,
) -> Result<(), SocketError> {
    let deadline = Instant::now() + BACKLOG_LIMIT;
    let mut pause = Duration::from_millis(1);
    loop {
        match rustix::net::connect(socket, address) {
            Ok(()) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) if Instant::now() < deadline => {
                sleep(pause).await;
                pause = (pause * 2).min(Duration::from_millis(50));
            }
            Err(Errno::AGAIN) => return Err(io::Error::from(io::ErrorKind::TimedOut).into()),
            Err(Errno::CONNREFUSED) => return Err(SocketError::Absent),
            Err(error) => return Err(io::Error::from(error).into()),
        }
    }
}

fn check_peer(stream: &UnixStream, expect: PeerExpectation) -> Result<(), SocketError> {
    let peer = stream.peer_cred()?;
    // A process that cannot be seen from this pid namespace has the number 0.
    let pid = peer.pid().and_then(|pid| u32::try_from(pid).ok()).filter(|pid| *pid != 0);
    let uid_fits = expect.uid.is_none_or(|uid| uid == peer.uid());
    let pid_fits = expect.pid.is_none_or(|wanted| pid == Some(wanted));
    if uid_fits && pid_fits { Ok(()) } else { Err(SocketError::WrongPeer { uid: peer.uid(), pid }) }
}

fn absent(error: Errno) -> SocketError {
    match error {
        Errno::NOENT => SocketError::Absent,
        error => SocketError::Io(error.into()),
    }
}
