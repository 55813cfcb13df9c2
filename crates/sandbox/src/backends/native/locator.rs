//! What the backend remembers of an instance.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use vestal_process::ProcessId;

use super::tier::Tier;
use crate::backend::{Description, Locator};

/// How an instance is found again, and what it was made as.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct NativeLocator {
    /// Its first process, as the host counts.
    pub(super) process: ProcessId,
    /// What it was made as.
    #[serde(flatten)]
    pub(super) made: NativeSystem,
}

/// What an instance was made, or last started, as.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct NativeSystem {
    /// Who the sandbox's root is on the host.
    pub(super) uid: u32,
    /// What its system directories are.
    pub(super) tier: Tier,
    /// Which picture of `/etc` it shows, where it shows one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) picture: Option<String>,
    /// Which root it was made of, where it was made of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) rootfs: Option<String>,
    /// Directories of its control groups.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) cgroups: Vec<PathBuf>,
    /// Limits that were left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) unenforced: Vec<String>,
    /// What weakens its isolation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) weakened: Vec<String>,
    /// What is missing for a better tier.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) missing: Vec<String>,
}

impl NativeLocator {
    /// Reads a locator; nothing when it is not known or not one of ours.
    pub(super) fn of(locator: &Locator) -> Option<Self> {
        serde_json::from_value(locator.clone()).ok()
    }

    pub(super) fn to_locator(&self) -> Locator {
        // A struct of texts and numbers always has a JSON form.
        serde_json::to_value(self).unwrap_or_default()
    }

    pub(super) fn describe(self) -> Description {
        Description {
            transport: Some("socket".to_owned()),
            unenforced: self.made.unenforced,
            weakened: self.made.weakened,
            tier: Some(self.made.tier.as_str().to_owned()),
            missing: self.made.missing,
            ..Description::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_said_when_it_was_written_is_not_missed() {
        let written = serde_json::json!({
            "process": { "pid": 7, "start": 8, "boot": "b" }, "uid": 1000, "tier": "read-only",
        });
        let locator = NativeLocator::of(&written).unwrap();
        assert_eq!(locator.to_locator(), written);
        let description = locator.describe();
        assert_eq!(description.tier.as_deref(), Some("read-only"));
        assert_eq!(description.unenforced, Vec::<String>::new());
        assert_eq!(NativeLocator::of(&Locator::Null), None);
    }
}
