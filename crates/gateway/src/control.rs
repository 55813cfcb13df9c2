//! The control socket: how other processes ask a gateway what it does, and ask it to stop.
//!
//! Whether a gateway is alive is answered by the gateway itself or by the identity of its
//! process, never by taking its lock: a question must not be able to keep one from starting.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use rustix::fs::{CWD, Mode, OFlags, openat};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, mpsc};
use vestal_api::dashboard::{AskingTurn, QuestionAnswer, WaitingQuestionView};
use vestal_process::ProcessId;
use vestal_runtime::AnswerError;

use crate::lifecycle::ShutdownCause;
use crate::questions::OpenQuestions;
use crate::state::{GatewayState, StateFile, read_state};

/// The longest request: an answer may be a page of words.
const MAX_REQUEST: u64 = 64 << 10;

/// The longest answer.
const MAX_ANSWER: u64 = 4 << 20;

/// How long one request may take to come, and an answer to go.
const WITHIN: Duration = Duration::from_secs(5);

/// Connections that are served at once; others wait.
const MAX_CONNECTIONS: usize = 64;

/// A request, one line of JSON.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "verb", rename_all = "snake_case")]
enum ControlRequest {
    Status,
    Stop { restart: bool },
    Questions,
    Answer { asked_by: AskingTurn, of: String, question: String, answer: QuestionAnswer },
}

/// An answer, one line of JSON.
#[derive(Debug, Serialize, Deserialize)]
struct ControlAnswer {
    ok: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    state: Option<GatewayState>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    questions: Option<Vec<WaitingQuestionView>>,
}

impl ControlAnswer {
    fn of_state(state: GatewayState) -> Self {
        Self { ok: true, error: None, state: Some(state), questions: None }
    }

    fn refused(error: &str) -> Self {
        Self { ok: false, error: Some(error.to_owned()), state: None, questions: None }
    }
}

/// What a gateway says when it is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StatusAnswer {
    /// It answers; this is its state.
    Answers(Box<GatewayState>),
    /// Nobody listens.
    NotRunning,
}

/// Why a gateway could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum GatewayControlError {
    /// The socket cannot be used.
    #[error("failed to ask the gateway at {}: {source}", path.display())]
    Io {
        /// The socket.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It did not answer in time.
    #[error("the gateway at {} does not answer", .0.display())]
    Silent(PathBuf),
    /// It refused.
    #[error("the gateway refused: {0}")]
    Refused(String),
    /// Another process than the one on record has the socket.
    #[error("{} belongs to process {found}, and the gateway on record is process {recorded}", path.display())]
    Impostor {
        /// The socket.
        path: PathBuf,
        /// Who has it.
        found: i32,
        /// Who wrote the state.
        recorded: u32,
    },
}

/// Returns the socket in a profile's home.
pub fn control_path(home: &Path) -> PathBuf {
    home.join("run").join("gateway.sock")
}

/// Asks the gateway of a profile's home what it does.
#[boxed]
pub async fn ask_status(home: &Path) -> Result<StatusAnswer, GatewayControlError> {
    let path = control_path(home);
    let Some(answer) = ask(&path, &ControlRequest::Status).await? else {
        return Ok(StatusAnswer::NotRunning);
    };
    match answer.state {
        Some(state) => Ok(StatusAnswer::Answers(Box::new(state))),
        None => Err(GatewayControlError::Refused(answer.error.unwrap_or_default())),
    }
}

/// Asks the gateway of a profile's home to stop, as an operator means it, and returns who it was;
/// nothing if nobody listens. It is gone when its process is.
#[boxed]
pub async fn ask_stop(
    home: &Path,
    restart: bool,
) -> Result<Option<GatewayState>, GatewayControlError> {
    let path = control_path(home);
    let Some(answer) = ask(&path, &ControlRequest::Stop { restart }).await? else {
        return Ok(None);
    };
    if answer.ok {
        Ok(answer.state)
    } else {
        Err(GatewayControlError::Refused(answer.error.unwrap_or_default()))
    }
}

