//! A server's tool as one of the agent's.

use std::sync::Arc;

use async_trait::async_trait;
use serde::Serialize;
use serde_json::Value;
use vestal_agent::{Footprint, Tool, ToolContext, ToolOutput};
use vestal_model::ToolSpec;

use crate::call::call;
use crate::printable::{one_line, printable, shortened};
use crate::schema;
use crate::server::Server;

/// Characters of a tool's description.
const DESCRIPTION: usize = 4000;

/// Characters of a name where it stands for a description.
const NAME: usize = 100;

/// What a server says about a tool of its, repaired and bounded.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Offered {
    /// Its name, as the server has it.
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) schema: Value,
    /// Whether it says that it changes nothing.
    pub(crate) reads_only: bool,
    /// Whether it says that it may destroy something.
    pub(crate) is_destructive: bool,
}

impl Offered {
    pub(crate) fn new(tool: &rmcp::model::Tool) -> Self {
        let schema::Repaired { schema, note } = schema::repaired(&tool.input_schema);
        let said = tool.description.as_deref().or(tool.title.as_deref()).unwrap_or_default();
        let mut description = shortened(printable(said).trim(), DESCRIPTION);
        if description.is_empty() {
            let name = one_line(&tool.name, NAME);
            description = format!("The tool {name} of an MCP server.");
        }
        if let Some(note) = note {
            description.push(' ');
            description.push_str(note);
        }
        let hint = |read: fn(&rmcp::model::ToolAnnotations) -> Option<bool>| {
            tool.annotations.as_ref().and_then(read).unwrap_or(false)
        };
        let reads_only = hint(|own| own.read_only_hint);
        Self {
            name: tool.name.clone().into_owned(),
            description,
            schema,
            reads_only,
            // What is said to change nothing cannot destroy anything either.
            is_destructive: !reads_only && hint(|own| own.destructive_hint),
        }
    }
}

/// A tool of a server, for people and programs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ToolStatus {
    /// What the agent calls it.
    pub name: String,
    /// What the server calls it.
    pub own_name: String,
    /// What it does.
    pub description: String,
    /// The schema of its arguments, as providers get it.
    pub schema: Value,
    /// Whether it says that it changes nothing.
    pub read_only: bool,
    /// Whether it says that it may destroy something; a person is asked first.
    pub destructive: bool,
}

impl ToolStatus {
    pub(crate) fn new(name: String, own: &Offered) -> Self {
        Self {
            name,
            own_name: own.name.clone(),
            description: own.description.clone(),
            schema: own.schema.clone(),
            read_only: own.reads_only,
            destructive: own.is_destructive,
        }
    }
}

/// A server's tool as one of the agent's.
pub(crate) struct RemoteTool {
    /// What the agent calls it.
    pub(crate) name: String,
    pub(crate) toolset: String,
    pub(crate) own: Offered,
    pub(crate) server: Arc<Server>,
}

#[async_trait]
impl Tool for RemoteTool {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: self.name.clone(),
            description: self.own.description.clone(),
            parameters: self.own.schema.clone(),
        }
    }

    fn toolset(&self) -> &str {
        &self.toolset
    }

    fn footprint(&self, _: &Value) -> Footprint {
        // Who may have to ask a person runs alone; a hint that nothing is
        // changed, if it is wrong, costs no more than an order of calls.
        if !self.own.is_destructive && (self.own.reads_only || self.server.plan.parallel) {
            Footprint::Reads
        } else {
            Footprint::Exclusive
        }
    }

    async fn call(&self, context: &ToolContext, arguments: Value) -> ToolOutput {
        let Value::Object(arguments) = arguments else {
            return ToolOutput::error("the arguments must be a JSON object");
        };
        let mut approved = None;
        if self.own.is_destructive {
            let about = format!("{} {}", self.name, Value::Object(arguments.clone()));
            match context.guard.outside(context, &self.name, &about).await {
                Ok(clearance) => approved = clearance.approved_by_person,
                Err(refusal) => return ToolOutput::error(refusal.message),
            }
        }
        let mut output = call(&self.server, &self.own.name, arguments, context).await;
        if let Some(approved) = approved {
            output.content.extend(["\n[", &approved, "]"]);
        }
        output
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_that_says_nothing_is_described_by_the_beginning_of_its_name() {
        let name = format!("x\u{202e}{}", "y".repeat(100_000));
        let own = rmcp::model::Tool::new(name, "", serde_json::Map::new());
        let description = Offered::new(&own).description;
        assert!(description.starts_with("The tool xyyy") && description.len() < 200);
    }
}
