//! A server's processes: one group, which never outlives us.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

/// How long a server has to end by itself once nobody speaks to it any more,
/// and once more when it was asked to.
const GRACE: Duration = Duration::from_secs(1);

/// How long what it started has, which was asked to end with it.
const FOLLOWERS: Duration = Duration::from_millis(200);

/// The guard leads the group that the server is in. It waits for the end of a
/// pipe whose other end is ours, so it learns of our death whatever we die of,
/// and ends the group, itself included. As long as it lives, nobody else can
/// have the group's number.
const GUARD: &str =
    "trap '' HUP INT TERM; read -r _; kill -s TERM -- -$$; sleep 1; kill -s KILL -- -$$";

const SHELL: &str = "/bin/sh";

/// What is started.
#[derive(Debug)]
pub(crate) struct ServerProgram {
    pub(crate) file: PathBuf,
    /// Its arguments.
    pub(crate) args: Vec<String>,
    /// Its whole environment.
    pub(crate) env: Vec<(OsString, OsString)>,
    /// Where it is started.
    pub(crate) cwd: Option<PathBuf>,
}

/// A server that runs, with all it has started in its group. Dropping it has
/// the group asked to end, and ended a second later.
#[derive(Debug)]
pub(crate) struct ServerProcess {
    server: Child,
    guard: Child,
    /// The guard waits for the end of it.
    _lead: Option<ChildStdin>,
}

/// A server's ends of its streams.
#[derive(Debug)]
pub(crate) struct ServerStreams {
    pub(crate) stdin: ChildStdin,
    pub(crate) stdout: ChildStdout,
    pub(crate) stderr: ChildStderr,
}

/// Starts a server.
pub(crate) fn start(program: &ServerProgram) -> io::Result<(ServerProcess, ServerStreams)> {
    let mut guard = Command::new(SHELL)
        .args(["-c", GUARD, "vestal-mcp-guard"])
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .map_err(|error| named(Path::new(SHELL), &error))?;
    let lead = guard.stdin.take();
    let group = guard.id().and_then(|id| i32::try_from(id).ok()).unwrap_or_default();
    let mut command = Command::new(&program.file);
    command
        .args(&program.args)
        .env_clear()
        .envs(program.env.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(group);
    if let Some(cwd) = &program.cwd {
        command.current_dir(cwd);
    }
    let mut server = command.spawn().map_err(|error| named(&program.file, &error))?;
    let streams = (server.stdin.take(), server.stdout.take(), server.stderr.take());
    let process = ServerProcess { server, guard, _lead: lead };
    match streams {
        (Some(stdin), Some(stdout), Some(stderr)) => {
            Ok((process, ServerStreams { stdin, stdout, stderr }))
        }
        _ => Err(io::Error::other("the server has no streams")),
    }
}

fn named(file: &Path, error: &io::Error) -> io::Error {
    let hint = match Errno::from_io_error(error) {
        Some(Errno::NOENT) if file.exists() => {
            "; the program that its first line (#!…) names is not there"
        }
        Some(Errno::NOEXEC) => {
            "; it is not a program for this machine, or a script without a first line such as #!/bin/sh"
        }
        _ => "",
    };
    io::Error::new(error.kind(), format!("failed to start {}: {error}{hint}", file.display()))
}

impl ServerProcess {
    /// Waits until the server has ended.
    pub(crate) async fn gone(&mut self) {
        // That it cannot be waited for means that it is no more.
        drop(self.server.wait().await);
    }

    /// Returns how the server ended, if it has or does so very soon.
    pub(crate) async fn ended(&mut self, within: Duration) -> Option<std::process::ExitStatus> {
        tokio::time::timeout(within, self.server.wait()).await.ok()?.ok()
    }

    /// Ends the server, which nobody speaks to any more, and all it has
    /// started. When this returns, nothing of the group is left.
    pub(crate) async fn end(mut self) {
        if self.ended(GRACE).await.is_none() {
            // Some have more to put in order than a killed process can, such as a container.
            self.signal(Signal::TERM);
            self.ended(GRACE).await;
            tokio::time::sleep(FOLLOWERS).await;
        }
        self.signal(Signal::KILL);
        drop(self.guard.wait().await);
        drop(self.server.wait().await);
    }

    /// Sends a signal to the whole group.
    fn signal(&self, signal: Signal) {
        // Until it has been waited for, the guard's number is nobody else's.
        if let Some(group) = self.guard.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)) {
            // Nothing in it is left to be ended, if this fails.
            kill_process_group(group, signal).ok();
        }
    }
}
