//! What all `kanban_*` tools have in common: the trait, errors, arguments without secrets.

use std::marker::PhantomData;
use std::sync::Arc;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use vestal_agent::tools::arguments::{BadArgument, parse, tool_spec};
use vestal_agent::{Footprint, Tool, ToolContext, ToolOutput};
use vestal_board::Error;
use vestal_model::ToolSpec;

use super::TOOLSET;
use crate::context::AgentBoard;

/// One verb of the board as a tool: the type holds the arguments of a call.
#[async_trait]
pub(super) trait BoardVerb: DeserializeOwned + JsonSchema + Send + 'static {
    const NAME: &'static str;
    /// The description for the model.
    const DESCRIPTION: &'static str;
    const EFFECT: Effect;

    /// Adapts the schema of the arguments to the caller.
    fn adapt_schema(_kanban: &AgentBoard, _properties: &mut Map<String, Value>) {}

    /// Does it and returns the fields of the result besides `"ok": true`.
    async fn call(
        self,
        kanban: &AgentBoard,
        context: &ToolContext,
    ) -> Result<Map<String, Value>, ToolError>;
}

/// What a verb touches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// It reads only.
    Reads,
    /// It adds to the board.
    Adds,
    /// It decides about a task. Agents that the worker delegates to may not do that.
    Decides,
}

/// The board; default: the current one.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(transparent)]
pub(crate) struct BoardArgument(Option<String>);

/// The task; a worker's own if left out.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(transparent)]
pub(crate) struct TaskArgument(Option<String>);

impl BoardArgument {
    /// Returns the name that was given.
    pub(crate) fn name(&self) -> Option<&str> {
        not_blank(self.0.as_deref())
    }
}

impl TaskArgument {
    /// Returns the id, or its beginning, that was given.
    pub(crate) fn name(&self) -> Option<&str> {
        not_blank(self.0.as_deref())
    }
}

/// Returns a text without the blanks around it, unless it is blank.
pub(super) fn not_blank(text: Option<&str>) -> Option<&str> {
    text.map(str::trim).filter(|text| !text.is_empty())
}

/// The tool of one verb.
pub(super) struct BoardTool<V> {
    kanban: AgentBoard,
    verb: PhantomData<fn() -> V>,
}

impl<V: BoardVerb> BoardTool<V> {
    pub(super) fn tool(kanban: &AgentBoard) -> Arc<dyn Tool> {
        Arc::new(Self { kanban: kanban.clone(), verb: PhantomData })
    }
}

#[async_trait]
impl<V: BoardVerb> Tool for BoardTool<V> {
    fn spec(&self) -> ToolSpec {
        let mut spec = tool_spec::<V>(V::NAME, V::DESCRIPTION);
        if let Some(Value::Object(properties)) = spec.parameters.get_mut("properties") {
            if self.kanban.role().is_some() {
                // A worker may only use the board of its task.
                properties.remove("board");
            }
            V::adapt_schema(&self.kanban, properties);
        }
        spec
    }

    fn toolset(&self) -> &'static str {
        TOOLSET
    }

    fn is_for_children(&self) -> bool {
        V::EFFECT != Effect::Decides
    }

    fn footprint(&self, _arguments: &Value) -> Footprint {
        match V::EFFECT {
            Effect::Reads => Footprint::Reads,
            Effect::Adds | Effect::Decides => Footprint::Exclusive,
        }
    }

    async fn call(&self, context: &ToolContext, arguments: Value) -> ToolOutput {
        let acted = async {
            let verb: V = parse(arguments)?;
            verb.call(&self.kanban, context).await
        };
        match acted.await {
            Ok(fields) => {
                let mut result = Map::from_iter([("ok".to_owned(), Value::Bool(true))]);
                result.extend(fields);
                ToolOutput::json(&Value::Object(result))
            }
            Err(error) => {
                if let ToolError::Board(error) = &error {
                    self.kanban.note_error(error);
                }
                error.into()
            }
        }
    }
}

/// Returns the fields of an object.
pub(super) fn fields(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        other => Map::from_iter([("result".to_owned(), other)]),
    }
}

/// Why a call failed, for the model to read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ToolError {
    /// An argument cannot be used.
    #[error("{0}")]
    Argument(BadArgument),
    /// The board refused, or failed.
    #[error(transparent)]
    Board(#[from] Error),
    /// Something else.
    #[error("{0}")]
    Other(String),
}

impl From<BadArgument> for ToolError {
    fn from(bad: BadArgument) -> Self {
        Self::Argument(bad)
    }
}

impl From<String> for ToolError {
    fn from(words: String) -> Self {
        Self::Other(words)
    }
}

impl From<&str> for ToolError {
    fn from(words: &str) -> Self {
        Self::Other(words.to_owned())
    }
}

impl From<ToolError> for ToolOutput {
    fn from(error: ToolError) -> Self {
        Self::error(error.to_string())
    }
}

/// Returns a text with secrets masked.
pub(super) fn redacted(context: &ToolContext, text: &str) -> String {
    context.redactor.redact(text).into_owned()
}

/// Returns an object with secrets masked.
pub(super) fn redacted_object(
    context: &ToolContext,
    name: &str,
    fields: Map<String, Value>,
) -> Result<Value, BadArgument> {
    let text = Value::Object(fields).to_string();
    let masked = context.redactor.redact_result(&text);
    // Masking keeps JSON as JSON.
    let masked: Map<String, Value> = serde_json::from_str(&masked)
        .map_err(|error| BadArgument::new(format!("`{name}` cannot be kept: {error}")))?;
    Ok(Value::Object(masked))
}
