//! Applies a patch of several files.

use serde_json::{Map, Value, json};
use vestal_sandbox::files::Files;
use vestal_wire::FaultCode;

use super::commit::{Failed, Step, carry_out, steps};
use super::hunks::FilePatch;
use super::overlay::{Draft, Overlay};
use crate::tool::{ToolContext, ToolOutput};
use crate::tools::files::{Text, cleared, in_words, is, unified_diff};
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
    // Somebody else may write in between: the patch is tried once on their version.
    for attempt in 0.. {
        let overlay = Overlay::of(files, patches).await?;
        let steps = steps(&overlay);
        if steps.is_empty() {
            return Err(ToolOutput::error("the patch changes nothing"));
        }
        if attempt == 0 {
            for draft in overlay.drafts.iter().filter(|draft| draft.is_changed()) {
                approvals.extend(cleared(context, &draft.place).await?);
            }
        }
        match carry_out(files, &overlay, &steps).await {
            Ok(versions) => {
                for (index, version) in versions {
                    context.sightings.wrote(&overlay.drafts[index].place.absolute, version);
                }
                let changes: Vec<(String, String)> = changes(&overlay).collect();
                for (path, diff) in &changes {
                    context.tell_change(path, diff);
                }
                let mut result = result(&overlay, &steps, &approvals);
                result["diff"] = context.redactor.redact_file(&diffs(&changes)).into();
                return Ok(ToolOutput::json(&result));
            }
            Err(failed)
                if attempt == 0
                    && failed.left.is_empty()
                    && is(&failed.error, FaultCode::Conflict) => {}
            Err(failed) => return Err(failure(failed)),
        }
    }
    Err(ToolOutput::error("the patch could not be applied"))
}

fn failure(failed: Failed) -> ToolOutput {
    let Failed { error, path, undone, left } = failed;
    let reason = in_words(&error);
    let mut content = if left.is_empty() {
        json!({ "error": format!("{path}: {reason}; every file is as it was before") })
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

fn result(overlay: &Overlay, steps: &[Step], approvals: &[String]) -> Value {
    let shown = |index: usize| overlay.drafts[index].place.shown();
    let (mut modified, mut created, mut deleted, mut moved) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for step in steps {
        match *step {
            Step::Create { to } => match overlay.drafts[to].moved_from {
                Some(from) => moved.push(json!({ "from": shown(from), "to": shown(to) })),
                None => created.push(shown(to)),
            },
            Step::Write { to } => modified.push(shown(to)),
            Step::Rename { from, to } => {
                moved.push(json!({ "from": shown(from), "to": shown(to) }));
            }
            Step::Delete { from } => {
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

fn linted(draft: &Draft) -> Option<(String, Value)> {
    let now = draft.now.as_ref().filter(|_| draft.is_changed())?;
    let before = draft.before.as_ref().map(|before| &before.bytes[..]);
    Some((draft.place.shown(), lint(&draft.place.shown(), before, now)?))
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
    let is_moved_away = |draft: &Draft| {
        overlay.drafts.iter().any(|it| {
            it.moved_from.is_some_and(|from| std::ptr::eq(&raw const overlay.drafts[from], draft))
        })
    };
    let shown =
        move |draft: &&Draft| draft.is_changed() && !(is_moved_away(draft) && draft.now.is_none());
    overlay.drafts.iter().filter(shown).map(|draft| {
        let old = draft.moved_from.map_or(draft, |from| &overlay.drafts[from]);
        let before = old.before.as_ref().map(|before| Text::new(before.bytes.clone()));
        let now = draft.now.as_ref().map(|now| Text::new(now.clone()));
        let name = |draft: &Draft, there: bool| {
            if there { draft.place.shown() } else { NOTHING.to_owned() }
        };
        let diff = unified_diff(
            &name(old, before.is_some()),
            &name(draft, now.is_some()),
            before.as_ref().map_or("", Text::view),
            now.as_ref().map_or("", Text::view),
        );
        (draft.place.shown(), diff)
    })
}
