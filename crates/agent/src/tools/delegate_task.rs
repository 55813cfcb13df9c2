//! `delegate_task`: work for children with conversations of their own.

use std::time::Instant;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use vestal_model::ToolSpec;

use super::arguments::{BadArgument, NonEmptyString, blank_as_absent, parse, tool_spec};
use crate::delegation::Assignment;
use crate::tool::{Footprint, Tool, ToolContext, ToolOutput};

/// Tasks of one call, at most.
const MOST_PARTS: usize = 16;

const DESCRIPTION: &str = "\
Gives work to assistants, each with a conversation of its own, and returns their reports. Give one `goal`, or several \
independent `tasks` that run at the same time. Assistants know nothing of this conversation: put everything they need \
into goal and context (paths, errors, constraints). They share the sandbox and its files, each with a shell of its own, \
and cannot ask anyone. Use it for work that would fill your context with detail, not for a single tool call.";

/// The tool.
#[derive(Debug, Clone, Copy, Default)]
pub struct DelegateTask;

#[derive(Deserialize, JsonSchema)]
struct DelegateTaskArguments {
    /// The goal, complete in itself.
    #[serde(default, deserialize_with = "blank_as_absent")]
    goal: Option<NonEmptyString>,
    /// What the assistant has to know.
    context: Option<String>,
    /// Toolsets it may use. Default: yours.
    #[serde(default)]
    toolsets: Vec<String>,
    /// Several tasks in place of one goal.
    #[serde(default)]
    #[schemars(with = "Vec<TaskArguments>", length(max = MOST_PARTS))]
    tasks: Vec<Value>,
}

#[derive(Deserialize, JsonSchema)]
struct TaskArguments {
    /// The goal, complete in itself.
    goal: NonEmptyString,
    /// What the assistant has to know.
    context: Option<String>,
    /// Toolsets it may use. Default: yours.
    #[serde(default)]
    toolsets: Vec<String>,
}

fn parts(arguments: Value) -> Result<Vec<Assignment>, BadArgument> {
    let DelegateTaskArguments { goal, context, toolsets, tasks } = parse(arguments)?;
    if tasks.is_empty() {
        let goal = goal.ok_or_else(|| BadArgument::new("either `goal` or `tasks` is required"))?;
        return Ok(vec![assignment(TaskArguments { goal, context, toolsets })]);
    }
    if tasks.len() > MOST_PARTS {
        return Err(BadArgument::new(format!(
            "`tasks` has at most {MOST_PARTS} entries, got {}",
            tasks.len()
        )));
    }
    let part = |task: Value| {
        let task = match task {
            // A bare text can only be a goal.
            Value::String(goal) => json!({ "goal": goal }),
            task @ Value::Object(_) => task,
            _ => return Err(BadArgument::new("each of `tasks` must be an object with a `goal`")),
        };
        let mut task: TaskArguments = parse(task)?;
        // What a task leaves out is taken from the call as a whole.
        task.context = task.context.or_else(|| context.clone());
        if task.toolsets.is_empty() {
            task.toolsets.clone_from(&toolsets);
        }
        Ok(assignment(task))
    };
    tasks.into_iter().map(part).collect()
}

fn assignment(task: TaskArguments) -> Assignment {
    Assignment {
        goal: task.goal.into_inner(),
        context: task.context.filter(|context| !context.trim().is_empty()),
        toolsets: task.toolsets,
    }
}

#[async_trait]
impl Tool for DelegateTask {
    fn spec(&self) -> ToolSpec {
        tool_spec::<DelegateTaskArguments>("delegate_task", DESCRIPTION)
    }

    fn toolset(&self) -> &'static str {
        "delegation"
    }

    fn footprint(&self, _: &Value) -> Footprint {
        // Children change anything, but they are made to work side by side.
        Footprint::Siblings
    }

    fn only_reads(&self, _: &Value) -> bool {
        // Children are in the mode of their parent.
        true
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
