//! Replaces a text in one file.

use std::sync::Arc;

use serde_json::{Value, json};
use vestal_sandbox::files::{FileContent, FileError, Files, WriteOptions};
use vestal_sandbox::{CreateMode, FaultCode};

use super::find::{self, Mismatch, Occurrences, Region, Strategy};
use crate::tool::{ToolContext, ToolOutput};
use crate::tools::files::{
    FileText, ResolvedPath, StrayBytes, check_write, has_code, message_of, not_found,
    numbered_lines, resolve, unified_diff, with_lf,
};
use crate::tools::lint::lint;

/// Largest file that is changed; it is held in memory.
pub(super) const MAX_SIZE: u64 = 64 << 20;

/// What is to be replaced.
#[derive(Debug)]
pub(super) struct Replacement {
    pub(super) path: String,
    pub(super) old: String,
    pub(super) new: String,
    pub(super) occurrences: Occurrences,
}

/// What a file becomes.
struct PatchedFile {
    bytes: Vec<u8>,
    diff: String,
    strategy: Strategy,
    count: usize,
}

enum Unfit {
    Mismatch(Mismatch),
    Stray(StrayBytes),
}

/// Replaces a text in a file.
pub(super) async fn replace(
    context: &ToolContext,
    files: &Files,
    order: Replacement,
) -> Result<ToolOutput, ToolOutput> {
    let failed = |error: FileError| ToolOutput::error(message_of(&error));
    let order = Arc::new(order);
    let path = &order.path;
    let target = resolve(files, path).await.map_err(failed)?;
    let mut before = Arc::new(read(files, path, &target).await?);
    let mut outcome = edited(context, &target, &before, &order).await?;
    let is_stale = context.observed_files.is_stale(&target.absolute, before.metadata.version);
    let approval = check_write(context, &target).await?;
    let mut written = write(files, path, &before, &outcome).await;
    // Something else wrote in between: the same change is tried on the new version.
    if written.as_ref().is_err_and(|error| has_code(error, FaultCode::Conflict)) {
        before = Arc::new(read(files, path, &target).await?);
        outcome = edited(context, &target, &before, &order).await?;
        written = write(files, path, &before, &outcome).await;
    }
    let written = written.map_err(|error| {
        if has_code(&error, FaultCode::Conflict) {
            ToolOutput::error(format!(
                "{} is being changed by something else all the time; nothing was written",
                target.shown()
            ))
        } else {
            failed(error)
        }
    })?;
    context.observed_files.record_file(&target.absolute, written.metadata.version);
    context.emit_file_change(target.shown(), &outcome.diff);
    let mut result = json!({
        "success": true,
        "path": target.shown(),
        "replacements": outcome.count,
        "diff": context.redactor.redact_file(&outcome.diff),
    });
    if outcome.strategy != Strategy::Exact {
        result["matched_by"] = json!(outcome.strategy);
    }
    if is_stale {
        result["warning"] =
            "the file had been changed by something else since you last read or wrote it".into();
    }
    if written.in_place {
        result["in_place"] = true.into();
    }
    if let Some(approval) = approval {
        result["approval"] = approval.into();
    }
    if let Some(found) = lint(&target.shown(), Some(&before.bytes), &outcome.bytes) {
        result["lint"] = found;
    }
    Ok(ToolOutput::json(&result))
}

/// Reads a whole file.
pub(super) async fn read(
    files: &Files,
    path: &str,
    target: &ResolvedPath,
) -> Result<FileContent, ToolOutput> {
    match files.read_range(path, 0, MAX_SIZE).await {
        Ok(content) if content.eof => Ok(content),
        Ok(_) => Err(ToolOutput::error(format!(
            "{} is larger than {} MiB; change it with a command",
            target.shown(),
            MAX_SIZE >> 20
        ))),
        Err(error) if has_code(&error, FaultCode::NotFound) => {
            let content = not_found(files, target).await;
            Err(ToolOutput { is_error: true, ..ToolOutput::json(&content) })
        }
        Err(error) => Err(ToolOutput::error(message_of(&error))),
    }
}

