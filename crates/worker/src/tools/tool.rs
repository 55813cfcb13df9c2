//! What all `kanban_*` tools have in common: the trait, errors, arguments without secrets.

use std::marker::PhantomData;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Map, Value, json};
use vestal_agent::tools::{Arguments, BadArgument};
use vestal_agent::{Footprint, Tool, ToolContext, ToolOutput};
use vestal_board::Error;
use vestal_model::ToolSpec;

use super::TOOLSET;
use crate::context::BoardContext;

/// One verb of the board as a tool.
#[async_trait]
pub(super) trait Verb: Send + Sync + 'static {
    /// The tool's name.
    const NAME: &'static str;
    /// The description for the model.
    const DESCRIPTION: &'static str;
    /// What it touches.
    const EFFECT: Effect;

    /// Returns the JSON schema of the arguments.
    fn parameters(kanban: &BoardContext) -> Parameters;

    /// Does it and returns the fields of the result besides `"ok": true`.
    async fn call(
        kanban: &BoardContext,
        context: &ToolContext,
        arguments: &Arguments,
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

/// The arguments of a verb.
pub(super) struct Parameters {
    pub(super) properties: Value,
    pub(super) required: &'static [&'static str],
}

/// The tool of one verb.
pub(super) struct BoardTool<V> {
    kanban: BoardContext,
    verb: PhantomData<V>,
}

impl<V: Verb> BoardTool<V> {
    pub(super) fn tool(kanban: &BoardContext) -> Arc<dyn Tool> {
        Arc::new(Self { kanban: kanban.clone(), verb: PhantomData })
    }
}

#[async_trait]
impl<V: Verb> Tool for BoardTool<V> {
    fn spec(&self) -> ToolSpec {
        let Parameters { mut properties, required } = V::parameters(&self.kanban);
        if let (None, Some(properties)) = (self.kanban.role(), properties.as_object_mut()) {
            let board =
                json!({"type": "string", "description": "The board; default: the current one."});
            properties.insert("board".to_owned(), board);
        }
        ToolSpec {
            name: V::NAME.to_owned(),
            description: V::DESCRIPTION.to_owned(),
            parameters: json!({"type": "object", "properties": properties, "required": required}),
        }
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
            let arguments = Arguments::new(arguments)?;
            V::call(&self.kanban, context, &arguments).await
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

/// Returns a required text that is not blank, with secrets masked.
pub(super) fn redacted(
    context: &ToolContext,
    arguments: &Arguments,
    name: &str,
) -> Result<String, BadArgument> {
    Ok(context.redactor.redact(&arguments.words(name)?).into_owned())
}

/// Returns an optional text, `None` if blank, with secrets masked.
pub(super) fn optional_redacted(
    context: &ToolContext,
    arguments: &Arguments,
    name: &str,
) -> Result<Option<String>, BadArgument> {
    let text = arguments.optional_text(name)?.filter(|text| !text.trim().is_empty());
    Ok(text.map(|text| context.redactor.redact(&text).into_owned()))
}

/// Returns an optional object, with secrets masked.
pub(super) fn redacted_object(
    context: &ToolContext,
    arguments: &Arguments,
    name: &str,
) -> Result<Option<Value>, BadArgument> {
    let Some(fields) = arguments.object(name)? else { return Ok(None) };
    let text = Value::Object(fields).to_string();
    let masked = context.redactor.redact_result(&text);
    // Masking keeps JSON as JSON.
    let masked: Map<String, Value> = serde_json::from_str(&masked)
        .map_err(|error| BadArgument::new(format!("`{name}` cannot be kept: {error}")))?;
    Ok(Some(Value::Object(masked)))
}
