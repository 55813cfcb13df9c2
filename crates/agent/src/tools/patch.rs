//! `patch`: changes of parts of files.

mod commit;
mod find;
mod hunks;
mod plan;
mod replace;

use async_trait::async_trait;
use serde_json::{Value, json};
use vestal_model::ToolSpec;

use super::arguments::{Arguments, BadArgument};
use super::files::demand_unmasked;
use crate::tool::{Footprint, Tool, ToolContext, ToolOutput};
use find::Occurrences;
use hunks::{Action, FilePatch};
use replace::Order;

/// Changes files.
#[derive(Debug, Default)]
pub struct Patch;

/// What is asked for.
#[derive(Debug)]
enum Asked {
    Replace(Order),
    Patch(Vec<FilePatch>),
}

impl Asked {
    fn new(arguments: Value) -> Result<Self, BadArgument> {
        let arguments = Arguments::new(arguments)?;
        let has_patch = arguments.get("patch").is_some();
        let mode = match arguments.optional_text("mode")? {
            Some(mode) => mode,
            // The other arguments tell.
            None if has_patch && arguments.get("old_string").is_none() => "patch".to_owned(),
            None => "replace".to_owned(),
        };
        match mode.as_str() {
            "replace" => Self::replace(&arguments),
            "patch" => Self::patch(&arguments.words("patch")?),
            other => Err(BadArgument::new(format!(
                "`mode` must be \"replace\" or \"patch\", got {other:?}"
            ))),
        }
    }

    fn replace(arguments: &Arguments) -> Result<Self, BadArgument> {
        let path = arguments.words("path")?;
        let old = arguments.text("old_string")?;
        let new = arguments.text("new_string")?;
        let all = arguments.flag("replace_all")?;
        demand_unmasked("old_string", &old).map_err(BadArgument::new)?;
        demand_unmasked("new_string", &new).map_err(BadArgument::new)?;
        let occurrences = if all { Occurrences::All } else { Occurrences::One };
        Ok(Self::Replace(Order { path, old, new, occurrences }))
    }

    fn patch(patch: &str) -> Result<Self, BadArgument> {
        demand_unmasked("patch", patch).map_err(BadArgument::new)?;
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
            Action::Update { move_to, .. } => move_to.as_deref(),
            Action::Add(_) | Action::Delete => None,
        };
        std::iter::once(file.path.as_str()).chain(goal)
    })
}

#[async_trait]
impl Tool for Patch {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "patch".to_owned(),
            description: DESCRIPTION.to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "mode": { "type": "string", "enum": ["replace", "patch"], "default": "replace" },
                    "path": { "type": "string", "description": "replace: the file" },
                    "old_string": { "type": "string", "description": "replace: the text to change, with enough around it to be found in one place only" },
                    "new_string": { "type": "string", "description": "replace: what takes its place; empty to delete it" },
                    "replace_all": { "type": "boolean", "default": false, "description": "replace: change every occurrence" },
                    "patch": { "type": "string", "description": "patch: the patch" }
                },
                "required": ["mode"]
            }),
        }
    }

    fn toolset(&self) -> &'static str {
        "file"
    }

    fn footprint(&self, arguments: &Value) -> Footprint {
        match Asked::new(arguments.clone()) {
            Ok(Asked::Replace(order)) => Footprint::Writes(vec![order.path]),
            Ok(Asked::Patch(files)) => {
                Footprint::Writes(paths(&files).map(str::to_owned).collect())
            }
            // It will be refused before it touches anything.
            Err(_) => Footprint::Reads,
        }
    }

    async fn call(&self, context: &ToolContext, arguments: Value) -> ToolOutput {
        let asked = match Asked::new(arguments) {
            Ok(asked) => asked,
            Err(bad) => return bad.into(),
        };
        let files = match context.workshop.files(&context.events).await {
            Ok(files) => files,
            Err(error) => return ToolOutput::error(error.to_string()),
        };
        if context.cancel.is_cancelled() {
            return ToolOutput::error("interrupted; nothing was changed");
        }
        // Several files are changed together or not at all, so an interrupt
        // does not stop it half-way: it is over in milliseconds.
        let done = match asked {
            Asked::Replace(order) => replace::replace(context, &files, order).await,
            Asked::Patch(patches) => plan::patch(context, &files, &patches).await,
        };
        done.unwrap_or_else(|refusal| refusal)
    }
}

const DESCRIPTION: &str = "Changes parts of files. Use this rather than sed or a whole new file.

mode `replace`: puts `new_string` in the place of `old_string` in `path`. Small differences in blanks and \
indentation are forgiven; the text must be found in one place only unless `replace_all`.

mode `patch`: changes, adds, deletes and renames several files at once, all or none, by `patch`:
*** Begin Patch
*** Update File: src/a.py
@@ def greet():
 a line that stays
-a line that goes
+a line that comes
*** Add File: src/b.py
+its first line
*** Delete File: src/c.py
*** End Patch
`*** Move to: path` behind `*** Update File:` gives the file another name. `@@ line` names a line above \
the place where its own lines are not enough to find it. The result has a diff of what was changed.";

#[cfg(test)]
#[path = "patch_tests.rs"]
mod tests;
