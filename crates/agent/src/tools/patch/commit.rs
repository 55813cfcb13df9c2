//! Writes what was planned: all of it, or nothing as far as the files allow.

use std::path::Path;

use vestal_sandbox::client::CallError;
use vestal_sandbox::files::{Depth, FileError, Files, Links, Overwrite, Parents, WriteOptions};
use vestal_sandbox::{CreateMode, Fault, FaultCode, FileVersion};

use super::plan::{FileDraft, Overlay};
use crate::tools::files::message_of;

/// What is done to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CommitStep {
    Create { to: usize },
    Write { to: usize },
    Rename { from: usize, to: usize },
    Delete { from: usize },
}

/// Something that was done and can be undone.
#[derive(Debug)]
struct AppliedChange {
    step: CommitStep,
    /// The version it made.
    version: Option<FileVersion>,
}

/// A failure, and what became of the steps before it.
#[derive(Debug)]
pub(super) struct CommitFailure {
    /// Why.
    pub(super) error: FileError,
    /// At which file.
    pub(super) path: String,
    /// Files that are as they were before again.
    pub(super) undone: Vec<String>,
    /// Files that could not be brought back, and why.
    pub(super) left: Vec<String>,
}

/// Returns the steps to what was planned. What adds comes before what takes
/// away, so that nothing is ever nowhere.
pub(super) fn steps(overlay: &Overlay) -> Vec<CommitStep> {
    let drafts = &overlay.drafts;
    let is_renamed = |to: usize| {
        drafts[to].moved_from.filter(|from| {
            let before = drafts[*from].before.as_ref().map(|before| &before.bytes);
            before == drafts[to].now.as_ref()
                && drafts[to].before.is_none()
                && drafts[*from].now.is_none()
        })
    };
    let renamed: Vec<usize> = (0..drafts.len()).filter_map(is_renamed).collect();
    let (mut adding, mut renaming, mut taking) = (Vec::new(), Vec::new(), Vec::new());
    for (index, draft) in drafts.iter().enumerate().filter(|(_, draft)| draft.is_changed()) {
        match (&draft.before, &draft.now) {
            (None, Some(_)) => match is_renamed(index) {
                Some(from) => renaming.push(CommitStep::Rename { from, to: index }),
                None => adding.push(CommitStep::Create { to: index }),
            },
            (Some(_), Some(_)) => adding.push(CommitStep::Write { to: index }),
            (Some(_), None) if !renamed.contains(&index) => {
                taking.push(CommitStep::Delete { from: index });
            }
            _ => {}
        }
    }
    [adding, renaming, taking].concat()
}

/// Carries the steps out. Returns the versions of the files that were written.
pub(super) async fn carry_out(
    files: &Files,
    overlay: &Overlay,
    steps: &[CommitStep],
) -> Result<Vec<(usize, FileVersion)>, CommitFailure> {
    let mut done: Vec<AppliedChange> = Vec::new();
    for step in steps {
        match perform(files, overlay, *step).await {
            Ok(version) => done.push(AppliedChange { step: *step, version }),
            Err(error) => {
                let (undone, left) = undo(files, overlay, done).await;
                let path = name(overlay, *step);
                return Err(CommitFailure { error, path, undone, left });
            }
        }
    }
    let version = |done: &AppliedChange| match done.step {
        CommitStep::Create { to } | CommitStep::Write { to } => {
            done.version.map(|version| (to, version))
        }
        CommitStep::Rename { .. } | CommitStep::Delete { .. } => None,
    };
    Ok(done.iter().filter_map(version).collect())
}

fn name(overlay: &Overlay, step: CommitStep) -> String {
    let (CommitStep::Create { to: index }
    | CommitStep::Write { to: index }
    | CommitStep::Rename { to: index, .. }
    | CommitStep::Delete { from: index }) = step;
    overlay.drafts[index].target.shown()
}

