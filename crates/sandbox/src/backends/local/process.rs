//! The guest as a process of the user: starting it, its `guest.json`, and killing
//! what a dead guest left behind.

use std::io;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use vestal_process::{ProcessId, boot_id, start_time};
use vestal_wire::GuestSettings;

use crate::backend::BackendError;
use crate::backends::guest_process::{Detached, MARK, nameless_file};
use crate::backends::scope::SystemdScope;
use crate::store::read_regular;

/// Arguments of the guest, with its three standard descriptors.
const ARGUMENTS: [&str; 8] =
    ["serve", "--detach", "--settings-fd", "0", "--ready-fd", "1", "--hold-fd", "2"];

/// Starts a guest and waits until it listens.
pub(super) async fn spawn_guest(
    guest: &Path,
    scope: Option<&SystemdScope>,
    settings: &GuestSettings,
    path_variable: &std::ffi::OsStr,
    hold: OwnedFd,
) -> Result<ProcessId, BackendError> {
    let input = vestal_wire::encode(settings)
        .map_err(std::io::Error::other)
        .and_then(|bytes| nameless_file("vestal-guest-settings", &bytes))
        .map_err(BackendError::io("prepare the guest's settings"))?;
    let detached = Detached {
        program: guest,
        arguments: &ARGUMENTS,
        place: scope.map(|scope| scope.place(&settings.instance)),
        path_variable,
        mark: Some(&settings.instance),
        input,
        hold,
        started: || (),
    };
    parse_ready(&detached.start().await?)
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
    let identity: GuestReport =
        serde_json::from_str(line).map_err(|_| failed("it printed an unexpected report"))?;
    Ok(identity.process())
}

/// The identity that a guest prints when it is ready and writes to `guest.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct GuestReport {
    pid: u32,
    pid_start: u64,
    boot: String,
}

impl GuestReport {
    fn process(self) -> ProcessId {
        ProcessId { pid: self.pid, start: self.pid_start, boot: self.boot }
    }
}

/// Returns the directory of the instance's socket.
pub(super) fn socket_dir(instance_dir: &Path) -> PathBuf {
    instance_dir.join("io")
}

/// Returns the process that wrote `guest.json` beside its socket, dead or alive. The
/// guest writes it before it listens, so that the process of a half-made instance
/// can be found and killed.
pub(super) fn read_guest_file(instance_dir: &Path) -> std::io::Result<Option<ProcessId>> {
    match read_regular(&socket_dir(instance_dir).join("guest.json")) {
        Ok(bytes) => {
            // The file is written by rename, so it is never incomplete. One that
            // cannot be parsed is treated as absent.
            let identity = serde_json::from_slice::<GuestReport>(&bytes).ok();
            Ok(identity.map(GuestReport::process))
        }
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Kills all processes with the instance in their environment. Returns those that
/// are left after `timeout`.
///
/// The supervisors of jobs end them when the guest is killed. If the supervisors
/// were killed too, only a variable in the environment identifies the processes. A
/// guest that is still starting has a variable of its own. Processes that cleared
/// their environment or changed their user cannot be found; the guest's orderly stop
/// does not depend on that.
pub(super) async fn kill_remaining(instance: &str, timeout: Duration) -> io::Result<Vec<u32>> {
    let deadline = tokio::time::Instant::now() + timeout;
    let mut none_before = false;
    loop {
        let marked = marked(instance)?;
        // A process has no environment for a moment during exec, so none may be
        // found twice in a row.
        let none = marked.is_empty();
        if (none && none_before) || tokio::time::Instant::now() >= deadline {
            return Ok(marked.into_iter().map(|process| process.pid).collect());
        }
        none_before = none;
        for process in &marked {
            if let Some(handle) = process.handle()? {
                handle.kill()?;
                // The next round checks that it has exited; this avoids busy
                // waiting.
                handle.ended_within(Duration::from_millis(100)).await?;
            }
        }
    }
}

/// Returns the living processes with the instance in their environment.
fn marked(instance: &str) -> io::Result<Vec<ProcessId>> {
    let marks = [format!("VESTAL_INSTANCE={instance}"), format!("{MARK}={instance}")];
    let boot = boot_id()?;
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc")?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        // The start time is read first: if the pid is reused in between, the
        // identity does not match and nothing is killed.
        let Some(start) = start_time(pid) else {
            continue;
        };
        // Processes of other users cannot be read and are not the instance's.
        let Ok(environ) = std::fs::read(entry.path().join("environ")) else {
            continue;
        };
        let is_mark = |variable: &[u8]| marks.iter().any(|mark| mark.as_bytes() == variable);
        if environ.split(|byte| *byte == 0).any(is_mark) {
            found.push(ProcessId { pid, start, boot: boot.clone() });
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn processes_of_the_instance_are_killed_and_others_left_alone() {
        let spawn = |mark: &str| {
            tokio::process::Command::new("sleep")
                .arg("1000")
                .env("VESTAL_INSTANCE", mark)
                .kill_on_drop(true)
                .spawn()
                .unwrap()
        };
        let unique = crate::key::random_hex::<6>().unwrap();
        let mut ours = spawn(&unique);
        let mut other = spawn(&format!("{unique}x"));
        let left = kill_remaining(&unique, Duration::from_secs(30)).await.unwrap();
        assert_eq!(left, Vec::<u32>::new());
        assert!(!ours.wait().await.unwrap().success());
        assert!(other.try_wait().unwrap().is_none(), "the other one lives");
    }
}
