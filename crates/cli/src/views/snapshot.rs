//! Copies of sandboxes as JSON.

use std::path::Path;

use serde::Serialize;
use vestal_sandbox::{Forked, Rebuilt, Restored, Snapshot, SnapshotName, Task};

/// One snapshot, as `snapshots --json` prints it.
#[derive(Debug, Serialize)]
pub(crate) struct SnapshotView {
    task: String,
    name: String,
    created_at: String,
    backend: String,
    /// Whether it holds what was installed, besides workspace and home.
    system: bool,
    files: u64,
    bytes: u64,
    note: Option<String>,
    path: String,
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

/// What `restore --json` prints.
#[derive(Debug, Serialize)]
pub(crate) struct RestoredView {
    task: String,
    snapshot: SnapshotView,
}

impl RestoredView {
    pub(crate) fn new(task: &Task, restored: &Restored) -> Self {
        Self { task: task.to_string(), snapshot: (&restored.snapshot).into() }
    }
}

/// What `fork --json` prints.
#[derive(Debug, Serialize)]
pub(crate) struct ForkedView {
    task: String,
    from: String,
    /// The snapshot it was made of; null: the sandbox as it was.
    snapshot: Option<String>,
    backend: String,
    files: u64,
    bytes: u64,
}

impl ForkedView {
    pub(crate) fn new(from: &Task, snapshot: Option<&SnapshotName>, forked: &Forked) -> Self {
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

/// What `rebuild --json` prints.
#[derive(Debug, Serialize)]
pub(crate) struct RebuiltView {
    task: String,
    was: String,
    now: String,
    kept: Vec<String>,
    remarks: Vec<String>,
}

impl RebuiltView {
    pub(crate) fn new(task: &Task, rebuilt: &Rebuilt) -> Self {
        Self {
            task: task.to_string(),
            was: rebuilt.was.clone(),
            now: rebuilt.now.clone(),
            kept: rebuilt.kept.iter().map(|path| shown(path)).collect(),
            remarks: rebuilt.remarks.clone(),
        }
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}
