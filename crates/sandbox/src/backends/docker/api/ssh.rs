//! An engine behind a login: its API through `ssh … docker system dial-stdio`.
//!
//! The client library is given a socket that only this process can connect to.
//! Every connection to it becomes one over ssh, and those share one login.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use tokio::io::{AsyncRead, AsyncReadExt as _, Interest, Ready};
use tokio::net::unix::OwnedReadHalf;
use tokio::net::{UnixListener, UnixStream};
use tokio::process::{Child, Command};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{sleep, timeout};
use vestal_config::Environment;

use super::address::Login;
use super::context::find_program;
use super::error::one_line;
use super::socket::{SocketPath, make_private, private_dir};
use crate::backend::BackendError;

/// What runs elsewhere: the part of the engine's program that passes its API
/// on. Through a shell of its own, because the login's may be any.
const REMOTE: &str = "sh -c 'command -v docker >/dev/null 2>&1 && exec docker system dial-stdio; \
                      exec podman system dial-stdio'";

/// Longest name of the socket that connections share the login by: a hash, and
/// what ssh appends while it makes it.
const CONTROL_NAME: usize = 64;

/// How much of ssh's words is kept.
const MAX_WORDS: usize = 4096;

/// How long ssh may take to end once there is nothing left to pass on.
const END_WITHIN: Duration = Duration::from_secs(5);

/// A socket whose connections end at an engine elsewhere.
#[derive(Debug)]
pub(super) struct Bridge {
    /// Keeps the path valid: the socket has no name of its own.
    _socket: OwnedFd,
    path: PathBuf,
    complaint: Complaint,
    task: JoinHandle<()>,
}

/// What ssh said when it last failed.
type Complaint = Arc<Mutex<Option<String>>>;

/// How ssh is run.
#[derive(Debug)]
struct Ssh {
    program: PathBuf,
    arguments: Vec<String>,
    environment: Environment,
}

impl Bridge {
    /// Opens a socket. Nobody logs in before somebody connects to it.
    pub(super) fn open(
        login: &Login,
        run_dir: &Path,
        environment: &Environment,
    ) -> Result<Self, BackendError> {
        let program =
            find_program(Path::new("ssh"), environment).ok_or_else(|| BackendError::Advised {
                problem: format!("ssh://{login} cannot be reached: there is no ssh on PATH"),
                advice: "install an OpenSSH client".to_owned(),
            })?;
        let dir = private_dir(run_dir, CONTROL_NAME, environment);
        make_private(&dir)
            .and_then(|()| make_private(run_dir))
            .map_err(BackendError::io(format!("make {} for this user alone", dir.display())))?;
        let ssh = Ssh::new(program, login, &dir, environment);
        let (listener, socket) =
            nameless_listener(run_dir).map_err(BackendError::io("make a socket"))?;
        let path = Path::new("/proc/self/fd").join(socket.as_raw_fd().to_string());
        let complaint = Complaint::default();
        let task = tokio::spawn(accept(listener, Arc::new(ssh), Arc::clone(&complaint)));
        Ok(Self { _socket: socket, path, complaint, task })
    }

