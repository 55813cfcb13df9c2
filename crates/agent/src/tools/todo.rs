//! `todo`: the conversation's list of what is to be done.

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::de::IntoDeserializer as _;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use vestal_model::ToolSpec;

use super::arguments::{BadArgument, NonEmptyString, parse, tool_spec};
use crate::notebook::{Todo, TodoStatus};
use crate::tool::{Tool, ToolContext, ToolOutput};

/// Items a list may have.
const MOST: usize = 200;

/// Characters an item may have.
const LONGEST: usize = 2000;

const DESCRIPTION: &str = "\
Keeps a todo list for work with several steps, or for several requests at once. Without `todos` it returns the list. \
With `todos` it replaces the list, or with merge=true changes it: items with a known id are updated, others are added at the end. \
Items are in the order of work. Keep one item in_progress, and mark each item completed as soon as it is done. \
The result is always the whole list.";

/// The tool.
#[derive(Debug, Clone, Copy, Default)]
pub struct TodoList;

#[async_trait]
impl Tool for TodoList {
    fn spec(&self) -> ToolSpec {
        tool_spec::<TodoArguments>("todo", DESCRIPTION)
    }

    fn toolset(&self) -> &'static str {
        "todo"
    }

    async fn call(&self, context: &ToolContext, arguments: Value) -> ToolOutput {
        match write(context, arguments) {
            Ok(todos) => ToolOutput::json(&view(&todos)),
            Err(bad) => bad.into(),
        }
    }
}

#[derive(Deserialize, JsonSchema)]
struct TodoArguments {
    /// The items to write; absent to read the list.
    todos: Option<Vec<TodoItem>>,
    /// Changes the list instead of replacing it. Default false.
    #[serde(default)]
    merge: bool,
}

/// An item as the model gives it: one that is known may leave things out.
#[derive(Deserialize, JsonSchema)]
struct TodoItem {
    id: NonEmptyString,
    #[schemars(required)]
    content: Option<String>,
    #[serde(default, deserialize_with = "status")]
    #[schemars(required)]
    status: Option<TodoStatus>,
}

/// Reads a status, also by other common words for it.
fn status<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<TodoStatus>, D::Error> {
    let word = String::deserialize(deserializer)?;
    let word = word.trim().to_ascii_lowercase().replace([' ', '-'], "_");
    let word = match word.as_str() {
        "todo" | "" => "pending",
        "active" | "doing" => "in_progress",
        "complete" | "done" => "completed",
        "canceled" => "cancelled",
        other => other,
    };
    TodoStatus::deserialize(word.into_deserializer()).map(Some)
}

fn write(context: &ToolContext, arguments: Value) -> Result<Vec<Todo>, BadArgument> {
    let TodoArguments { todos, merge } = parse(arguments)?;
    let Some(items) = todos else { return Ok(context.notebook.read().todos) };
    context.notebook.write(|notes| {
        let mut todos = if merge { notes.todos.clone() } else { Vec::new() };
        for item in items {
            item.apply(&mut todos)?;
        }
        if todos.len() > MOST {
            return Err(BadArgument::new(format!("a list has at most {MOST} items")));
        }
        notes.todos.clone_from(&todos);
        Ok(todos)
    })
}

impl TodoItem {
    fn apply(self, todos: &mut Vec<Todo>) -> Result<(), BadArgument> {
        let Self { id, content, status } = self;
        let id = id.trim().to_owned();
        let content = content.filter(|content| !content.trim().is_empty());
        if content.as_ref().is_some_and(|content| content.chars().nth(LONGEST).is_some()) {
            return Err(BadArgument::new(format!("`content` is at most {LONGEST} characters")));
        }
        if let Some(known) = todos.iter_mut().find(|todo| todo.id == id) {
            known.content = content.unwrap_or_else(|| known.content.clone());
            known.status = status.unwrap_or(known.status);
            return Ok(());
        }
        let content = content
            .ok_or_else(|| BadArgument::new(format!("item {id:?} is new and needs `content`")))?;
        todos.push(Todo { id, content, status: status.unwrap_or_default() });
        Ok(())
    }
}

fn view(todos: &[Todo]) -> Value {
    let count = |status: TodoStatus| todos.iter().filter(|todo| todo.status == status).count();
    json!({
        "todos": todos,
        "summary": {
            "total": todos.len(),
            "pending": count(TodoStatus::Pending),
            "in_progress": count(TodoStatus::InProgress),
            "completed": count(TodoStatus::Completed),
            "cancelled": count(TodoStatus::Cancelled),
        },
    })
}

#[cfg(test)]
#[path = "todo_tests.rs"]
mod tests;