/// Asks the gateway of a profile's home which of its turns wait for a person. The state that it wrote
/// says whether there are any, so that one which has none is not asked.
#[boxed]
pub async fn ask_questions(home: &Path) -> Result<Vec<WaitingQuestionView>, GatewayControlError> {
    let Some(recorded) = waiting_gateway(home) else { return Ok(Vec::new()) };
    let path = control_path(home);
    let answer = ask_peer(&path, &ControlRequest::Questions, Some(recorded)).await?;
    Ok(answer.and_then(|answer| answer.questions).unwrap_or_default())
}

/// Answers a question of a turn of the gateway of a profile's home.
#[boxed]
pub async fn answer_question(
    home: &Path,
    asked_by: AskingTurn,
    of: &str,
    question: &str,
    answer: QuestionAnswer,
) -> Result<(), GatewayControlError> {
    let not_open = || GatewayControlError::Refused(AnswerError::NotOpen.to_string());
    let recorded = waiting_gateway(home).ok_or_else(not_open)?;
    let (of, question) = (of.to_owned(), question.to_owned());
    let request = ControlRequest::Answer { asked_by, of, question, answer };
    let path = control_path(home);
    let answer = ask_peer(&path, &request, Some(recorded)).await?.ok_or_else(not_open)?;
    if answer.ok {
        Ok(())
    } else {
        Err(GatewayControlError::Refused(answer.error.unwrap_or_default()))
    }
}

/// Returns the process of a gateway that lives and says that questions wait.
fn waiting_gateway(home: &Path) -> Option<ProcessId> {
    let state = match read_state(home) {
        Ok(state) => state?,
        Err(error) => {
            tracing::warn!(%error, "whether a gateway asks something is not known");
            return None;
        }
    };
    (state.waiting_questions > 0).then(|| state.process()).filter(ProcessId::is_alive)
}

async fn ask(
    path: &Path,
    request: &ControlRequest,
) -> Result<Option<ControlAnswer>, GatewayControlError> {
    ask_peer(path, request, None).await
}

/// Asks the owner of a socket, which must be this process if one is given.
async fn ask_peer(
    path: &Path,
    request: &ControlRequest,
    recorded: Option<ProcessId>,
) -> Result<Option<ControlAnswer>, GatewayControlError> {
    let failed = |source: io::Error| GatewayControlError::Io { path: path.to_owned(), source };
    let asking = async {
        let Some(mut stream) = connect(path).await.map_err(failed)? else { return Ok(None) };
        if let Some(recorded) = recorded {
            // The kernel says who listens, and the process on record is still the same one.
            let found = stream.peer_cred().map_err(failed)?.pid().unwrap_or_default();
            if u32::try_from(found) != Ok(recorded.pid) || !recorded.is_alive() {
                let (path, recorded) = (path.to_owned(), recorded.pid);
                return Err(GatewayControlError::Impostor { path, found, recorded });
            }
        }
        let asked = async {
            let mut line = serde_json::to_vec(request)?;
            line.push(b'\n');
            stream.write_all(&line).await?;
            let mut answer = Vec::new();
            stream.take(MAX_ANSWER).read_to_end(&mut answer).await?;
            Ok::<_, io::Error>(serde_json::from_slice(&answer)?)
        };
        asked.await.map(Some).map_err(failed)
    };
    match tokio::time::timeout(WITHIN, asking).await {
        Ok(answer) => answer,
        Err(_) => Err(GatewayControlError::Silent(path.to_owned())),
    }
}

