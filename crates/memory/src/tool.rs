//! `memory`: the model's notes for later conversations.

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::de::IntoDeserializer as _;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use vestal_agent::tools::arguments::{
    BadArgument, NonEmptyString, blank_as_absent, parse, tool_spec,
};
use vestal_agent::{Tool, ToolContext, ToolOutput};
use vestal_model::ToolSpec;

use crate::entries::{Entries, NotesTarget};
use crate::file_memory::{Enabled, usage};
use crate::files::{MemoryError, NoteChange, NoteFiles};

/// The group the tool is enabled and disabled with.
pub const TOOLSET: &str = "memory";

const DESCRIPTION: &str = "\
Keeps short notes that you are given again at the beginning of every later conversation. \
Write down, without being asked, what will still be true and useful then: how the user wants things done, corrections, facts about the user, \
what you found out about this environment, conventions of a project, approaches that work. Do not write down what is finished, what is easily found again, raw data, \
or secrets (they are left out). \
Targets: memory for your own notes, user for notes about the user. \
Actions: add (content); replace (old_text, content) and remove (old_text), where old_text is a part of the one note that is meant; read. \
Space is limited: write compactly, and when it is full, first merge or remove notes. \
Changes are saved at once, but the notes at the beginning of this conversation stay as they were.";

/// The tool.
#[derive(Debug, Clone)]
pub struct MemoryTool {
    files: NoteFiles,
    enabled: Enabled,
}

impl MemoryTool {
    /// Returns the tool for these files.
    pub fn new(files: NoteFiles, enabled: Enabled) -> Self {
        Self { files, enabled }
    }
}

#[async_trait]
impl Tool for MemoryTool {
    fn spec(&self) -> ToolSpec {
        let mut spec = tool_spec::<MemoryArguments>("memory", DESCRIPTION);
        let targets: Vec<&str> = self.enabled.targets().map(NotesTarget::word).collect();
        spec.parameters["properties"]["target"]["enum"] = json!(targets);
        spec
    }

    fn toolset(&self) -> &'static str {
        TOOLSET
    }

    // Children work on a part; what is worth keeping of it is the parent's to say.
    fn is_for_children(&self) -> bool {
        false
    }

    async fn call(&self, _: &ToolContext, arguments: Value) -> ToolOutput {
        let request = match MemoryCall::read(arguments, self.enabled) {
            Ok(request) => request,
            Err(bad) => return bad.into(),
        };
        let files = self.files.clone();
        // Another process may have the lock for a moment.
        let done = tokio::task::spawn_blocking(move || request.carry_out(&files)).await;
        done.unwrap_or_else(|error| ToolOutput::error(format!("the notes were given up: {error}")))
    }
}

#[derive(Deserialize, JsonSchema)]
struct MemoryArguments {
    #[serde(deserialize_with = "action")]
    action: MemoryAction,
    /// Default memory.
    target: Option<String>,
    /// The note, for add and replace.
    #[serde(default, deserialize_with = "blank_as_absent")]
    content: Option<NonEmptyString>,
    /// A part of the one note that replace and remove mean.
    #[serde(default, deserialize_with = "blank_as_absent")]
    old_text: Option<NonEmptyString>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum MemoryAction {
    Add,
    Replace,
    Remove,
    Read,
}

/// Reads an action, also by other common words for it.
fn action<'de, D: Deserializer<'de>>(deserializer: D) -> Result<MemoryAction, D::Error> {
    let word = String::deserialize(deserializer)?.trim().to_ascii_lowercase();
    let word = match word.as_str() {
        "update" => "replace",
        "delete" => "remove",
        "list" | "view" | "show" => "read",
        other => other,
    };
    MemoryAction::deserialize(word.into_deserializer())
}

struct MemoryCall {
    action: MemoryAction,
    target: NotesTarget,
    content: String,
    old: String,
}

impl MemoryCall {
    fn read(arguments: Value, enabled: Enabled) -> Result<Self, BadArgument> {
        let MemoryArguments { action, target, content, old_text } = parse(arguments)?;
        let target = match target {
            None => enabled.targets().next().unwrap_or(NotesTarget::Memory),
            Some(word) => word.trim().parse().map_err(|_| {
                BadArgument::new(format!("`target` must be memory or user, got {word:?}"))
            })?,
        };
        if !enabled.has(target) {
            let message = format!("the notes of {target} are switched off in the settings");
            return Err(BadArgument::new(message));
        }
        let required = |name: &str, text: Option<NonEmptyString>| {
            text.map(NonEmptyString::into_inner).ok_or_else(|| BadArgument::missing(name))
        };
        let content = match action {
            MemoryAction::Add | MemoryAction::Replace => required("content", content)?,
            MemoryAction::Remove | MemoryAction::Read => String::new(),
        };
        let old = match action {
            MemoryAction::Replace | MemoryAction::Remove => required("old_text", old_text)?,
            MemoryAction::Add | MemoryAction::Read => String::new(),
        };
        Ok(Self { action, target, content, old })
    }

    fn carry_out(&self, files: &NoteFiles) -> ToolOutput {
        let Self { action, target, content, old } = self;
        let (change, message) = match action {
            MemoryAction::Add => (NoteChange::Add { entry: content }, "the note is kept"),
            MemoryAction::Replace => {
                (NoteChange::Replace { old, entry: content }, "the note is replaced")
            }
            MemoryAction::Remove => (NoteChange::Remove { old }, "the note is removed"),
            MemoryAction::Read => {
                return match files.read(*target) {
                    Ok(entries) => output(&view(files, *target, &entries), false),
                    Err(error) => failure(&error.into(), files, *target),
                };
            }
        };
        match files.change(*target, change) {
            Ok(entries) => {
                let mut result = view(files, *target, &entries);
                let message = if files.has_secret(content) {
                    format!("{message}, without the secret in it")
                } else {
                    message.to_owned()
                };
                result["message"] = message.into();
                output(&result, false)
            }
            Err(error) => failure(&error, files, *target),
        }
    }
}

fn view(files: &NoteFiles, target: NotesTarget, entries: &Entries) -> Value {
    json!({
        "success": true,
        "target": target,
        "entries": files.shown(entries),
        "usage": usage(entries, files.limit(target)),
    })
}

/// Says what went wrong, and what there is: the model mends it without looking first.
fn failure(error: &MemoryError, files: &NoteFiles, target: NotesTarget) -> ToolOutput {
    let mut result = json!({"success": false, "error": error.to_string(), "target": target});
    if let (MemoryError::Refused(_), Ok(entries)) = (error, files.read(target)) {
        result["entries"] = files.shown(&entries).into();
        result["usage"] = usage(&entries, files.limit(target)).into();
    }
    output(&result, true)
}

fn output(result: &Value, is_error: bool) -> ToolOutput {
    ToolOutput { is_error, ..ToolOutput::json(result) }
}

#[cfg(test)]
#[path = "tool_tests.rs"]
mod tests;
