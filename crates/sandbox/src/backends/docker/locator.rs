//! What the backend remembers of a container.

use serde::{Deserialize, Serialize};

use crate::backend::{Description, Instance, Locator};

/// How a container is found again and reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct DockerLocator {
    /// Id of the engine that has it.
    #[serde(default)]
    pub(super) engine: String,
    /// Where that engine was.
    #[serde(default)]
    pub(super) address: String,
    /// Its id.
    pub(super) container: String,
    /// Its name.
    pub(super) name: String,
    /// Name of its image.
    pub(super) image: String,
    /// Id of its image when it was made.
    pub(super) image_id: String,
    /// How its guest is reached.
    pub(super) transport: Transport,
    /// Limits that were left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) unenforced: Vec<String>,
    /// What weakens its isolation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) weakened: Vec<String>,
    /// Whether it was made of a copy of another container's system.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_copy: bool,
}

/// How a guest is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "kebab-case")]
pub(super) enum Transport {
    /// By its socket in a directory that host and container share.
    Socket {
        /// The process that listens; absent where it cannot be seen from here.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pid: Option<u32>,
    },
    /// By a stream of the engine to a program in the container.
    Exec,
}

impl DockerLocator {
    /// Reads a locator; nothing when it is not known or not one of ours.
    pub(super) fn of(locator: &Locator) -> Option<Self> {
        serde_json::from_value(locator.clone()).ok()
    }

    /// Returns the number of the process that listens, where it can be seen.
    pub(super) fn pid(&self) -> Option<u32> {
        match self.transport {
            Transport::Socket { pid } => pid,
            Transport::Exec => None,
        }
    }

    pub(super) fn of_instance(instance: &Instance) -> Option<Self> {
        Self::of(&instance.locator)
    }

    pub(super) fn to_locator(&self) -> Locator {
        // A struct of texts and numbers always has a JSON form.
        serde_json::to_value(self).unwrap_or_default()
    }

    pub(super) fn describe(self) -> Description {
        Description {
            image: Some(self.image),
            image_id: Some(self.image_id),
            name: Some(self.name),
            transport: Some(
                match self.transport {
                    Transport::Socket { .. } => "socket",
                    Transport::Exec => "exec",
                }
                .to_owned(),
            ),
            unenforced: self.unenforced,
            weakened: self.weakened,
            is_copy: self.is_copy,
            ..Description::default()
        }
    }
}
