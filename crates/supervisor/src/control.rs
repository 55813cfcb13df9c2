//! The socket by which a supervisor is asked: one request and one answer per connection, a line of
//! JSON each.

use std::io;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::time::timeout;

use crate::lock::Holder;
use crate::state::{OrderResult, SlotStatus};

/// The longest request. Answers may be longer: they come from the supervisor itself.
const MAX_REQUEST: u64 = 64 << 10;
const MAX_ANSWER: u64 = 16 << 20;
/// How long a client may take to send its request or to take its answer.
pub(crate) const REQUEST_WITHIN: Duration = Duration::from_secs(5);
/// How long a supervisor may take to accept a connection.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);

const SOCKET: &str = "supervisor.sock";

/// What a supervisor is asked to do. `slots` are names; without any it is about those of all
/// profiles. Slots that the home has once, such as `@dashboard`, must be named.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case", deny_unknown_fields)]
pub enum SupervisorRequest {
    /// Tell what there is to know about slots.
    #[serde(alias = "status")]
    List {
        /// Which slots.
        #[serde(default)]
        slots: Option<Vec<String>>,
    },
    /// Start slots, and answer when they are ready.
    Start {
        /// Which slots.
        #[serde(default)]
        slots: Option<Vec<String>>,
    },
    /// Stop slots, and answer when all their processes are gone.
    Stop {
        /// Which slots.
        #[serde(default)]
        slots: Option<Vec<String>>,
    },
    /// Stop and start slots, and answer when they are ready.
    Restart {
        /// Which slots.
        #[serde(default)]
        slots: Option<Vec<String>>,
    },
    /// Look again which slots there are.
    Reconcile,
    /// End all children and then the supervisor; what is desired stays.
    Shutdown,
}

/// What an order to one slot came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderOutcome {
    /// The slot.
    pub slot: String,
    /// What was done.
    pub done: Option<OrderResult>,
    /// Why it was not done.
    pub error: Option<String>,
}

/// What a supervisor answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SupervisorAnswer {
    /// Version of the protocol.
    pub version: u64,
    /// Who answers.
    pub holder: Holder,
    /// The slots that were asked about, as they are now.
    pub slots: Vec<SlotStatus>,
    /// The slots that the home has once, as they are now, whatever was asked about.
    #[serde(default)]
    pub services: Vec<SlotStatus>,
    /// What orders came to.
    pub outcomes: Vec<OrderOutcome>,
    /// Why the request was refused.
    pub error: Option<String>,
}

/// Returns the socket of a home.
pub(crate) fn socket_path(run_dir: &Path) -> PathBuf {
    run_dir.join(SOCKET)
}

/// Does something with the path of the socket. The address of a socket has 107 bytes at most, and a
/// home may be deep, so the directory is named by a descriptor of this process.
fn with_address<T>(run_dir: &Path, act: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    let dir = std::fs::File::open(run_dir)?;
    act(&PathBuf::from(format!("/proc/self/fd/{}", dir.as_raw_fd())).join(SOCKET))
}

/// Binds the socket. Only for the holder of the lock: what is there belongs to a supervisor that is
/// gone.
pub(crate) fn listen(run_dir: &Path) -> io::Result<UnixListener> {
    crate::files::remove(&socket_path(run_dir))?;
    let listener = with_address(run_dir, |address| UnixListener::bind(address))?;
    // The directory is private already; this is for a home that was made public.
    std::fs::set_permissions(
        socket_path(run_dir),
        std::os::unix::fs::PermissionsExt::from_mode(0o600),
    )?;
    Ok(listener)
}

/// Reads the request of a client, unless it is somebody else's or takes too long.
pub(crate) async fn receive(stream: &mut UnixStream) -> io::Result<SupervisorRequest> {
    let peer = stream.peer_cred()?.uid();
    let own = rustix::process::geteuid().as_raw();
    if peer != own && peer != 0 {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "another user"));
    }
    let mut line = Vec::new();
    let mut reader = BufReader::new(stream).take(MAX_REQUEST);
    timeout(REQUEST_WITHIN, reader.read_until(b'\n', &mut line)).await??;
    if line.last() != Some(&b'\n') {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "not one line of at most 64 KiB"));
    }
    serde_json::from_slice(&line).map_err(io::Error::from)
}

