//! Sockets of engines: short paths, private directories, and the ping.
//!
//! The headers of `GET /_ping` have the API version and take a millisecond. The
//! client library's call for it takes ten on Docker and half a second on Podman.

use std::fs::{DirBuilder, Permissions};
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bollard::ClientVersion;
use rustix::fs::{Mode, OFlags};
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use vestal_config::Environment;

use super::info::Flavour;

/// Longest path in a socket's address, without the terminating zero.
const MAX_SOCKET_PATH: usize = 107;

/// A path to a socket that fits into a socket's address.
#[derive(Debug)]
pub(super) struct SocketPath {
    path: PathBuf,
    /// Keeps a path through `/proc/self/fd` valid.
    _dir: Option<OwnedFd>,
}

impl SocketPath {
    /// Returns a path to the same socket that is short enough.
    pub(super) fn new(path: &Path) -> io::Result<Self> {
        if path.as_os_str().as_bytes().len() <= MAX_SOCKET_PATH {
            return Ok(Self { path: path.to_owned(), _dir: None });
        }
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(ErrorKind::InvalidInput.into());
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::open(parent, flags, Mode::empty())?;
        let path = Path::new("/proc/self/fd").join(dir.as_raw_fd().to_string()).join(name);
        Ok(Self { path, _dir: Some(dir) })
    }

    pub(super) fn as_path(&self) -> &Path {
        &self.path
    }
}

/// Returns a directory for sockets of other programs whose names have at most
/// `name` bytes: `run_dir` if its path is short enough.
pub(in crate::backends) fn private_dir(
    run_dir: &Path,
    name: usize,
    environment: &Environment,
) -> PathBuf {
    let fits = |dir: &Path| dir.as_os_str().as_bytes().len() + 1 + name <= MAX_SOCKET_PATH;
    if fits(run_dir) {
        return run_dir.to_owned();
    }
    let hash = crate::key::hex(&Sha256::digest(run_dir.as_os_str().as_bytes())[..8]);
    let runtime = environment.non_empty("XDG_RUNTIME_DIR").map(Path::new);
    let short = runtime
        .filter(|dir| dir.is_absolute())
        .map(|dir| dir.join(format!("vestal-{hash}")))
        .filter(|dir| fits(dir));
    short.unwrap_or_else(|| {
        let user = rustix::process::geteuid().as_raw();
        PathBuf::from(format!("/tmp/vestal-{user}-{hash}"))
    })
}

/// Creates a private directory, or checks that an existing one belongs to this user.
pub(in crate::backends) fn make_private(dir: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(dir) {
        Ok(()) => return Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return DirBuilder::new().mode(0o700).recursive(true).create(dir);
        }
        Err(error) => return Err(error),
    }
    // In a shared directory another user may have created it.
    let meta = std::fs::symlink_metadata(dir)?;
    if !meta.is_dir() || meta.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::Error::new(ErrorKind::PermissionDenied, "it belongs to another user"));
    }
    // A permissive umask may have left it writable for others.
    if meta.mode() & 0o022 != 0 {
        std::fs::set_permissions(dir, Permissions::from_mode(meta.mode() & 0o755))?;
    }
    Ok(())
}

/// Longest time for the answer to a ping. An engine that systemd starts on demand,
/// or that is busy, may need long.
pub(super) const PING_TIMEOUT: Duration = Duration::from_secs(30);

/// Longest answer that is read.
const MAX_ANSWER: usize = 16 << 10;

const REQUEST: &[u8] =
    b"GET /_ping HTTP/1.1\r\nHost: localhost\r\nUser-Agent: vestal\r\nConnection: close\r\n\r\n";

/// An engine's answer to a ping.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Ping {
    /// The newest API version of the engine.
    pub(super) api: ClientVersion,
    pub(super) flavour: Flavour,
}

