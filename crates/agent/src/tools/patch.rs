//! `patch`: changes of parts of files.

mod commit;
mod find;
mod hunks;
mod plan;
mod replace;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use vestal_model::ToolSpec;

use super::arguments::{BadArgument, NonEmptyString, blank_as_absent, parse, tool_spec};
use super::files::require_unmasked;
use crate::tool::{Footprint, Tool, ToolContext, ToolOutput};
use find::Occurrences;
use hunks::{FileAction, FilePatch};
use replace::Replacement;

/// Changes files.
#[derive(Debug, Default)]
pub struct Patch;

#[derive(Deserialize, JsonSchema)]
struct PatchArguments {
    #[schemars(required)]
    mode: Option<PatchMode>,
    /// replace: the file
    #[serde(default, deserialize_with = "blank_as_absent")]
    path: Option<NonEmptyString>,
    /// replace: the text to change, with enough around it to be found in one place only
    old_string: Option<String>,
    /// replace: what takes its place; empty to delete it
    new_string: Option<String>,
    /// replace: change every occurrence
    #[serde(default)]
    replace_all: bool,
    /// patch: the patch
    #[serde(default, deserialize_with = "blank_as_absent")]
    patch: Option<NonEmptyString>,
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum PatchMode {
    Replace,
    Patch,
}

#[derive(Debug)]
enum PatchCall {
    Replace(Replacement),
    Patch(Vec<FilePatch>),
}

impl PatchCall {
    fn new(arguments: Value) -> Result<Self, BadArgument> {
        let arguments: PatchArguments = parse(arguments)?;
        let mode = match arguments.mode {
            Some(mode) => mode,
            // The other arguments tell.
            None if arguments.patch.is_some() && arguments.old_string.is_none() => PatchMode::Patch,
            None => PatchMode::Replace,
        };
        match mode {
            PatchMode::Replace => Self::replace(arguments),
            PatchMode::Patch => {
                Self::patch(&arguments.patch.ok_or_else(|| BadArgument::missing("patch"))?)
            }
        }
    }

    fn replace(arguments: PatchArguments) -> Result<Self, BadArgument> {
        let PatchArguments { path, old_string, new_string, replace_all, .. } = arguments;
        let path = path.ok_or_else(|| BadArgument::missing("path"))?.into_inner();
        let old = old_string.ok_or_else(|| BadArgument::missing("old_string"))?;
        let new = new_string.ok_or_else(|| BadArgument::missing("new_string"))?;
        require_unmasked("old_string", &old).map_err(BadArgument::new)?;
        require_unmasked("new_string", &new).map_err(BadArgument::new)?;
        let occurrences = if replace_all { Occurrences::All } else { Occurrences::One };
        Ok(Self::Replace(Replacement { path, old, new, occurrences }))
    }

    fn patch(patch: &str) -> Result<Self, BadArgument> {
        require_unmasked("patch", patch).map_err(BadArgument::new)?;
        let files = hunks::parse(patch).map_err(|error| BadArgument::new(error.to_string()))?;
        if let Some(path) = paths(&files).find(|path| path.split('/').any(|name| name == "..")) {
            return Err(BadArgument::new(format!(
                "{path:?}: paths of a patch do not go up with `..`; name the file from the shell's \
                 directory or from `/`"
            )));
        }
        Ok(Self::Patch(files))
    }
}

/// Returns all paths of a patch.
fn paths(files: &[FilePatch]) -> impl Iterator<Item = &str> {
    files.iter().flat_map(|file| {
        let goal = match &file.action {
            FileAction::Update { move_to, .. } => move_to.as_deref(),
            FileAction::Add(_) | FileAction::Delete => None,
        };
        std::iter::once(file.path.as_str()).chain(goal)
    })
}

#[async_trait]
impl Tool for Patch {
    fn spec(&self) -> ToolSpec {
        tool_spec::<PatchArguments>("patch", DESCRIPTION)
    }

    fn toolset(&self) -> &'static str {
        "file"
    }

    fn footprint(&self, arguments: &Value) -> Footprint {
        match PatchCall::new(arguments.clone()) {
            Ok(PatchCall::Replace(order)) => Footprint::Writes(vec![order.path]),
            Ok(PatchCall::Patch(files)) => {
                Footprint::Writes(paths(&files).map(str::to_owned).collect())
            }
            // It will be refused before it touches anything.
            Err(_) => Footprint::Reads,
        }
    }

    fn only_reads(&self, _: &Value) -> bool {
        false
    }

    async fn call(&self, context: &ToolContext, arguments: Value) -> ToolOutput {
        let asked = match PatchCall::new(arguments) {
            Ok(asked) => asked,
            Err(bad) => return bad.into(),
        };
        let files = match context.sandbox.files(&context.events).await {
            Ok(files) => files,
            Err(error) => return ToolOutput::error(error.to_string()),
        };
        if context.cancel.is_cancelled() {
            return ToolOutput::error("interrupted; nothing was changed");
        }
        // Several files are changed together or not at all, so an interrupt
        // does not stop it half-way: it is over in milliseconds.
        let done = match asked {
            PatchCall::Replace(order) => replace::replace(context, &files, order).await,
            PatchCall::Patch(patches) => plan::patch(context, &files, &patches).await,
        };
        done.unwrap_or_else(|refusal| refusal)
    }
}

const DESCRIPTION: &str = "Changes parts of files. Use this rather than sed or rewriting a whole file.

mode `replace`: replaces `old_string` by `new_string` in `path`. Small differences in whitespace and indentation are \
tolerated; the text must be in one place only, unless `replace_all` is set.

mode `patch`: changes, adds, deletes and renames several files at once, all or none, as `patch` says:
*** Begin Patch
*** Update File: src/a.py
@@ def greet():
 a line that stays
-a line that is removed
+a line that is added
*** Add File: src/b.py
+its first line
*** Delete File: src/c.py
*** End Patch
`*** Move to: path` after `*** Update File:` renames the file. `@@ line` names a line above the change, for when the \
lines of the change are not enough to find it. The result has a diff of what was changed.";

#[cfg(test)]
#[path = "patch_tests.rs"]
mod tests;
