//! `delegate_task`: work for children with conversations of their own.

use std::time::Instant;

use async_trait::async_trait;
use serde_json::{Value, json};
use vestal_model::ToolSpec;

use super::arguments::{Arguments, BadArgument};
use crate::delegation::Assignment;
use crate::tool::{Footprint, Tool, ToolContext, ToolOutput};

/// Parts one call may give away.
const MOST_PARTS: usize = 16;

const DESCRIPTION: &str = "\
Gives work to assistants, each with a conversation of its own, and returns what they report. Give one `goal`, or several \
independent `tasks` to be done at the same time. They know nothing of this conversation: put all they need into goal \
and context (paths, errors, constraints). They share the sandbox and its files, each with a shell of its own, and cannot \
ask anybody. Use it for work that would fill your context with detail; not for a single tool call.";

/// The tool.
#[derive(Debug, Clone, Copy, Default)]
pub struct DelegateTask;

fn parts(arguments: Value) -> Result<Vec<Assignment>, BadArgument> {
    let arguments = Arguments::new(arguments)?;
    let Some(tasks) = arguments.list("tasks")?.filter(|tasks| !tasks.is_empty()) else {
        if arguments.get("goal").is_none() {
            return Err(BadArgument::new("either `goal` or `tasks` is required"));
        }
        return Ok(vec![assignment(&arguments, &arguments)?]);
    };
    if tasks.len() > MOST_PARTS {
        return Err(BadArgument::new(format!(
            "`tasks` has at most {MOST_PARTS} entries, got {}",
            tasks.len()
        )));
    }
    let part = |task: Value| match task {
        // A bare text can only be a goal.
        Value::String(goal) => assignment(&Arguments::new(json!({ "goal": goal }))?, &arguments),
        task => {
            let task = Arguments::new(task)
                .map_err(|_| BadArgument::new("each of `tasks` must be an object with a `goal`"))?;
            assignment(&task, &arguments)
        }
    };
    tasks.into_iter().map(part).collect()
}

/// Returns one part. What it leaves out is taken from the call as a whole.
fn assignment(part: &Arguments, whole: &Arguments) -> Result<Assignment, BadArgument> {
    let context = match part.optional_text("context")? {
        Some(context) => Some(context),
        None => whole.optional_text("context")?,
    };
    let mut toolsets = part.texts("toolsets")?;
    if toolsets.is_empty() {
        toolsets = whole.texts("toolsets")?;
    }
    Ok(Assignment {
        goal: part.words("goal")?,
        context: context.filter(|context| !context.trim().is_empty()),
        toolsets,
    })
}

#[async_trait]
impl Tool for DelegateTask {
    fn spec(&self) -> ToolSpec {
        let goal =
            json!({"type": "string", "description": "What is to be reached, complete in itself."});
        let context = json!({"type": "string", "description": "What the assistant has to know."});
        let toolsets = json!({"type": "array", "items": {"type": "string"}, "description": "Toolsets it may use. Default: yours."});
        ToolSpec {
            name: "delegate_task".to_owned(),
            description: DESCRIPTION.to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "goal": goal,
                    "context": context,
                    "toolsets": toolsets,
                    "tasks": {
                        "type": "array",
                        "maxItems": MOST_PARTS,
                        "description": "Several parts in place of one goal.",
                        "items": {
                            "type": "object",
                            "properties": {"goal": goal, "context": context, "toolsets": toolsets},
                            "required": ["goal"]
                        }
                    }
                }
            }),
        }
    }

    fn toolset(&self) -> &'static str {
        "delegation"
    }

    fn footprint(&self, _: &Value) -> Footprint {
        // Children change anything, but they are made to work side by side.
        Footprint::Siblings
    }

    async fn call(&self, context: &ToolContext, arguments: Value) -> ToolOutput {
        let parts = match parts(arguments) {
            Ok(parts) => parts,
            Err(bad) => return bad.into(),
        };
        let began = Instant::now();
        // The children stop by themselves when the turn is interrupted, and
        // what they have come to by then is worth reading.
        let reports = context.delegates.delegate(parts, &context.events, &context.cancel).await;
        match reports {
            Ok(reports) => {
                let results: Vec<Value> = reports
                    .iter()
                    .enumerate()
                    .map(|(index, report)| {
                        let mut result = json!(report);
                        result["task_index"] = index.into();
                        result
                    })
                    .collect();
                let mut output = ToolOutput::json(&json!({
                    "results": results,
                    "total_duration_seconds": (began.elapsed().as_secs_f64() * 100.0).round() / 100.0,
                }));
                output.is_error =
                    !reports.is_empty() && reports.iter().all(|report| report.error.is_some());
                output
            }
            Err(reason) => ToolOutput::error(reason),
        }
    }
}

#[cfg(test)]
#[path = "delegate_task_tests.rs"]
mod tests;
