//! What a sync of a mounted directory did.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vestal_sandbox::{SyncConflict, SyncReport, SyncSide};

use crate::sandbox::shown;

/// What a sync did, or would do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SyncView {
    /// The task of the sandbox.
    pub task: String,
    /// Whether nothing was done.
    pub dry_run: bool,
    /// Changes of both sides.
    pub changes: u64,
    /// Files that were copied.
    pub copied_files: u64,
    /// Bytes that were copied.
    pub copied_bytes: u64,
    /// Files that were changed on both sides.
    pub conflicts: Vec<SyncConflictView>,
    /// What was deleted here, because it was deleted in the sandbox.
    #[serde(default)]
    pub deleted_here: Vec<String>,
    /// What was deleted in the sandbox, because it was deleted here.
    #[serde(default)]
    pub deleted_in_sandbox: Vec<String>,
    /// What was deleted on one side and changed on the other, and is back.
    pub restored: Vec<String>,
    /// The side that had lost everything, or was another directory, and was given what the other one
    /// has: `here` or `sandbox`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revived: Option<String>,
    /// Links of the sandbox that may lead out of the directory; they were not made here.
    pub refused_links: Vec<String>,
    /// What could not be synced.
    pub failed: Vec<SyncFailureView>,
    /// In a dry run, what would be done, in words.
    pub planned: Vec<String>,
    /// How many more there are of what is listed.
    pub unnamed: u64,
}

/// A file that was changed on both sides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SyncConflictView {
    /// This machine's version.
    pub path: String,
    /// The sandbox's version.
    pub kept_as: String,
}

/// A file that could not be synced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SyncFailureView {
    /// The file.
    pub path: String,
    /// Why.
    pub reason: String,
}

impl SyncView {
    /// Returns the view of a report.
    pub fn new(task: &str, report: &SyncReport, dry_run: bool) -> Self {
        let conflict = |SyncConflict { path, kept_as }: &SyncConflict| SyncConflictView {
            path: shown(path),
            kept_as: shown(kept_as),
        };
        Self {
            task: task.to_owned(),
            dry_run,
            changes: report.changes,
            copied_files: report.copied_files,
            copied_bytes: report.copied_bytes,
            conflicts: report.conflicts.iter().map(conflict).collect(),
            deleted_here: report.deleted_here.iter().map(|path| shown(path)).collect(),
            deleted_in_sandbox: report.deleted_there.iter().map(|path| shown(path)).collect(),
            revived: report.revived.map(|side| {
                let name = match side {
                    SyncSide::Here => "here",
                    SyncSide::Sandbox => "sandbox",
                };
                name.to_owned()
            }),
            restored: report.restored.iter().map(|path| shown(path)).collect(),
            refused_links: report.refused_links.iter().map(|path| shown(path)).collect(),
            failed: report
                .failed
                .iter()
                .map(|(path, reason)| SyncFailureView { path: shown(path), reason: reason.clone() })
                .collect(),
            planned: report.planned.clone(),
            unnamed: report.unnamed,
        }
    }
}
