//! An engine on another machine: its API through `ssh … docker system dial-stdio`.
//!
//! Each connection is forwarded over ssh; all of them share one login.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tokio::time::timeout;
use vestal_config::Environment;

use super::address::SshLogin;
use super::context::find_program;
use super::error::one_line;
use super::socket::{make_private, private_dir};
use super::tunnel::{Carrier, EngineTunnel, LastFailure, TunnelFailure, closed, note};
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

#[derive(Debug)]
struct SshCommand {
    program: PathBuf,
    arguments: Vec<String>,
    environment: Environment,
}

/// Opens a socket whose connections are carried by `ssh`. The login happens at the first one.
pub(super) fn open(
    login: &SshLogin,
    run_dir: &Path,
    environment: &Environment,
) -> Result<EngineTunnel, BackendError> {
    let program =
        find_program(Path::new("ssh"), environment).ok_or_else(|| BackendError::Advised {
            problem: format!("ssh://{login} cannot be reached: ssh is not on PATH"),
            advice: "install an OpenSSH client".to_owned(),
        })?;
    let dir = private_dir(run_dir, CONTROL_NAME, environment);
    make_private(&dir)
        .and_then(|()| make_private(run_dir))
        .map_err(BackendError::io(format!("create {} for this user only", dir.display())))?;
    let ssh = Arc::new(SshCommand::new(program, login, &dir, environment));
    let carrier: Arc<Carrier> =
        Arc::new(move |stream, last| Box::pin(forward(stream, Arc::clone(&ssh), last)));
    EngineTunnel::open(run_dir, carrier)
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

/// Forwards one connection until the engine closes it.
async fn forward(stream: UnixStream, ssh: Arc<SshCommand>, last: LastFailure) {
    let result = match ssh.spawn() {
        Ok(child) => copy_both_ways(stream, child).await,
        Err(error) => Err(format!("ssh cannot be run: {error}")),
    };
    if let Err(reason) = result {
        note(&last, Some(TunnelFailure { reason, advice: None }));
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