    /// Returns a path that this process can connect to.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns what ssh said when it last failed.
    pub(super) fn complaint(&self) -> Option<String> {
        self.complaint.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Ssh {
    fn new(program: PathBuf, login: &Login, dir: &Path, environment: &Environment) -> Self {
        // Nobody is there to answer questions.
        let mut options = vec!["BatchMode=yes".to_owned(), "ConnectTimeout=20".to_owned()];
        // One login for all connections, unless the place for its socket has
        // a name that cannot be written down.
        if let Some(dir) = dir.to_str().filter(|dir| !dir.contains(['"', '\\', '\n'])) {
            let dir = dir.replace('%', "%%");
            options.push("ControlMaster=auto".to_owned());
            options.push(format!("ControlPath=\"{dir}/ssh-%C\""));
            options.push("ControlPersist=60".to_owned());
        }
        let mut arguments = vec!["-T".to_owned()];
        arguments.extend(options.into_iter().flat_map(|option| ["-o".to_owned(), option]));
        if let Some(user) = &login.user {
            arguments.extend(["-l".to_owned(), user.clone()]);
        }
        if let Some(port) = login.port {
            arguments.extend(["-p".to_owned(), port.to_string()]);
        }
        arguments.extend(["--".to_owned(), login.host.clone(), REMOTE.to_owned()]);
        Self { program, arguments, environment: environment.clone() }
    }

    fn spawn(&self) -> io::Result<Child> {
        Command::new(&self.program)
            .args(&self.arguments)
            .env_clear()
            .envs(self.environment.iter())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // What interrupts this process does not interrupt the login that
            // others share.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
    }
}

/// Makes a listening socket, and what finds it once its name is gone.
fn nameless_listener(dir: &Path) -> io::Result<(UnixListener, OwnedFd)> {
    let path = dir.join(format!(".ssh-{}.sock", crate::key::random_hex::<8>()?));
    let short = SocketPath::new(&path)?;
    let listener = UnixListener::bind(short.as_path())?;
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let socket = rustix::fs::open(short.as_path(), flags, Mode::empty());
    std::fs::remove_file(&path)?;
    Ok((listener, socket?))
}

async fn accept(listener: UnixListener, ssh: Arc<Ssh>, complaint: Complaint) {
    // With this task its connections end.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(carry(stream, Arc::clone(&ssh), Arc::clone(&complaint)));
                }
                // Out of descriptors, most likely: that passes.
                Err(_) => sleep(Duration::from_millis(50)).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Carries one connection until the other side has said all.
async fn carry(stream: UnixStream, ssh: Arc<Ssh>, complaint: Complaint) {
    let result = match ssh.spawn() {
        Ok(child) => pass_on(stream, child).await,
        Err(error) => Err(format!("ssh cannot be run: {error}")),
    };
    if let Err(words) = result {
        *complaint.lock().unwrap_or_else(PoisonError::into_inner) = Some(words);
    }
}

/// Passes bytes on in both directions, each of which may end first. The stream
/// is closed when it is known how ssh ended.
async fn pass_on(stream: UnixStream, mut child: Child) -> Result<(), String> {
    let (mut from_here, mut to_here) = stream.into_split();
    let (Some(mut stdin), Some(mut stdout), Some(stderr)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err("ssh has no pipes".to_owned());
    };
    let words = tokio::spawn(last_words(stderr));
    let up = async {
        // That the other side listens no more shows in the other direction.
        tokio::io::copy(&mut from_here, &mut stdin).await.ok();
        drop(stdin);
        // Once this side has said all, it may leave altogether.
        left(&from_here).await;
    };
    let ended = tokio::select! {
        outcome = tokio::io::copy(&mut stdout, &mut to_here) => outcome.is_ok(),
        () = up => false,
    };
    if !ended {
        // This side is gone; dropping the child ends it.
        return Ok(());
    }
    let status = timeout(END_WITHIN, child.wait()).await;
    // A login that goes on in the background may hold on to the pipe.
    let words = timeout(Duration::from_millis(200), words).await;
    match status {
        Ok(Ok(status)) if status.success() => Ok(()),
        Ok(Ok(status)) => {
            let words = words.ok().and_then(Result::ok).flatten();
            Err(words.unwrap_or_else(|| format!("ssh ended ({status})")))
        }
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("ssh does not end".to_owned()),
    }
}

/// Waits until the other end of a stream is closed in both directions.
async fn left(stream: &OwnedReadHalf) {
    while !stream.ready(Interest::WRITABLE).await.is_ok_and(Ready::is_write_closed) {
        sleep(Duration::from_millis(500)).await;
    }
}

/// Returns the last lines that ssh writes, or what it runs.
async fn last_words(mut stderr: impl AsyncRead + Unpin) -> Option<String> {
    let mut words = Vec::new();
    let mut chunk = [0; 1024];
    while let Ok(count @ 1..) = stderr.read(&mut chunk).await {
        words.extend_from_slice(&chunk[..count]);
        let excess = words.len().saturating_sub(MAX_WORDS);
        words.drain(..excess);
    }
    let text = String::from_utf8_lossy(&words);
    let mut lines: Vec<_> = text.lines().rev().filter(|line| !line.trim().is_empty()).collect();
    lines.truncate(3);
    lines.reverse();
    let text = one_line(&lines.join("; "));
    (!text.is_empty()).then(|| text.trim_end_matches('.').to_owned())
}

#[cfg(test)]
#[path = "ssh_tests.rs"]
mod tests;
