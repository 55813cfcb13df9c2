//! Starting a guest process that outlives this one.

use std::io::{self, Seek as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use rustix::fs::{MemfdFlags, memfd_create};
use tokio::io::AsyncReadExt as _;
use tokio::process::Command;
use vestal_wire::GuestSettings;

use super::guest_file::GuestIdentity;
use super::scope::Scope;
use crate::backend::BackendError;
use vestal_process::ProcessId;

/// How long a guest may take to listen. It does so in milliseconds; the rest
/// is for machines that are slow and busy.
const READY_WITHIN: Duration = Duration::from_mins(1);

/// Longest line a guest may say when it is ready, or why it is not.
const MAX_READY: u64 = 4096;

/// Starts a guest and waits until it listens.
pub(super) async fn spawn(
    guest: &Path,
    scope: Option<&Scope>,
    settings: &GuestSettings,
    path_variable: &std::ffi::OsStr,
    hold: OwnedFd,
) -> Result<ProcessId, BackendError> {
    let settings_fd =
        settings_file(settings).map_err(BackendError::io("prepare the guest's settings"))?;
    let (ready, ready_end) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
        .map_err(|error| BackendError::io("make a pipe")(error.into()))?;

    let mut command = match scope {
        Some(scope) => {
            let (program, arguments) = scope.prefix(&settings.instance);
            let mut command = Command::new(program);
            command.args(arguments).arg(guest);
            command
        }
        None => Command::new(guest),
    };
    // The guest gets what it needs as its three standard descriptors and
    // nothing else of this process: no other descriptor, no variable.
    command
        .args(["serve", "--detach"])
        .args(["--settings-fd", "0", "--ready-fd", "1", "--hold-fd", "2"])
        .env_clear()
        .env("PATH", path_variable)
        .current_dir("/")
        .stdin(Stdio::from(settings_fd))
        .stdout(Stdio::from(ready_end))
        .stderr(Stdio::from(hold));
    if let Some((name, value)) = scope.and_then(Scope::environment) {
        command.env(name, value);
    }
    pass_failpoint(&mut command);

    let mut child =
        spawn_retrying(&mut command).await.map_err(BackendError::io("start the guest"))?;
    // This process's copies of the descriptors close with the command.
    drop(command);
    let line = read_ready(ready).await;
    // The child only forks the guest and ends; waiting leaves no zombie.
    child.wait().await.map_err(BackendError::io("wait for the guest's starter"))?;
    parse_ready(&line?)
}

/// Writes the settings to a file without a name.
fn settings_file(settings: &GuestSettings) -> io::Result<OwnedFd> {
    let bytes = vestal_wire::encode(settings).map_err(io::Error::other)?;
    let mut file = std::fs::File::from(memfd_create("vestal-guest-settings", MemfdFlags::CLOEXEC)?);
    file.write_all(&bytes)?;
    file.rewind()?;
    Ok(file.into())
}

/// Spawns, trying again while another thread's fork still has the freshly
/// written program open for writing (`ETXTBSY`), which passes by itself.
async fn spawn_retrying(command: &mut Command) -> io::Result<tokio::process::Child> {
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

fn parse_ready(text: &str) -> Result<ProcessId, BackendError> {
    let failed = |reason: &str| BackendError::GuestFailed { reason: reason.to_owned() };
    let line = text.lines().next().unwrap_or_default();
    if let Some(reason) = line.strip_prefix("error: ") {
        return Err(failed(reason));
    }
    if line.is_empty() {
        return Err(failed("it ended before it was ready"));
    }
    let identity: GuestIdentity =
        serde_json::from_str(line).map_err(|_| failed("it said something unexpected"))?;
    Ok(identity.process())
}

/// Hands a test's choice of failpoint on to the guest.
#[cfg(feature = "failpoints")]
#[expect(clippy::disallowed_methods, reason = "a test's own switch is no setting")]
fn pass_failpoint(command: &mut Command) {
    if let Some(name) = std::env::var_os("VESTAL_GUEST_FAILPOINT") {
        command.env("VESTAL_GUEST_FAILPOINT", name);
    }
}

#[cfg(not(feature = "failpoints"))]
fn pass_failpoint(_command: &mut Command) {}
