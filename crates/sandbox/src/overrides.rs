//! What is asked for one sandbox alone.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Settings of one task's sandbox. They are recorded with it: later callers
/// that ask for nothing get the same.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overrides {
    /// The image, in place of `terminal.docker_image`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Where commands start, in place of `terminal.cwd`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<PathBuf>,
    /// The backend, in place of `terminal.backend`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    /// A directory of the host that is the sandbox's workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mount: Option<PathBuf>,
    /// Directories of the host that are in the sandbox at the same path.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub binds: Vec<PathBuf>,
}

impl Overrides {
    /// Returns whether nothing is asked for.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns these with what they leave open taken from `recorded`.
    #[must_use]
    pub(crate) fn or(self, recorded: &Self) -> Self {
        Self {
            image: self.image.or_else(|| recorded.image.clone()),
            cwd: self.cwd.or_else(|| recorded.cwd.clone()),
            backend: self.backend.or_else(|| recorded.backend.clone()),
            mount: self.mount.or_else(|| recorded.mount.clone()),
            binds: if self.binds.is_empty() { recorded.binds.clone() } else { self.binds },
        }
    }
}
