//! Copies of sandboxes: what `snapshot`, `snapshots`, `restore`, `fork` and `rebuild` show.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vestal_sandbox::{Forked, Rebuilt, Restored, Snapshot, SnapshotName, TaskName};

use crate::sandbox::shown;

/// One snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SnapshotView {
    /// The task whose sandbox it is of.
    pub task: String,
    /// Its name among the sandbox's snapshots.
    pub name: String,
    /// When it was made.
    pub created_at: String,
    /// The backend of the sandbox.
    pub backend: String,
    /// Whether it holds what was installed, besides workspace and home.
    pub system: bool,
    /// How many files it has, without what a container engine keeps as an image.
    pub files: u64,
    /// How much they are.
    pub bytes: u64,
    /// A line to remember it by.
    pub note: Option<String>,
    /// Its directory on the host.
    pub path: String,
}

impl From<&Snapshot> for SnapshotView {
    fn from(snapshot: &Snapshot) -> Self {
        Self {
            task: snapshot.task.to_string(),
            name: snapshot.name.to_string(),
            created_at: snapshot.created_at.to_string(),
            backend: snapshot.backend.clone(),
            system: snapshot.system,
            files: snapshot.files,
            bytes: snapshot.bytes,
            note: snapshot.note.clone(),
            path: shown(&snapshot.path),
        }
    }
}

/// A sandbox that is what it was when a snapshot was kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RestoredView {
    /// The task.
    pub task: String,
    /// The snapshot.
    pub snapshot: SnapshotView,
}

impl RestoredView {
    /// Returns the view of a task's sandbox that was restored.
    pub fn new(task: &TaskName, restored: &Restored) -> Self {
        Self { task: task.to_string(), snapshot: (&restored.snapshot).into() }
    }
}

/// A sandbox that is a copy of another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ForkedView {
    /// The task of the new sandbox.
    pub task: String,
    /// The task of the one that was copied.
    pub from: String,
    /// The snapshot it was made of; null: the sandbox as it was.
    pub snapshot: Option<String>,
    /// The backend of both.
    pub backend: String,
    /// How many files were copied.
    pub files: u64,
    /// How much they are.
    pub bytes: u64,
}

impl ForkedView {
    /// Returns the view of a copy of a task's sandbox, or of a snapshot of it.
    pub fn new(from: &TaskName, snapshot: Option<&SnapshotName>, forked: &Forked) -> Self {
        Self {
            task: forked.task.to_string(),
            from: from.to_string(),
            snapshot: snapshot.map(ToString::to_string),
            backend: forked.backend.clone(),
            files: forked.files,
            bytes: forked.bytes,
        }
    }
}

/// A sandbox that was recreated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RebuiltView {
    /// The task.
    pub task: String,
    /// The backend it was on.
    pub was: String,
    /// The backend it is on.
    pub now: String,
    /// Directories of its files that were kept.
    pub kept: Vec<String>,
    /// Notes about it, as sentences.
    pub remarks: Vec<String>,
}

impl RebuiltView {
    /// Returns the view of a sandbox that was recreated.
    pub fn new(task: &TaskName, rebuilt: &Rebuilt) -> Self {
        Self {
            task: task.to_string(),
            was: rebuilt.was.clone(),
            now: rebuilt.now.clone(),
            kept: rebuilt.kept.iter().map(|path| shown(path)).collect(),
            remarks: rebuilt.remarks.clone(),
        }
    }
}