/// Why a ping failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum PingError {
    #[error("no engine listens there ({0})")]
    NotListening(io::Error),
    #[error("permission denied")]
    Denied,
    #[error("it did not answer within {} s", .0.as_secs_f32())]
    TimedOut(Duration),
    #[error("the process that listens there is not a container engine: {0}")]
    NotAnEngine(String),
}

/// Pings the engine that listens on a socket.
pub(super) async fn ping(socket: &Path, timeout: Duration) -> Result<Ping, PingError> {
    match tokio::time::timeout(timeout, exchange(socket)).await {
        Ok(Ok(answer)) => parse(&answer).map_err(PingError::NotAnEngine),
        Ok(Err(error)) => Err(match error.kind() {
            ErrorKind::PermissionDenied => PingError::Denied,
            ErrorKind::UnexpectedEof
            | ErrorKind::InvalidData
            | ErrorKind::ConnectionReset
            | ErrorKind::BrokenPipe => PingError::NotAnEngine(error.to_string()),
            _ => PingError::NotListening(error),
        }),
        Err(_) => Err(PingError::TimedOut(timeout)),
    }
}

/// Sends the request and returns the answer's headers.
async fn exchange(socket: &Path) -> io::Result<Vec<u8>> {
    let mut stream = connect(socket).await?;
    stream.write_all(REQUEST).await?;
    let mut answer = Vec::with_capacity(512);
    while !has_all_headers(&answer) {
        if answer.len() >= MAX_ANSWER {
            return Err(io::Error::new(ErrorKind::InvalidData, "its answer is too long"));
        }
        if (&mut stream).take(4096).read_buf(&mut answer).await? == 0 {
            return Err(io::Error::new(ErrorKind::UnexpectedEof, "it closed the connection"));
        }
    }
    Ok(answer)
}

/// Connects, and tries again while the backlog is full.
async fn connect(socket: &Path) -> io::Result<UnixStream> {
    loop {
        match UnixStream::connect(socket).await {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            other => return other,
        }
    }
}

fn has_all_headers(answer: &[u8]) -> bool {
    answer.windows(4).any(|end| end == b"\r\n\r\n")
}

/// Parses the headers of an answer, which is untrusted.
fn parse(answer: &[u8]) -> Result<Ping, String> {
    let text = String::from_utf8_lossy(answer);
    let mut lines = text.split("\r\n");
    let status = lines.next().unwrap_or_default();
    let code = status
        .strip_prefix("HTTP/1.")
        .and_then(|rest| rest.split_ascii_whitespace().nth(1))
        .ok_or("its answer is not HTTP")?;
    if code != "200" {
        let code: String = code.chars().filter(char::is_ascii_alphanumeric).take(8).collect();
        return Err(format!("it answers a ping with status {code}"));
    }
    let mut api = None;
    let mut flavour = Flavour::Docker;
    for line in lines.take_while(|line| !line.is_empty()) {
        let Some((name, value)) = line.split_once(':') else { continue };
        let value = value.trim();
        match name.trim().to_ascii_lowercase().as_str() {
            "api-version" => api = Some(value),
            "libpod-api-version" => flavour = Flavour::Podman,
            "server" if value.starts_with("Libpod/") => flavour = Flavour::Podman,
            _ => {}
        }
    }
    let api = api.ok_or("it reports no API version")?;
    let api = parse_version(api).ok_or("its API version cannot be parsed")?;
    Ok(Ping { api, flavour })
}

/// Parses an API version such as `1.41`.
pub(super) fn parse_version(text: &str) -> Option<ClientVersion> {
    let number = |digits: &str| -> Option<usize> {
        let plain = !digits.is_empty() && digits.len() <= 4;
        (plain && digits.bytes().all(|byte| byte.is_ascii_digit())).then(|| digits.parse().ok())?
    };
    let (major, minor) = text.split_once('.')?;
    Some(ClientVersion { major_version: number(major)?, minor_version: number(minor)? })
}

#[cfg(test)]
#[path = "socket_tests.rs"]
mod tests;