async fn perform(
    files: &Files,
    overlay: &Overlay,
    step: CommitStep,
) -> Result<Option<FileVersion>, FileError> {
    let draft = |index: usize| &overlay.drafts[index];
    match step {
        CommitStep::Create { to } => {
            // A file that gets another name and other lines keeps its permissions.
            let source = draft(to).moved_from.and_then(|from| draft(from).before.as_ref());
            let options = WriteOptions {
                create: CreateMode::New,
                parents: Parents::Make,
                mode: source.map(|source| source.metadata.mode),
                expect: None,
            };
            write(files, draft(to), options).await.map(Some)
        }
        CommitStep::Write { to } => {
            let options = WriteOptions {
                create: CreateMode::Existing,
                expect: draft(to).before.as_ref().map(|before| before.metadata.version),
                ..WriteOptions::default()
            };
            write(files, draft(to), options).await.map(Some)
        }
        CommitStep::Rename { from, to } => {
            require_unchanged(files, draft(from)).await?;
            if let Some(parent) = draft(to).target.absolute.parent() {
                files.mkdir(parent, Parents::Make, None).await?;
            }
            files.rename(&draft(from).path, &draft(to).path, Overwrite::Never).await?;
            Ok(None)
        }
        CommitStep::Delete { from } => {
            require_unchanged(files, draft(from)).await?;
            files.delete(&draft(from).path, Depth::One).await?;
            Ok(None)
        }
    }
}

async fn write(
    files: &Files,
    draft: &FileDraft,
    options: WriteOptions,
) -> Result<FileVersion, FileError> {
    let bytes = draft.now.as_deref().unwrap_or_default();
    Ok(files.write(&draft.path, bytes, options).await?.metadata.version)
}

/// Fails where a file is not the one that was read any more.
async fn require_unchanged(files: &Files, draft: &FileDraft) -> Result<(), FileError> {
    let now = files.stat(&draft.path, Links::Follow).await?;
    match &draft.before {
        Some(before) if before.metadata.version == now.version => Ok(()),
        _ => {
            let message = format!("{} has changed since it was read", draft.target.shown());
            Err(CallError::Fault(Fault::new(FaultCode::Conflict, message)).into())
        }
    }
}

/// Undoes steps, the last one first. What something else changed meanwhile
/// is theirs and stays.
async fn undo(
    files: &Files,
    overlay: &Overlay,
    done: Vec<AppliedChange>,
) -> (Vec<String>, Vec<String>) {
    let (mut undone, mut left) = (Vec::new(), Vec::new());
    for done in done.into_iter().rev() {
        let path = name(overlay, done.step);
        match undo_one(files, overlay, &done).await {
            Ok(()) => undone.push(path),
            Err(error) => left.push(format!("{path}: {}", message_of(&error))),
        }
    }
    (undone, left)
}

async fn undo_one(files: &Files, overlay: &Overlay, done: &AppliedChange) -> Result<(), FileError> {
    let draft = |index: usize| &overlay.drafts[index];
    let restore = async |index: usize, options: WriteOptions| {
        let before = draft(index).before.as_ref().map_or(&[][..], |before| &before.bytes);
        files.write(&draft(index).path, before, options).await.map(drop)
    };
    match done.step {
        CommitStep::Create { to } => {
            let now = files.stat(&draft(to).path, Links::Keep).await?;
            if Some(now.version) == done.version {
                files.delete(Path::new(&draft(to).path), Depth::One).await?;
            }
            Ok(())
        }
        CommitStep::Write { to } => {
            let options = WriteOptions {
                create: CreateMode::Existing,
                expect: done.version,
                ..WriteOptions::default()
            };
            restore(to, options).await
        }
        CommitStep::Rename { from, to } => {
            files.rename(&draft(to).path, &draft(from).path, Overwrite::Never).await
        }
        CommitStep::Delete { from } => {
            let mode = draft(from).before.as_ref().map(|before| before.metadata.mode);
            let options = WriteOptions { create: CreateMode::New, mode, ..WriteOptions::default() };
            restore(from, options).await
        }
    }
}
