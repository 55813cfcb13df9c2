//! What all of the tools have in common.

use std::marker::PhantomData;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Map, Value, json};
use vestal_agent::tools::Arguments;
use vestal_agent::{Footprint, Tool, ToolContext, ToolOutput};
use vestal_model::ToolSpec;

use super::{TOOLSET, Trouble};
use crate::desk::Desk;

/// One verb of the board, as the model meets it.
#[async_trait]
pub(super) trait Verb: Send + Sync + 'static {
    /// The tool's name.
    const NAME: &'static str;
    /// What the model is told of it.
    const ABOUT: &'static str;
    /// What it touches.
    const EFFECT: Effect;

    /// Returns the arguments it takes: their names, what they are, and which
    /// have to be there.
    fn parameters(desk: &Desk) -> Parameters;

    /// Does it and returns what the model reads besides `"ok": true`.
    async fn act(
        desk: &Desk,
        context: &ToolContext,
        arguments: &Arguments,
    ) -> Result<Map<String, Value>, Trouble>;
}

/// What a verb touches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// Nothing.
    Reads,
    /// It adds something.
    Adds,
    /// It decides about a task, which is for the worker itself to do and not
    /// for its helpers.
    Decides,
}

/// The arguments of a verb.
pub(super) struct Parameters {
    pub(super) properties: Value,
    pub(super) required: &'static [&'static str],
}

/// A tool that does one verb.
pub(super) struct Kanban<V> {
    desk: Desk,
    verb: PhantomData<V>,
}

impl<V: Verb> Kanban<V> {
    /// Returns the tool for whoever sits at a desk.
    pub(super) fn tool(desk: &Desk) -> Arc<dyn Tool> {
        Arc::new(Self { desk: desk.clone(), verb: PhantomData })
    }
}

#[async_trait]
impl<V: Verb> Tool for Kanban<V> {
    fn spec(&self) -> ToolSpec {
        let Parameters { mut properties, required } = V::parameters(&self.desk);
        if let (None, Some(properties)) = (self.desk.role(), properties.as_object_mut()) {
            let board =
                json!({"type": "string", "description": "The board; default: the current one."});
            properties.insert("board".to_owned(), board);
        }
        ToolSpec {
            name: V::NAME.to_owned(),
            description: V::ABOUT.to_owned(),
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
            V::act(&self.desk, context, &arguments).await
        };
        match acted.await {
            Ok(fields) => {
                let mut result = Map::from_iter([("ok".to_owned(), Value::Bool(true))]);
                result.extend(fields);
                ToolOutput::json(&Value::Object(result))
            }
            Err(trouble) => {
                if let Trouble::Board(error) = &trouble {
                    self.desk.heed(error);
                }
                trouble.into()
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