/// Sends a line to a client, unless it takes too long to read it.
pub(crate) async fn send(stream: &mut UnixStream, value: &impl Serialize) -> io::Result<()> {
    let mut bytes = serde_json::to_vec(value)?;
    bytes.push(b'\n');
    timeout(REQUEST_WITHIN, stream.write_all(&bytes)).await?
}

/// Why a supervisor did not answer.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// Nobody supervises this home.
    #[error("no supervisor runs for {}", .0.display())]
    NotRunning(PathBuf),
    /// A supervisor is there and does not answer.
    #[error("the supervisor{} does not answer", .0.as_ref().map(|holder| format!(" (process {} on {})", holder.process.pid, holder.host)).unwrap_or_default())]
    NoAnswer(Option<Box<Holder>>),
    /// The connection broke.
    #[error("cannot talk to the supervisor: {0}")]
    Io(#[from] io::Error),
}

/// Asks the supervisor of a home, and waits for the answer for as long as `limit`.
#[boxed]
pub async fn ask(
    run_dir: &Path,
    request: &SupervisorRequest,
    limit: Duration,
) -> Result<SupervisorAnswer, ControlError> {
    let no_answer = || ControlError::NoAnswer(Holder::read(run_dir).ok().flatten().map(Box::new));
    let mut stream = connect(run_dir).await?;
    send(&mut stream, request).await?;
    let mut line = Vec::new();
    let mut reader = BufReader::new(stream).take(MAX_ANSWER);
    match timeout(limit, reader.read_until(b'\n', &mut line)).await {
        Err(_) => Err(no_answer()),
        Ok(Err(error)) => Err(error.into()),
        Ok(Ok(0)) => Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
        Ok(Ok(_)) => Ok(serde_json::from_slice(&line).map_err(io::Error::from)?),
    }
}

async fn connect(run_dir: &Path) -> Result<UnixStream, ControlError> {
    // The directory stays open until the connection is made.
    let dir = match std::fs::File::open(run_dir) {
        Ok(dir) => dir,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(ControlError::NotRunning(run_dir.into()));
        }
        Err(error) => return Err(error.into()),
    };
    let address = PathBuf::from(format!("/proc/self/fd/{}", dir.as_raw_fd())).join(SOCKET);
    match timeout(CONNECT_WITHIN, UnixStream::connect(address)).await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(error)) => match error.kind() {
            // A socket without a listener is one of a supervisor that was killed.
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                Err(ControlError::NotRunning(run_dir.into()))
            }
            _ => Err(error.into()),
        },
        Err(_) => Err(ControlError::NoAnswer(Holder::read(run_dir).ok().flatten().map(Box::new))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_as_they_are_written_down() {
        for (text, request) in [
            (r#"{"command":"list"}"#, SupervisorRequest::List { slots: None }),
            (
                r#"{"command":"status","slots":["a"]}"#,
                SupervisorRequest::List { slots: Some(vec!["a".into()]) },
            ),
            (r#"{"command":"stop","slots":null}"#, SupervisorRequest::Stop { slots: None }),
            (r#"{"command":"reconcile"}"#, SupervisorRequest::Reconcile),
            (r#"{"command":"shutdown"}"#, SupervisorRequest::Shutdown),
        ] {
            assert_eq!(serde_json::from_str::<SupervisorRequest>(text).unwrap(), request);
        }
        for bad in ["", "{}", "[]", r#"{"command":"format"}"#, r#"{"command":"stop","slot":"a"}"#] {
            assert!(serde_json::from_str::<SupervisorRequest>(bad).is_err(), "{bad}");
        }
    }

    #[tokio::test]
    async fn a_home_deeper_than_a_socket_address_has_a_socket() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("d".repeat(200));
        std::fs::create_dir(&dir).unwrap();
        let missing = connect(&dir).await.unwrap_err();
        assert!(matches!(missing, ControlError::NotRunning(_)), "{missing}");
        let listener = listen(&dir).unwrap();
        let (accepted, connected) = tokio::join!(listener.accept(), connect(&dir));
        accepted.unwrap();
        connected.unwrap();
        drop(listener);
        let gone = connect(&dir).await.unwrap_err();
        assert!(matches!(gone, ControlError::NotRunning(_)), "{gone}");
    }
}
