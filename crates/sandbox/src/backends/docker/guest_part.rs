//! What the guest of a container is told.

use std::collections::HashMap;

use bollard::models::{ContainerCreateBody, ContainerInspectResponse};
use minicbor::bytes::ByteVec;
use serde::{Deserialize, Serialize};
use vestal_wire::GuestSettings;

use super::facts::Reach;
use super::plan::{IO_DIR, JobUser, Plan, STATE_DIR, WORKSPACE};
use crate::backend::{BackendError, InstanceRequest};

/// The label that says how a container's guest is started.
const LABEL: &str = "vestal-guest";

/// Permissions of a socket that host and container share: who connects is
/// another user than who listens, and the directory above is private.
const SOCKET_MODE: u32 = 0o666;

/// What depends on how a container was made and not on the settings of today.
/// It is on the container, so that it is started again as it was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct GuestPart {
    /// Whom jobs run as; absent: as the guest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    /// The home of jobs.
    home: String,
    /// Directories that are given to the user of jobs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    hand_over: Vec<String>,
    /// Where jobs start that say nothing.
    start_dir: String,
    /// Whether the socket is for users of the host.
    shared: bool,
}

impl GuestPart {
    pub(super) fn new(plan: &Plan, user: &JobUser, reach: Reach) -> Self {
        let mut hand_over = Vec::new();
        // A directory that the user has put there keeps its owner.
        if plan.own_workspace {
            hand_over.push(WORKSPACE.to_owned());
        }
        if plan.own_home {
            hand_over.push(user.home.clone());
        }
        Self {
            user: plan.guest_user.clone(),
            home: user.home.clone(),
            hand_over,
            start_dir: plan.body.working_dir.clone().unwrap_or_else(|| WORKSPACE.to_owned()),
            shared: reach == Reach::Shared,
        }
    }

    /// Reads it off a container.
    pub(super) fn of(inspected: &ContainerInspectResponse) -> Option<Self> {
        let labels: &HashMap<String, String> = inspected.config.as_ref()?.labels.as_ref()?;
        serde_json::from_str(labels.get(LABEL)?).ok()
    }

    /// Puts it on a container to be made.
    pub(super) fn mark(&self, body: &mut ContainerCreateBody) {
        // A struct of texts always has a JSON form.
        let text = serde_json::to_string(self).unwrap_or_default();
        body.labels.get_or_insert_default().insert(LABEL.to_owned(), text);
    }

    /// Returns the settings of the guest in their binary form.
    pub(super) fn settings(&self, request: &InstanceRequest) -> Result<Vec<u8>, BackendError> {
        let bytes = |text: &str| ByteVec::from(text.as_bytes().to_vec());
        let settings = GuestSettings {
            state_dir: bytes(STATE_DIR),
            socket_dir: bytes(IO_DIR),
            env: Vec::new(),
            home: bytes(&self.home),
            start_dir: bytes(&self.start_dir),
            // Whatever ran before has ended with the container.
            previous_instances: Vec::new(),
            ephemeral: false,
            user: self.user.clone(),
            socket_mode: self.shared.then_some(SOCKET_MODE),
            inherit_env: true,
            hand_over: self.hand_over.iter().map(|dir| bytes(dir)).collect(),
            ..request.guest.clone()
        };
        vestal_wire::encode(&settings)
            .map_err(|error| BackendError::GuestFailed { reason: error.to_string() })
    }
}
