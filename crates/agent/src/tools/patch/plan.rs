//! Applies a patch of several files.

use std::path::PathBuf;

use serde_json::{Map, Value, json};
use vestal_sandbox::FaultCode;
use vestal_sandbox::files::{FileContent, Files};

use super::commit::{CommitFailure, CommitStep, carry_out, steps};
use super::hunks::{self, FileAction, FilePatch};
use super::replace::{MAX_SIZE, read};
use crate::tool::{ToolContext, ToolOutput};
use crate::tools::files::{
    FileText, ResolvedPath, check_write, has_code, message_of, resolve, unified_diff,
};
use crate::tools::lint::lint;

/// Most bytes of all diffs together.
const MAX_DIFF: usize = 60_000;

/// Works out what a patch does, asks whether it may, and does it.
pub(super) async fn patch(
    context: &ToolContext,
    files: &Files,
    patches: &[FilePatch],
) -> Result<ToolOutput, ToolOutput> {
    let mut approvals = Vec::new();
    // Something else may write in between: the patch is tried once on the new version.
    for attempt in 0.. {
        let overlay = Overlay::of(files, patches).await?;
        let steps = steps(&overlay);
        if steps.is_empty() {
            return Err(ToolOutput::error("the patch changes nothing"));
        }
        if attempt == 0 {
            for draft in overlay.drafts.iter().filter(|draft| draft.is_changed()) {
                approvals.extend(check_write(context, &draft.target).await?);
            }
        }
        match carry_out(files, &overlay, &steps).await {
            Ok(versions) => {
                for (index, version) in versions {
                    context
                        .observed_files
                        .record_file(&overlay.drafts[index].target.absolute, version);
                }
                let changes: Vec<(String, String)> = changes(&overlay).collect();
                for (path, diff) in &changes {
                    context.emit_file_change(path, diff);
                }
                let mut result = result(&overlay, &steps, &approvals);
                result["diff"] = context.redactor.redact_file(&diffs(&changes)).into();
                return Ok(ToolOutput::json(&result));
            }
            Err(failed)
                if attempt == 0
                    && failed.left.is_empty()
                    && has_code(&failed.error, FaultCode::Conflict) => {}
            Err(failed) => return Err(failure(failed)),
        }
    }
    Err(ToolOutput::error("the patch could not be applied"))
}

fn failure(failed: CommitFailure) -> ToolOutput {
    let CommitFailure { error, path, undone, left } = failed;
    let reason = message_of(&error);
    let mut content = if left.is_empty() {
        json!({ "error": format!("{path}: {reason}; all files are unchanged") })
    } else {
        json!({
            "error": format!("{path}: {reason}; and some files could not be brought back"),
            "not_rolled_back": left,
        })
    };
    if !undone.is_empty() {
        content["rolled_back"] = undone.into();
    }
    ToolOutput { is_error: true, ..ToolOutput::json(&content) }
}

fn result(overlay: &Overlay, steps: &[CommitStep], approvals: &[String]) -> Value {
    let shown = |index: usize| overlay.drafts[index].target.shown();
    let (mut modified, mut created, mut deleted, mut moved) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for step in steps {
        match *step {
            CommitStep::Create { to } => match overlay.drafts[to].moved_from {
                Some(from) => moved.push(json!({ "from": shown(from), "to": shown(to) })),
                None => created.push(shown(to)),
            },
            CommitStep::Write { to } => modified.push(shown(to)),
            CommitStep::Rename { from, to } => {
                moved.push(json!({ "from": shown(from), "to": shown(to) }));
            }
            CommitStep::Delete { from } => {
                let is_moved = overlay.drafts.iter().any(|it| it.moved_from == Some(from));
                if !is_moved {
                    deleted.push(shown(from));
                }
            }
        }
    }
    let mut result = json!({ "success": true });
    let lists = [
        ("files_modified", json!(modified)),
        ("files_created", json!(created)),
        ("files_deleted", json!(deleted)),
        ("files_moved", json!(moved)),
    ];
    for (name, list) in lists {
        if list.as_array().is_some_and(|list| !list.is_empty()) {
            result[name] = list;
        }
    }
    let lints: Map<String, Value> = overlay.drafts.iter().filter_map(linted).collect();
    if !lints.is_empty() {
        result["lint"] = lints.into();
    }
    if !approvals.is_empty() {
        result["approval"] = approvals.join("; ").into();
    }
    result
}

fn linted(draft: &FileDraft) -> Option<(String, Value)> {
    let now = draft.now.as_ref().filter(|_| draft.is_changed())?;
    let before = draft.before.as_ref().map(|before| &before.bytes[..]);
    Some((draft.target.shown(), lint(&draft.target.shown(), before, now)?))
}

/// Returns what changed in all files.
fn diffs(changes: &[(String, String)]) -> String {
    let mut all = String::new();
    for (_, diff) in changes {
        if all.len() + diff.len() > MAX_DIFF {
            all.push_str("… more files changed\n");
            break;
        }
        all.push_str(diff);
    }
    all
}

