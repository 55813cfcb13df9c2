//! What is known of a sandbox between processes.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::Overrides;

/// Version of the record.
pub(super) const VERSION: u64 = 1;

/// The record of a sandbox: `sandbox.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// Version of this file.
    pub(crate) version: u64,
    /// Hash of the key, to notice a directory that was copied from elsewhere.
    pub(crate) key: String,
    /// The profile's name when the sandbox was made.
    pub(crate) profile: String,
    /// The exact task.
    pub(crate) task: String,
    /// The backend; `auto` is resolved once and written here.
    pub(crate) backend: String,
    /// When the sandbox was made.
    pub(crate) created_at: Timestamp,
    /// Generation of the newest instance ever made.
    pub(crate) generation: u64,
    /// What was asked for this sandbox alone.
    #[serde(default, skip_serializing_if = "Overrides::is_empty")]
    pub(crate) overrides: Overrides,
    /// The instance it lives in now.
    pub(crate) instance: Option<InstanceRecord>,
}

/// The record of an instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct InstanceRecord {
    /// Its id, random and never used again.
    pub(crate) id: String,
    /// When it was made.
    pub(crate) created_at: Timestamp,
    /// The settings it was made with.
    pub(crate) spec: BTreeMap<String, String>,
    /// Idle seconds after which its guest ends; absent: never.
    pub(crate) retention_seconds: Option<u64>,
    /// What the backend needs to find it again.
    pub(crate) locator: serde_json::Value,
}

impl Record {
    /// Returns the record of a sandbox that has no instance yet.
    pub(crate) fn new(
        key: &crate::Key,
        backend: &str,
        overrides: Overrides,
        now: Timestamp,
    ) -> Self {
        Self {
            version: VERSION,
            key: key.hash(),
            profile: key.profile().to_owned(),
            task: key.task().as_str().to_owned(),
            backend: backend.to_owned(),
            created_at: now,
            generation: 0,
            overrides,
            instance: None,
        }
    }
}
