//! Sockets of engines: their paths are short, and not everybody's; and the first
//! word with the engine that listens on one.
//!
//! The headers of `GET /_ping` say it within a millisecond. The call that the
//! client library has for it takes ten on Docker and half a second on Podman.

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

/// Longest path in a socket's address, without the final zero.
const MAX_SOCKET_PATH: usize = 107;

/// A path to a socket that fits into a socket's address.
#[derive(Debug)]
pub(super) struct SocketPath {
    path: PathBuf,
    /// Keeps a path through this process's descriptors valid.
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

/// Returns a directory for sockets that other programs make, whose names are
/// at most `name` bytes long: `run_dir` if their paths may be that long.
pub(super) fn private_dir(run_dir: &Path, name: usize, environment: &Environment) -> PathBuf {
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

/// Makes a directory for this user alone, or makes sure that it is one.
pub(super) fn make_private(dir: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(dir) {
        Ok(()) => return Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return DirBuilder::new().mode(0o700).recursive(true).create(dir);
        }
        Err(error) => return Err(error),
    }
    // In a place that all may write to, somebody else may have been first.
    let meta = std::fs::symlink_metadata(dir)?;
    if !meta.is_dir() || meta.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::Error::new(ErrorKind::PermissionDenied, "it belongs to somebody else"));
    }
    // A generous umask may have made it so.
    if meta.mode() & 0o022 != 0 {
        std::fs::set_permissions(dir, Permissions::from_mode(meta.mode() & 0o755))?;
    }
    Ok(())
}

/// How long an engine may take to answer. One that systemd starts at the first
/// knock, or that is busy with a hundred containers, may need a while.
pub(super) const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// Longest answer that is read.
const MAX_ANSWER: usize = 16 << 10;

const REQUEST: &[u8] =
    b"GET /_ping HTTP/1.1\r\nHost: localhost\r\nUser-Agent: vestal\r\nConnection: close\r\n\r\n";

/// What an engine says of itself at the first word.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Greeting {
    /// The newest version of the API that it speaks.
    pub(super) api: ClientVersion,
    pub(super) flavour: Flavour,
}

/// Why there was no greeting.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoGreeting {
    #[error("nobody listens there ({0})")]
    Absent(io::Error),
    #[error("permission denied")]
    Denied,
    #[error("it did not answer within {} s", .0.as_secs_f32())]
    Slow(Duration),
    #[error("what listens there is no container engine: {0}")]
    Foreign(String),
}

/// Asks the engine that listens on a socket who it is.
pub(super) async fn greet(socket: &Path, patience: Duration) -> Result<Greeting, NoGreeting> {
    match tokio::time::timeout(patience, exchange(socket)).await {
        Ok(Ok(answer)) => parse(&answer).map_err(NoGreeting::Foreign),
        Ok(Err(error)) => Err(match error.kind() {
            ErrorKind::PermissionDenied => NoGreeting::Denied,
            ErrorKind::UnexpectedEof
            | ErrorKind::InvalidData
            | ErrorKind::ConnectionReset
            | ErrorKind::BrokenPipe => NoGreeting::Foreign(error.to_string()),
            _ => NoGreeting::Absent(error),
        }),
        Err(_) => Err(NoGreeting::Slow(patience)),
    }
}

/// Returns what comes up to the end of the headers.
async fn exchange(socket: &Path) -> io::Result<Vec<u8>> {
    let mut stream = connect(socket).await?;
    stream.write_all(REQUEST).await?;
    let mut answer = Vec::with_capacity(512);
    while !has_all_headers(&answer) {
        if answer.len() >= MAX_ANSWER {
            return Err(io::Error::new(ErrorKind::InvalidData, "its answer does not end"));
        }
        if (&mut stream).take(4096).read_buf(&mut answer).await? == 0 {
            return Err(io::Error::new(ErrorKind::UnexpectedEof, "it hung up"));
        }
    }
    Ok(answer)
}

/// Connects; a full backlog answers at once with "again".
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

/// Reads the headers of an answer, which may be anything.
fn parse(answer: &[u8]) -> Result<Greeting, String> {
    let text = String::from_utf8_lossy(answer);
    let mut lines = text.split("\r\n");
    let status = lines.next().unwrap_or_default();
    let code = status
        .strip_prefix("HTTP/1.")
        .and_then(|rest| rest.split_ascii_whitespace().nth(1))
        .ok_or("it does not speak HTTP")?;
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
    let api = api.ok_or("it names no version of the engine's API")?;
    let api = parse_version(api).ok_or("its version of the API cannot be read")?;
    Ok(Greeting { api, flavour })
}

/// Reads a version of the API, such as `1.41`.
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