/// Returns what changed in each file.
fn changes(overlay: &Overlay) -> impl Iterator<Item = (String, String)> {
    const NOTHING: &str = "/dev/null";
    let is_moved_away = |draft: &FileDraft| {
        overlay.drafts.iter().any(|it| {
            it.moved_from.is_some_and(|from| std::ptr::eq(&raw const overlay.drafts[from], draft))
        })
    };
    let shown = move |draft: &&FileDraft| {
        draft.is_changed() && !(is_moved_away(draft) && draft.now.is_none())
    };
    overlay.drafts.iter().filter(shown).map(|draft| {
        let old = draft.moved_from.map_or(draft, |from| &overlay.drafts[from]);
        let before = old.before.as_ref().map(|before| FileText::new(before.bytes.clone()));
        let now = draft.now.as_ref().map(|now| FileText::new(now.clone()));
        let name = |draft: &FileDraft, there: bool| {
            if there { draft.target.shown() } else { NOTHING.to_owned() }
        };
        let diff = unified_diff(
            &name(old, before.is_some()),
            &name(draft, now.is_some()),
            before.as_ref().map_or("", FileText::view),
            now.as_ref().map_or("", FileText::view),
        );
        (draft.target.shown(), diff)
    })
}

#[derive(Debug)]
pub(super) struct FileDraft {
    /// The path as the patch has it.
    pub(super) path: String,
    /// What it means.
    pub(super) target: ResolvedPath,
    /// What is there.
    pub(super) before: Option<FileContent>,
    /// What will be there.
    pub(super) now: Option<Vec<u8>>,
    /// The file that got this name, by its index.
    pub(super) moved_from: Option<usize>,
}

impl FileDraft {
    /// Reports whether the file will be another than it is.
    pub(super) fn is_changed(&self) -> bool {
        self.before.as_ref().map(|before| &before.bytes) != self.now.as_ref()
    }
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Overlay {
    pub(super) drafts: Vec<FileDraft>,
}

impl Overlay {
    /// Works out what a patch makes of the files; nothing is written.
    pub(super) async fn of(files: &Files, patches: &[FilePatch]) -> Result<Self, ToolOutput> {
        let mut overlay = Self::default();
        for patch in patches {
            overlay.take(files, patch).await?;
        }
        Ok(overlay)
    }

    async fn take(&mut self, files: &Files, patch: &FilePatch) -> Result<(), ToolOutput> {
        match &patch.action {
            FileAction::Add(content) => {
                let index = self.open(files, &patch.path, ExpectedEntry::Nothing).await?;
                let draft = &mut self.drafts[index];
                if draft.now.is_some() {
                    return Err(refused(
                        &draft.target,
                        "it is there already; use `*** Update File:`",
                    ));
                }
                draft.now = Some(content.clone().into_bytes());
            }
            FileAction::Delete => {
                let index = self.open(files, &patch.path, ExpectedEntry::File).await?;
                let draft = &mut self.drafts[index];
                if draft.now.take().is_none() {
                    return Err(gone(&draft.target));
                }
            }
            FileAction::Update { move_to, hunks } => {
                let index = self.open(files, &patch.path, ExpectedEntry::File).await?;
                self.update(index, hunks)?;
                if let Some(goal) = move_to {
                    self.rename(files, index, goal).await?;
                }
            }
        }
        Ok(())
    }

    fn update(&mut self, index: usize, hunks: &[hunks::Hunk]) -> Result<(), ToolOutput> {
        let draft = &mut self.drafts[index];
        let Some(now) = &draft.now else {
            return Err(gone(&draft.target));
        };
        let text = FileText::new(now.clone());
        let changes = hunks::apply(text.view(), hunks);
        let changes = changes.map_err(|problem| refused(&draft.target, &problem))?;
        let edited = text.edited(&changes);
        draft.now = Some(edited.map_err(|error| refused(&draft.target, &error.to_string()))?);
        Ok(())
    }

    async fn rename(&mut self, files: &Files, from: usize, goal: &str) -> Result<(), ToolOutput> {
        let to = self.open(files, goal, ExpectedEntry::Nothing).await?;
        if to == from {
            return Ok(());
        }
        if self.drafts[to].now.is_some() {
            return Err(refused(
                &self.drafts[to].target,
                "it is there already; nothing is moved onto it",
            ));
        }
        self.drafts[to].now = self.drafts[from].now.take();
        self.drafts[to].moved_from = Some(from);
        Ok(())
    }

    /// Returns the index of a file, read if it was not yet. A file that is
    /// reached by several names is one file.
    async fn open(
        &mut self,
        files: &Files,
        path: &str,
        expected: ExpectedEntry,
    ) -> Result<usize, ToolOutput> {
        let target = resolve(files, path).await;
        let target = target.map_err(|error| ToolOutput::error(message_of(&error)))?;
        let known = |real: &PathBuf| self.drafts.iter().position(|it| it.target.real == *real);
        if let Some(index) = known(&target.real) {
            return Ok(index);
        }
        let before = match expected {
            ExpectedEntry::File => Some(read(files, path, &target).await?),
            ExpectedEntry::Nothing => match files.read_range(path, 0, MAX_SIZE).await {
                Ok(content) => Some(content),
                Err(error) if has_code(&error, FaultCode::NotFound) => None,
                Err(error) => return Err(ToolOutput::error(message_of(&error))),
            },
        };
        let now = before.as_ref().map(|before| before.bytes.clone());
        let path = path.to_owned();
        self.drafts.push(FileDraft { path, target, before, now, moved_from: None });
        Ok(self.drafts.len() - 1)
    }
}

/// What a patch takes for granted about a path.
#[derive(Debug, Clone, Copy)]
enum ExpectedEntry {
    File,
    Nothing,
}

fn refused(target: &ResolvedPath, problem: &str) -> ToolOutput {
    ToolOutput::error(format!("{}: {problem}; no file was changed", target.shown()))
}

fn gone(target: &ResolvedPath) -> ToolOutput {
    refused(target, "the patch itself deletes or renames it before")
}