/// Connects; nothing if nobody listens.
async fn connect(path: &Path) -> io::Result<Option<UnixStream>> {
    let connected = match SocketDirectory::open(path)? {
        Some(anchor) => UnixStream::connect(anchor.path()).await,
        None => return Ok(None),
    };
    match connected {
        Ok(stream) => Ok(Some(stream)),
        Err(error)
            if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// The directory of a socket, held open: a home may be deeper than the 108 bytes that the path of
/// a socket may have, and the path through the descriptor never is.
struct SocketDirectory {
    dir: rustix::fd::OwnedFd,
    name: PathBuf,
}

impl SocketDirectory {
    /// Opens the directory; nothing if there is none.
    fn open(path: &Path) -> io::Result<Option<Self>> {
        let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::Error::other("the socket has no directory"));
        };
        match openat(CWD, dir, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()) {
            Ok(dir) => Ok(Some(Self { dir, name: name.into() })),
            Err(rustix::io::Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn path(&self) -> PathBuf {
        Path::new("/proc/self/fd").join(self.dir.as_raw_fd().to_string()).join(&self.name)
    }
}

/// Serves the control socket until it is dropped.
#[derive(Debug)]
pub(crate) struct ControlSocket {
    path: PathBuf,
    task: tokio::task::JoinHandle<()>,
}

impl ControlSocket {
    /// Begins to listen. The caller holds the gateway's lock, so what has the socket's name is
    /// what an earlier gateway left.
    pub(crate) fn listen(
        home: &Path,
        state: Arc<StateFile>,
        questions: OpenQuestions,
        shutdown: mpsc::Sender<ShutdownCause>,
    ) -> io::Result<Self> {
        let path = control_path(home);
        let anchor = SocketDirectory::open(&path)?
            .ok_or_else(|| io::Error::other("there is no directory for it"))?;
        match fs::remove_file(anchor.path()) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(anchor.path())?;
        // The directory is private; this is for a home whose directory is not.
        fs::set_permissions(anchor.path(), fs::Permissions::from_mode(0o600))?;
        let asked = ControlledGateway { state, questions, shutdown };
        let task = tokio::spawn(serve(listener, asked));
        Ok(Self { path, task })
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        self.task.abort();
        // One that is left behind refuses connections, which says the same.
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::debug!(%error, "the control socket was not removed");
        }
    }
}

/// What is asked over the socket. Cheap to clone.
#[derive(Debug, Clone)]
struct ControlledGateway {
    state: Arc<StateFile>,
    questions: OpenQuestions,
    shutdown: mpsc::Sender<ShutdownCause>,
}

async fn serve(listener: UnixListener, gateway: ControlledGateway) {
    let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let gateway = gateway.clone();
                tokio::spawn(async move {
                    let served = tokio::time::timeout(WITHIN, answer(stream, &gateway));
                    match served.await {
                        Ok(Ok(())) => {}
                        Ok(Err(error)) => tracing::debug!(%error, "a control connection failed"),
                        Err(_) => tracing::debug!("a control connection took too long"),
                    }
                    drop(slot);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a control connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn answer(stream: UnixStream, gateway: &ControlledGateway) -> io::Result<()> {
    let ControlledGateway { state, questions, shutdown } = gateway;
    let peer = stream.peer_cred()?.uid();
    let own = rustix::process::geteuid().as_raw();
    let (reader, mut writer) = stream.into_split();
    let mut line = String::new();
    BufReader::new(reader.take(MAX_REQUEST)).read_line(&mut line).await?;
    let refused = ControlAnswer::refused;
    let answer = match serde_json::from_str(&line) {
        _ if peer != own && peer != 0 => refused("another user asks"),
        Err(error) => refused(&format!("not a request: {error}")),
        Ok(ControlRequest::Status) => ControlAnswer::of_state(state.read()),
        Ok(ControlRequest::Questions) => {
            let open = questions.list(&state.read().profile);
            ControlAnswer { ok: true, error: None, state: None, questions: Some(open) }
        }
        Ok(ControlRequest::Answer { asked_by, of, question, answer }) => {
            match questions.answer(asked_by, &of, &question, answer) {
                Ok(()) => ControlAnswer::of_state(state.read()),
                Err(error) => refused(&error.to_string()),
            }
        }
        Ok(ControlRequest::Stop { restart }) => {
            let shutdown_kind =
                if restart { ShutdownCause::Restart } else { ShutdownCause::Planned };
            match shutdown.try_send(shutdown_kind) {
                // Full: it has been asked already.
                Ok(()) | Err(mpsc::error::TrySendError::Full(_)) => {
                    ControlAnswer::of_state(state.read())
                }
                Err(mpsc::error::TrySendError::Closed(_)) => refused("it is about to end"),
            }
        }
    };
    let mut line = serde_json::to_vec(&answer)?;
    line.push(b'\n');
    writer.write_all(&line).await?;
    writer.shutdown().await
}
