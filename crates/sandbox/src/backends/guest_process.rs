//! The guest as a process of this machine: its state, killing it, and errors of its
//! socket.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use vestal_process::ProcessId;

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
    patience: Duration,
) -> Result<(), BackendError> {
    let handle = process.handle().map_err(BackendError::io("open the guest's process"))?;
    let Some(handle) = handle else {
        return Ok(());
    };
    handle.kill().map_err(BackendError::io("kill the guest"))?;
    let ended = handle.ended_within(patience).await;
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
