//! Starting a guest as a process of the user.

use std::os::fd::OwnedFd;
use std::path::Path;

use vestal_process::ProcessId;
use vestal_wire::GuestSettings;

use super::guest_file::GuestIdentity;
use crate::backend::BackendError;
use crate::backends::scope::Scope;
use crate::backends::spawn::{Detached, nameless_file};

/// How the guest is told of its three standard descriptors.
const ARGUMENTS: [&str; 8] =
    ["serve", "--detach", "--settings-fd", "0", "--ready-fd", "1", "--hold-fd", "2"];

/// Starts a guest and waits until it listens.
pub(super) async fn spawn(
    guest: &Path,
    scope: Option<&Scope>,
    settings: &GuestSettings,
    path_variable: &std::ffi::OsStr,
    hold: OwnedFd,
) -> Result<ProcessId, BackendError> {
    let told = vestal_wire::encode(settings)
        .map_err(std::io::Error::other)
        .and_then(|bytes| nameless_file("vestal-guest-settings", &bytes))
        .map_err(BackendError::io("prepare the guest's settings"))?;
    let detached = Detached {
        program: guest,
        arguments: &ARGUMENTS,
        place: scope.map(|scope| scope.place(&settings.instance)),
        path_variable,
        mark: Some(&settings.instance),
        input: told,
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
    let identity: GuestIdentity =
        serde_json::from_str(line).map_err(|_| failed("it said something unexpected"))?;
    Ok(identity.process())
}