/// Works out what a file becomes, off the threads that others wait on: a text
/// that is not to be found is looked for in many ways.
async fn edited(
    context: &ToolContext,
    target: &ResolvedPath,
    before: &Arc<FileContent>,
    order: &Arc<Replacement>,
) -> Result<PatchedFile, ToolOutput> {
    let shown = target.shown();
    let (bytes, wanted) = (Arc::clone(before), Arc::clone(order));
    let found = tokio::task::spawn_blocking(move || outcome(&shown, &bytes.bytes, &wanted)).await;
    match found {
        Ok(Ok(outcome)) => Ok(outcome),
        Ok(Err(Unfit::Mismatch(mismatch))) => {
            Err(mismatch_output(context, &target.shown(), &order.old, mismatch))
        }
        Ok(Err(Unfit::Stray(error))) => Err(ToolOutput::error(error.to_string())),
        Err(_) => Err(ToolOutput::error("the search in the file broke off; nothing was changed")),
    }
}

fn outcome(path: &str, before: &[u8], order: &Replacement) -> Result<PatchedFile, Unfit> {
    let text = FileText::new(before.to_vec());
    let (old, new) = (with_lf(&order.old), with_lf(&order.new));
    let found =
        find::replace(text.view(), &old, &new, order.occurrences).map_err(Unfit::Mismatch)?;
    let bytes = text.edited(&found.changes).map_err(Unfit::Stray)?;
    if bytes == before {
        return Err(Unfit::Mismatch(Mismatch::Same));
    }
    let after = FileText::new(bytes);
    let diff = unified_diff(path, path, text.view(), after.view());
    Ok(PatchedFile {
        bytes: after.into_bytes(),
        diff,
        strategy: found.strategy,
        count: found.changes.len(),
    })
}

async fn write(
    files: &Files,
    path: &str,
    before: &FileContent,
    outcome: &PatchedFile,
) -> Result<vestal_sandbox::files::Written, FileError> {
    let options = WriteOptions {
        create: CreateMode::Existing,
        expect: Some(before.metadata.version),
        ..WriteOptions::default()
    };
    files.write(path, &outcome.bytes, options).await
}

/// Returns what the model reads when a text does not fit.
pub(super) fn mismatch_output(
    context: &ToolContext,
    path: &str,
    old: &str,
    mismatch: Mismatch,
) -> ToolOutput {
    let content = match mismatch {
        Mismatch::Empty => json!({
            "error": "`old_string` is empty; to make a file or replace all of it use write_file",
        }),
        Mismatch::Same => json!({
            "error": "`new_string` is what the file has there already, so nothing would change",
        }),
        Mismatch::Ambiguous { count, lines } => {
            let named: Vec<String> = lines.iter().map(usize::to_string).collect();
            let more = if count > lines.len() { ", …" } else { "" };
            json!({
                "error": format!(
                    "`old_string` is in {path} {count} times, in lines {}{more}; add lines around \
                     it until it is in one target only, or set `replace_all`",
                    named.join(", ")
                ),
                "occurrences": count,
            })
        }
        Mismatch::Missing { .. } if numbered_lines(old).is_some() => json!({
            "error": "`old_string` starts with a line number and `|`, as read_file shows them; \
                they are not part of the file. Leave them out of both strings",
        }),
        Mismatch::Missing { closest, done_at } => missing(context, path, closest, done_at),
    };
    ToolOutput { is_error: true, ..ToolOutput::json(&content) }
}

fn missing(
    context: &ToolContext,
    path: &str,
    closest: Option<Region>,
    done_at: Option<usize>,
) -> Value {
    let mut error = format!("`old_string` is not in {path}");
    if let Some(line) = done_at {
        let remark = format!(
            "; `new_string` is in line {line} already, so the change may have been made before"
        );
        error.push_str(&remark);
    }
    let Some(Region { first, lines }) = closest else {
        error.push_str("; nothing in the file is like it. Read the file first");
        return json!({ "error": error });
    };
    error.push_str("; repeat it as the file has it. `closest` is the target most like it");
    let shown = lines.join("\n");
    let shown = context.redactor.redact_file(&shown);
    let cut = |line: &str| line.chars().take(context.limits.line_length).collect::<String>();
    let numbered = shown.split('\n').zip(first..);
    let numbered: Vec<String> =
        numbered.map(|(line, number)| format!("{number}|{}", cut(line))).collect();
    json!({ "error": error, "closest": numbered.join("\n") })
}
