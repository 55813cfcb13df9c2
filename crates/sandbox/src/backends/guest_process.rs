//! The guest as a process of this machine: starting one that outlives this process, its
//! state, killing it, and errors of its socket.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, ErrorKind, Seek as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use jiff::Timestamp;
use rustix::fs::{MemfdFlags, memfd_create};
use tokio::io::AsyncReadExt as _;
use tokio::process::Command;
use vestal_process::ProcessId;

use super::scope::ScopePlace;
use crate::backend::{BackendError, Instance, InstanceState};
use crate::client::socket::SocketError;

/// Returns the state of an instance whose guest does not run, from the directory of
/// its socket.
pub(super) fn at_rest(socket_dir: &Path) -> Result<InstanceState, BackendError> {
    match fs::metadata(socket_dir) {
        Ok(metadata) => {
            // The guest removed its files at its end, which set this time.
            let since = metadata.modified().ok().and_then(|time| Timestamp::try_from(time).ok());
            Ok(InstanceState::Stopped { since })
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(InstanceState::Absent),
        Err(error) => Err(BackendError::io(format!("look at {}", socket_dir.display()))(error)),
    }
}

/// Kills a guest and waits until it has exited.
pub(super) async fn kill(
    process: &ProcessId,
    instance: &Instance,
    timeout: Duration,
) -> Result<(), BackendError> {
    let handle = process.handle().map_err(BackendError::io("open the guest's process"))?;
    let Some(handle) = handle else {
        return Ok(());
    };
    handle.kill().map_err(BackendError::io("kill the guest"))?;
    let ended = handle.ended_within(timeout).await;
    if ended.map_err(BackendError::io("wait for the guest's end"))? {
        Ok(())
    } else {
        let reason = format!("process {} does not die", process.pid);
        Err(BackendError::WontEnd { id: instance.id.clone(), reason })
    }
}

/// Returns the error for a guest's socket that cannot be connected to.
pub(super) fn unreached(instance: &Instance, error: SocketError) -> BackendError {
    match error {
        SocketError::Absent => BackendError::NotListening { id: instance.id.clone() },
        SocketError::Io(source) => {
            BackendError::Io { action: "connect to the guest".into(), source }
        }
        other @ (SocketError::NotASocket | SocketError::WrongPeer { .. }) => {
            BackendError::Impostor { id: instance.id.clone(), reason: other.to_string() }
        }
    }
}

/// Longest time until a guest listens. It takes milliseconds; the rest is for slow
/// machines.
const READY_WITHIN: Duration = Duration::from_mins(1);

/// Longest time until the starter exits after that.
const REAPED_WITHIN: Duration = Duration::from_secs(10);

/// The variable that identifies a program that is still starting. Jobs do not
/// inherit it.
pub(super) const MARK: &str = "VESTAL_GUEST_INSTANCE";

/// Longest report of a guest that is ready or has failed.
const MAX_READY: u64 = 4096;

/// A program that detaches from this process and reports when it is ready.
#[derive(Debug)]
pub(super) struct Detached<'a> {
    pub(super) program: &'a Path,
    /// Its arguments. The descriptors below are its 0, 1 and 2.
    pub(super) arguments: &'a [&'a str],
    /// The systemd scope to start it in, if there is one.
    pub(super) place: Option<ScopePlace<'a>>,
    pub(super) path_variable: &'a OsStr,
    /// The instance, if the program must be found before it is ready.
    pub(super) mark: Option<&'a str>,
    /// Its standard input.
    pub(super) input: OwnedFd,
    /// A descriptor that it keeps open.
    pub(super) hold: OwnedFd,
    /// Called after the start, for tests that interrupt it there.
    pub(super) started: fn(),
}

impl Detached<'_> {
    /// Starts the program and returns its report, which ends when it is ready.
    pub(super) async fn start(self) -> Result<String, BackendError> {
        let (ready, ready_end) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
            .map_err(|error| BackendError::io("make a pipe")(error.into()))?;
        let mut command = match &self.place {
            Some(place) => {
                let (program, arguments) = place.prefix();
                let mut command = Command::new(program);
                command.args(arguments).arg(self.program);
                command
            }
            None => Command::new(self.program),
        };
        // It gets its three standard descriptors and nothing else of this process:
        // no other descriptor and no variable.
        command
            .args(self.arguments)
            .env_clear()
            .env("PATH", self.path_variable)
            .current_dir("/")
            .stdin(Stdio::from(self.input))
            .stdout(Stdio::from(ready_end))
            .stderr(Stdio::from(self.hold));
        if let Some(mark) = self.mark {
            command.env(MARK, mark);
        }
        if let Some((name, value)) = self.place.and_then(ScopePlace::environment) {
            command.env(name, value);
        }
        pass_failpoint(&mut command);

        let mut child =
            spawn_retrying(&mut command).await.map_err(BackendError::io("start the guest"))?;
        // Closes this process's copies of the descriptors.
        drop(command);
        (self.started)();
        let line = read_ready(ready).await;
        if line.is_err() {
            // It must not become ready after the caller got an error.
            child.start_kill().ok();
        }
        // The child only forks and exits. Waiting leaves no zombie.
        match tokio::time::timeout(REAPED_WITHIN, child.wait()).await {
            Ok(ended) => {
                ended.map_err(BackendError::io("wait for the guest's starter"))?;
                line
            }
            Err(_) => line.and(Err(BackendError::GuestFailed {
                reason: format!("its starter did not exit within {} s", REAPED_WITHIN.as_secs()),
            })),
        }
    }
}

/// Returns an unnamed file with this content.
pub(super) fn nameless_file(name: &str, bytes: &[u8]) -> io::Result<OwnedFd> {
    let mut file = std::fs::File::from(memfd_create(name, MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file.into())
}

/// Spawns, and tries again while another thread's fork still has the freshly written
/// program open for writing (`ETXTBSY`).
pub(super) async fn spawn_retrying(command: &mut Command) -> io::Result<tokio::process::Child> {
    let mut tries = 0;
    loop {
        match command.spawn() {
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy && tries < 50 => {
                tries += 1;
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            other => return other,
        }
    }
}

async fn read_ready(ready: OwnedFd) -> Result<String, BackendError> {
    let failed = |reason: String| BackendError::GuestFailed { reason };
    let pipe = tokio::net::unix::pipe::Receiver::from_owned_fd(ready)
        .map_err(BackendError::io("watch the guest's start"))?;
    let mut text = String::new();
    match tokio::time::timeout(READY_WITHIN, pipe.take(MAX_READY).read_to_string(&mut text)).await {
        Ok(Ok(_)) => Ok(text),
        Ok(Err(error)) => Err(failed(error.to_string())),
        Err(_) => Err(failed(format!("it was not ready within {} s", READY_WITHIN.as_secs()))),
    }
}

/// Passes a test's failpoint on to the guest and the stage.
#[cfg(feature = "failpoints")]
#[expect(clippy::disallowed_methods, reason = "a switch of tests is not a setting")]
fn pass_failpoint(command: &mut Command) {
    for variable in ["VESTAL_GUEST_FAILPOINT", "VESTAL_STAGE_FAILPOINT"] {
        if let Some(name) = std::env::var_os(variable) {
            command.env(variable, name);
        }
    }
}

#[cfg(not(feature = "failpoints"))]
fn pass_failpoint(_command: &mut Command) {}
