//! An engine on another machine: its API through `ssh … docker system dial-stdio`.
//!
//! The client library connects to a socket that only this process can reach. Each
//! connection is forwarded over ssh; all of them share one login.

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

use super::address::SshLogin;
use super::context::find_program;
use super::error::one_line;
use super::socket::{SocketPath, make_private, private_dir};
use crate::backend::BackendError;

/// The remote command, which forwards to the engine's API. It runs in `sh`, because
/// the login shell may be any.
const REMOTE_COMMAND: &str = "sh -c 'command -v docker >/dev/null 2>&1 && \
                              exec docker system dial-stdio; \
                              exec podman system dial-stdio'";

/// Longest name of ssh's control socket: a hash and a temporary suffix.
const CONTROL_NAME: usize = 64;

/// Most of ssh's standard error that is kept.
const MAX_STDERR: usize = 4096;

/// Longest time until ssh exits after its output has ended.
const EXIT_TIMEOUT: Duration = Duration::from_secs(5);

/// A local socket that forwards to an engine on another machine.
#[derive(Debug)]
pub(super) struct SshTunnel {
    /// Keeps the path valid: the socket's file is deleted.
    _socket: OwnedFd,
    path: PathBuf,
    last_error: LastError,
    task: JoinHandle<()>,
}

/// The message of ssh's last failure.
type LastError = Arc<Mutex<Option<String>>>;

#[derive(Debug)]
struct SshCommand {
    program: PathBuf,
    arguments: Vec<String>,
    environment: Environment,
}

impl SshTunnel {
    /// Opens the socket. The login happens at the first connection.
    pub(super) fn open(
        login: &SshLogin,
        run_dir: &Path,
        environment: &Environment,
    ) -> Result<Self, BackendError> {
        let program =
            find_program(Path::new("ssh"), environment).ok_or_else(|| BackendError::Advised {
                problem: format!("ssh://{login} cannot be reached: ssh is not on PATH"),
                advice: "install an OpenSSH client".to_owned(),
            })?;
        let dir = private_dir(run_dir, CONTROL_NAME, environment);
        make_private(&dir)
            .and_then(|()| make_private(run_dir))
            .map_err(BackendError::io(format!("create {} for this user only", dir.display())))?;
        let ssh = SshCommand::new(program, login, &dir, environment);
        let (listener, socket) =
            nameless_listener(run_dir).map_err(BackendError::io("create a socket"))?;
        let path = Path::new("/proc/self/fd").join(socket.as_raw_fd().to_string());
        let last_error = LastError::default();
        let task = tokio::spawn(accept(listener, Arc::new(ssh), Arc::clone(&last_error)));
        Ok(Self { _socket: socket, path, last_error, task })
    }

    /// Returns a path that this process can connect to.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the message of ssh's last failure.
    pub(super) fn last_error(&self) -> Option<String> {
        self.last_error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for SshTunnel {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl SshCommand {
    fn new(program: PathBuf, login: &SshLogin, dir: &Path, environment: &Environment) -> Self {
        // No prompts: there is no terminal.
        let mut options = vec!["BatchMode=yes".to_owned(), "ConnectTimeout=20".to_owned()];
        // One login for all connections, unless the path of its socket cannot be
        // quoted.
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
        arguments.extend(["--".to_owned(), login.host.clone(), REMOTE_COMMAND.to_owned()]);
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
            // Signals of the terminal must not end the shared login.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
    }
}

/// Returns a listening socket without a file, and a descriptor to reach it by.
fn nameless_listener(dir: &Path) -> io::Result<(UnixListener, OwnedFd)> {
    let path = dir.join(format!(".ssh-{}.sock", crate::key::random_hex::<8>()?));
    let short = SocketPath::new(&path)?;
    let listener = UnixListener::bind(short.as_path())?;
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let socket = rustix::fs::open(short.as_path(), flags, Mode::empty());
    std::fs::remove_file(&path)?;
    Ok((listener, socket?))
}

async fn accept(listener: UnixListener, ssh: Arc<SshCommand>, last_error: LastError) {
    // The connections end with this task.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(forward(stream, Arc::clone(&ssh), Arc::clone(&last_error)));
                }
                // Probably out of descriptors, which passes.
                Err(_) => sleep(Duration::from_millis(50)).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Forwards one connection until the engine closes it.
async fn forward(stream: UnixStream, ssh: Arc<SshCommand>, last_error: LastError) {
    let result = match ssh.spawn() {
        Ok(child) => copy_both_ways(stream, child).await,
        Err(error) => Err(format!("ssh cannot be run: {error}")),
    };
    if let Err(words) = result {
        *last_error.lock().unwrap_or_else(PoisonError::into_inner) = Some(words);
    }
}

/// Copies bytes in both directions; either may end first. The stream is closed only
/// after ssh's exit status is known.
async fn copy_both_ways(stream: UnixStream, mut child: Child) -> Result<(), String> {
    let (mut from_here, mut to_here) = stream.into_split();
    let (Some(mut stdin), Some(mut stdout), Some(stderr)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err("ssh has no pipes".to_owned());
    };
    let words = tokio::spawn(stderr_tail(stderr));
    let up = async {
        // A write error shows in the other direction.
        tokio::io::copy(&mut from_here, &mut stdin).await.ok();
        drop(stdin);
        // After the end of input the client may close the connection.
        closed(&from_here).await;
    };
    let ended = tokio::select! {
        outcome = tokio::io::copy(&mut stdout, &mut to_here) => outcome.is_ok(),
        () = up => false,
    };
    if !ended {
        // The client is gone. Dropping the child kills it.
        return Ok(());
    }
    let status = timeout(EXIT_TIMEOUT, child.wait()).await;
    // The shared login in the background may keep the pipe open.
    let words = timeout(Duration::from_millis(200), words).await;
    match status {
        Ok(Ok(status)) if status.success() => Ok(()),
        Ok(Ok(status)) => {
            let words = words.ok().and_then(Result::ok).flatten();
            Err(words.unwrap_or_else(|| format!("ssh exited ({status})")))
        }
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("ssh does not exit".to_owned()),
    }
}

/// Waits until the other end of a stream is closed in both directions.
async fn closed(stream: &OwnedReadHalf) {
    while !stream.ready(Interest::WRITABLE).await.is_ok_and(Ready::is_write_closed) {
        sleep(Duration::from_millis(500)).await;
    }
}

/// Returns the last lines of ssh's standard error.
async fn stderr_tail(mut stderr: impl AsyncRead + Unpin) -> Option<String> {
    let mut words = Vec::new();
    let mut chunk = [0; 1024];
    while let Ok(count @ 1..) = stderr.read(&mut chunk).await {
        words.extend_from_slice(&chunk[..count]);
        let excess = words.len().saturating_sub(MAX_STDERR);
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
