//! A tool: its arguments, its call and its result; and the table of all tools.

use std::collections::BTreeMap;

use futures_util::future::BoxFuture;
use rmcp::model::{CallToolResult, ContentBlock, JsonObject, Tool, ToolAnnotations};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::call::Call;
use crate::failure::ToolFailure;
use crate::limits::{MAX_TEXT_BYTES, TEXT_BYTES};
use crate::schema;
use crate::service::Toolset;

/// What a tool may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ToolEffect {
    /// Nothing.
    Reads,
    /// It adds; nothing that was there is lost.
    Adds,
    /// What was there may be lost; done twice, it is as done once.
    Replaces,
    /// What was there may be lost.
    Destroys,
}

/// A tool: its arguments, and what is done with them. The text of the arguments' documentation is
/// what models read.
pub(crate) trait SandboxTool: DeserializeOwned + JsonSchema + Send + 'static {
    const NAME: &'static str;
    const TITLE: &'static str;
    const DESCRIPTION: &'static str;
    const EFFECT: ToolEffect;
    /// Whether it can do anything anywhere, as a command can.
    const OPEN_WORLD: bool = false;
    /// Whether it waits for commands or copies, which may take long.
    const WAITS: bool = false;
    /// Whether its results contain texts of people, which may be of any length.
    const LONG_TEXTS: bool = false;
    type Output: Serialize + Send;

    fn call(
        self,
        call: &Call,
    ) -> impl Future<Output = Result<Answer<Self::Output>, ToolFailure>> + Send;
}

/// What a tool returns: for programs, and in words.
pub(crate) struct Answer<T> {
    pub(crate) output: T,
    pub(crate) text: String,
}

impl<T> Answer<T> {
    pub(crate) fn new(output: T, text: impl Into<String>) -> Self {
        Self { output, text: text.into() }
    }
}

type RunTool = fn(JsonObject, Call) -> BoxFuture<'static, Result<CallToolResult, ToolFailure>>;

/// A tool in the table.
pub(crate) struct ToolEntry {
    pub(crate) description: Tool,
    pub(crate) waits: bool,
    pub(crate) run: RunTool,
}

/// The tools that are offered, by name.
pub(crate) struct ToolTable(BTreeMap<&'static str, ToolEntry>);

impl ToolTable {
    pub(crate) fn new(toolsets: &[Toolset]) -> Self {
        let mut table = Self(BTreeMap::new());
        if toolsets.contains(&Toolset::Sandbox) {
            table.add_described::<super::run::RunTool>();
            super::jobs::add_to(&mut table);
            super::files::add_to(&mut table);
            super::snapshots::add_to(&mut table);
            super::sandboxes::add_to(&mut table);
        }
        if toolsets.contains(&Toolset::Board) {
            super::board::add_to(&mut table);
        }
        table
    }

    pub(crate) fn get(&self, name: &str) -> Option<&ToolEntry> {
        self.0.get(name)
    }

    pub(crate) fn list(&self) -> Vec<Tool> {
        self.0.values().map(|entry| entry.description.clone()).collect()
    }

    /// Adds a tool whose results have a schema.
    pub(super) fn add_described<T: SandboxTool<Output: JsonSchema>>(&mut self) {
        self.add::<T>(described::<T>().with_raw_output_schema(schema::of::<T::Output>()));
    }

    /// Adds a tool whose results have none.
    pub(super) fn add_plain<T: SandboxTool>(&mut self) {
        self.add::<T>(described::<T>());
    }

    fn add<T: SandboxTool>(&mut self, description: Tool) {
        let entry = ToolEntry { description, waits: T::WAITS, run: run_tool::<T> };
        self.0.insert(T::NAME, entry);
    }
}

fn described<T: SandboxTool>() -> Tool {
    let (reads, destroys, idempotent) = match T::EFFECT {
        ToolEffect::Reads => (true, false, true),
        ToolEffect::Adds => (false, false, false),
        ToolEffect::Replaces => (false, true, true),
        ToolEffect::Destroys => (false, true, false),
    };
    let annotations = ToolAnnotations::with_title(T::TITLE)
        .read_only(reads)
        .destructive(destroys)
        .idempotent(idempotent)
        .open_world(T::OPEN_WORLD);
    let arguments = schema::of_arguments::<T>();
    Tool::new(T::NAME, T::DESCRIPTION, arguments).with_title(T::TITLE).with_annotations(annotations)
}

fn run_tool<T: SandboxTool>(
    arguments: JsonObject,
    call: Call,
) -> BoxFuture<'static, Result<CallToolResult, ToolFailure>> {
    Box::pin(async move {
        let arguments: T = serde_json::from_value(Value::Object(arguments)).map_err(|error| {
            ToolFailure::new(format!("invalid arguments for {}: {error}", T::NAME))
                .advise("see the input schema of the tool, and call it again")
        })?;
        let answer = arguments.call(&call).await?;
        let mut output = serde_json::to_value(&answer.output)
            .map_err(|error| ToolFailure::new(format!("the result is not JSON: {error}")))?;
        if T::LONG_TEXTS {
            shorten(&mut output, &mut { TEXT_BYTES });
        }
        let mut result = CallToolResult::structured(output);
        result.content = vec![ContentBlock::text(answer.text)];
        Ok(result)
    })
}

/// Cuts long texts, and marks what is cut. `room` is what the texts that are cut have together; the ones
/// that come when it is used up keep their beginnings.
fn shorten(value: &mut Value, room: &mut usize) {
    const BEGINNING: usize = 200;
    match value {
        Value::String(text) => {
            let most = MAX_TEXT_BYTES.min(*room).max(BEGINNING);
            if text.len() > most {
                let left = text.len() - text.floor_char_boundary(most);
                text.truncate(text.floor_char_boundary(most));
                text.extend([format!(" [… {left} bytes left out]")]);
            }
            *room = room.saturating_sub(text.len());
        }
        Value::Array(all) => all.iter_mut().for_each(|one| shorten(one, room)),
        Value::Object(members) => members.values_mut().for_each(|one| shorten(one, room)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Returns a count with its noun.
pub(crate) fn counted(count: u64, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn long_texts_are_cut_and_marked_and_short_ones_stay() {
        let mut value = json!({ "id": "t_1", "body": "ä".repeat(MAX_TEXT_BYTES), "n": [1, null] });
        shorten(&mut value, &mut { TEXT_BYTES });
        let body = value["body"].as_str().unwrap();
        assert!(
            body.ends_with(&format!("ä [… {MAX_TEXT_BYTES} bytes left out]")),
            "{}",
            body.len()
        );
        assert_eq!((&value["id"], &value["n"]), (&json!("t_1"), &json!([1, null])));
        let mut many = json!(vec!["x".repeat(MAX_TEXT_BYTES); 200]);
        shorten(&mut many, &mut { TEXT_BYTES });
        assert!(many.to_string().len() < 2 * TEXT_BYTES, "{}", many.to_string().len());
    }
}
