//! What is recorded of an instance, and what a machine tells of one.

use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use vestal_wire::machine::{InstancePlaces, MachineInstance, MachineState};

use super::isolation::IsolationRecord;
use super::login::HostLogin;
use crate::backend::{BackendError, FoundInstance, InstanceState, Locator};
use crate::backends::docker::one_line;
use crate::backends::native::elsewhere::{self, WORKSPACE};

/// Longest path over there that is taken.
const MAX_PATH: usize = 4096;

/// Longest id of an instance that is taken.
const MAX_ID: usize = 64;

/// What is recorded of an instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SshLocator {
    pub(super) login: HostLogin,
    /// The machine's name for itself.
    pub(super) machine: String,
    /// The user over there.
    pub(super) user: String,
    pub(super) workspace: PathBuf,
    pub(super) home: PathBuf,
    /// What keeps it apart from that machine. Absent: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) isolation: Option<IsolationRecord>,
}

impl SshLocator {
    /// Reads a locator; none if it is none of this backend.
    pub(super) fn of(locator: &Locator) -> Option<Self> {
        serde_json::from_value(locator.clone()).ok()
    }

    /// Takes over what a machine says of an instance's places. It is shown to people, so it is
    /// text as paths are.
    pub(super) fn new(
        login: &HostLogin,
        places: InstancePlaces,
        isolation: Option<IsolationRecord>,
    ) -> Result<Self, BackendError> {
        let path = |bytes: Vec<u8>| {
            let path = PathBuf::from(std::ffi::OsString::from_vec(bytes));
            let is_plain = path.as_os_str().as_bytes().iter().all(|byte| !byte.is_ascii_control());
            if path.is_absolute() && path.as_os_str().len() <= MAX_PATH && is_plain {
                Ok(path)
            } else {
                Err(BackendError::Advised {
                    problem: format!(
                        "{login} names a file that is not a directory: {}",
                        one_line(&path.to_string_lossy())
                    ),
                    advice: "see that HOME is set to an ordinary directory over there".to_owned(),
                })
            }
        };
        let (workspace, home) = match &isolation {
            Some(_) => (PathBuf::from(WORKSPACE), PathBuf::from(elsewhere::HOME)),
            None => (path(places.workspace.into())?, path(places.home.into())?),
        };
        Ok(Self {
            login: login.clone(),
            machine: one_line(&places.machine.host),
            user: one_line(&places.user),
            workspace,
            home,
            isolation,
        })
    }

    pub(super) fn into_locator(self) -> Result<Locator, BackendError> {
        serde_json::to_value(self)
            .map_err(|error| BackendError::GuestFailed { reason: error.to_string() })
    }

    /// Takes over an instance that a machine tells of; nothing if it cannot be one of ours.
    pub(super) fn found(login: &HostLogin, reported: MachineInstance) -> Option<FoundInstance> {
        let MachineInstance { label, state, places, age_ms } = reported;
        // It becomes the name of a directory here.
        let is_id = !label.instance.is_empty()
            && label.instance.len() <= MAX_ID
            && label.instance.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let owner = match &label.owner {
            // An owner that cannot be read is somebody.
            Some(text) => Some(serde_json::from_str(text).ok()?),
            None => None,
        };
        let isolation = label.is_enclosed.unwrap_or(false).then(IsolationRecord::default);
        let locator = SshLocator::new(login, places, isolation).ok()?;
        let locator = locator.into_locator().ok()?;
        is_id.then(|| FoundInstance {
            id: label.instance,
            key: one_line(&label.key),
            task: one_line(&label.task),
            generation: label.generation,
            persistent: owner.is_none(),
            owner,
            spec: one_line(&label.spec),
            state: instance_state(&state),
            created_at: age_ms.and_then(before_now),
            locator,
        })
    }
}

/// Returns the time so many milliseconds ago, by this machine's clock: the other one's may be
/// wrong.
fn before_now(millis: u64) -> Option<Timestamp> {
    Timestamp::now().checked_sub(Duration::from_millis(millis)).ok()
}

pub(super) fn instance_state(state: &MachineState) -> InstanceState {
    match state {
        MachineState::Running => InstanceState::Running,
        MachineState::Stopped { for_ms } => {
            InstanceState::Stopped { since: for_ms.and_then(before_now) }
        }
        MachineState::Absent => InstanceState::Absent,
    }
}

#[cfg(test)]
#[path = "locator_tests.rs"]
mod tests;
